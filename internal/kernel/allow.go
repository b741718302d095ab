package kernel

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/iii-aws/harness/engine/pattern"
)

// allows is what an agent may read where the permissions file says nothing.
// What the answers show is filtered by the turn: functions that policy does
// not deny, and blobs of the same session.
var allows = pattern.MustCompileSet(
	"models::list", "models::get", "models::supports", "auth::list_providers", "auth::status",
	"engine::functions::list", "engine::functions::info",
	"directory::skills::list", "directory::skills::get", "directory::skills::index",
	"directory::prompts::list", "directory::prompts::get", "blob::read",
)

// Allow is the rule that allows a call, if one does. Scopes are those that
// config agent_scopes names: state::get and state::list are allowed on them
// and nowhere else.
func Allow(functionID string, args json.RawMessage, scopes []string) (rule string, allowed bool) {
	if rule, ok := allows.Match(functionID); ok {
		return rule, true
	}
	if functionID != "state::get" && functionID != "state::list" {
		return "", false
	}
	scope, ok := scopeOf(args)
	for _, s := range scopes {
		if ok && s == scope {
			return functionID, true
		}
	}
	return "", false
}

// scopeOf reads the scope argument. An object that names it twice, in any
// spelling that a reader might take for it, names none.
func scopeOf(args json.RawMessage) (string, bool) {
	var m map[string]json.RawMessage
	if json.Unmarshal(args, &m) != nil {
		return "", false
	}
	for k := range m {
		if k != "scope" && strings.EqualFold(k, "scope") {
			return "", false
		}
	}
	var s string
	if json.Unmarshal(m["scope"], &s) != nil || s == "" {
		return "", false
	}
	if again := strings.Count(string(args), `"scope"`); again > 1 {
		return "", false
	}
	return s, true
}

// reserved is the scopes that hold the harness's own state, tokens and
// registrations. Each covers what is built from it with a separator behind:
// session_tree also session_tree:s1.
var reserved = []string{
	"turn_state", "run_request", "event_counter", "control", "run_accepted", "sandbox_id", "session_index",
	"compaction_lease", "prune_lease", "approvals", "call_results", "approval_requests", "approval_grants", "approval_refs", "inbox",
	"session_tree", "session_tree_meta", "session_tree_head", "session_tree_calls", "ui_subscriptions", "ui_model_subscriptions",
	"engine", "api_tokens", "sticky_registrations", "registrations", "triggers", "budgets", "models",
	"agent", // where early versions kept their records
}

// CheckScopes refuses agent_scopes that the harness keeps for itself, letter
// case aside. The error is a *ScopeError.
func CheckScopes(scopes []string) error {
	for i, s := range scopes {
		if s == "" || strings.TrimSpace(s) != s || strings.ContainsAny(s, "*\x00\r\n") {
			return &ScopeError{Index: i, Scope: s, Allowed: "the exact name of a scope"}
		}
		if isReserved(s) {
			return &ScopeError{Index: i, Scope: s, Allowed: "a scope of your own: this one belongs to the harness"}
		}
	}
	return nil
}

func isReserved(scope string) bool {
	scope = strings.ToLower(scope)
	for _, r := range reserved {
		if rest, ok := strings.CutPrefix(scope, r); ok && (rest == "" || strings.IndexByte(":/.", rest[0]) >= 0) {
			return true
		}
	}
	return false
}

// ScopeError is a scope that agents cannot be given.
type ScopeError struct {
	Index   int
	Scope   string
	Allowed string
}

// Error is the text of the error.
func (e *ScopeError) Error() string {
	return fmt.Sprintf("agent_scopes[%d] is %q; allowed: %s", e.Index, e.Scope, e.Allowed)
}

// ErrorCode is invalid_config.
func (e *ScopeError) ErrorCode() string { return "invalid_config" }

// Retryable is false: the configuration has to be changed.
func (e *ScopeError) Retryable() bool { return false }
