package kernel

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/iii-aws/harness/engine/access"
	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/registry"
	"github.com/iii-aws/harness/engine/trigger"
	"github.com/iii-aws/harness/internal/agent"
)

// Every rule that the harness contract lists, spelled out again: an id or a
// glob that goes missing fails here.
const contract = `approval::resolve policy::check_permissions hook-fanout::* state::set state::update state::delete stream::set
stream::update stream::delete stream::send iii::durable::publish publish iii::queue::* queue::define engine::queue::enqueue
engine::register_trigger engine::unregister_trigger engine::registrations::release auth::api_tokens::* engine::workers::register
engine::channels::create configuration::set configuration::register auth::set_token auth::delete_token auth::get_token
auth::connect_ticket run::start run::abort harness::trigger router::* provider::* turn::* ui::* session-inbox::* models::register
models::reconcile context-compaction::* directory::skills::download blob::create_upload session-tree::create session-tree::ensure
session-tree::append session-tree::append_batch session-tree::append_synthetic session-tree::fork session-tree::clone
session-tree::compact session-tree::reconcile session-tree::update_part session-tree::update_parts budget::create budget::update
budget::delete budget::record budget::reset budget::alert_set budget::enforce budget::exempt budget::pause budget::reserve
budget::settle budget::release`

func TestA12EveryKernelDenyHolds(t *testing.T) {
	t.Parallel()
	rules := strings.Fields(contract)
	for _, rule := range rules {
		for _, id := range []string{rule, strings.Replace(rule, "*", "anything::at_all", 1), strings.Replace(rule, "*", "", 1)} {
			if got, denied := Deny(id, bus.Meta{Idempotent: true}); !denied || got != rule {
				t.Errorf("Deny(%q) = %q, %v; want %q", id, got, denied, rule)
			}
		}
	}
	if got := Denies(); len(got) != len(rules) {
		t.Errorf("%d rules, want %d", len(got), len(rules))
	}
}

func TestDenyLeavesTheRestAlone(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", "shell::exec", "State::set", "state::set ", "state::get", "xstate::set", "models::list", "approval::list", "session-tree::messages", "publisher"} {
		if rule, denied := Deny(id, bus.Meta{}); denied {
			t.Errorf("%q is denied by %q", id, rule)
		}
	}
	if rule, denied := Deny("my::own", bus.Meta{Internal: true}); !denied || rule != InternalRule {
		t.Errorf("an internal function: %q, %v", rule, denied)
	}
}

func TestAllow(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		id, args string
		want     bool
	}{
		{"models::list", `{}`, true}, {"engine::functions::info", `{}`, true}, {"blob::read", `{}`, true}, {"auth::status", ``, true},
		{"directory::prompts::get", `{}`, true}, {"auth::get_token", `{}`, false}, {"shell::exec", `{}`, false},
		{"state::get", `{"scope":"notes","key":"a"}`, true}, {"state::list", `{"scope":"notes"}`, true},
		{"state::get", `{"scope":"turn_state"}`, false}, {"state::get", `{}`, false}, {"state::get", `[]`, false}, {"state::get", `{"scope":7}`, false},
		{"state::get", `{"scope":"notes","Scope":"turn_state"}`, false}, {"state::get", `{"scope":"turn_state","scope":"notes"}`, false},
		{"state::list_groups", `{"scope":"notes"}`, false},
	} {
		if rule, ok := Allow(tt.id, json.RawMessage(tt.args), []string{"notes"}); ok != tt.want || ok && rule != tt.id {
			t.Errorf("Allow(%s %s) = %q, %v; want %v", tt.id, tt.args, rule, ok, tt.want)
		}
	}
	if _, ok := Allow("state::get", json.RawMessage(`{"scope":"notes"}`), nil); ok {
		t.Error("a scope is readable that config does not name")
	}
}

// Whatever the jobs share is out of reach.
func TestCheckScopesCoversTheScopesOfTheJobs(t *testing.T) {
	t.Parallel()
	for _, scope := range []string{
		agent.ScopeTurnState, agent.ScopeRunRequest, agent.ScopeControl, agent.ScopeRunAccepted, agent.ScopeSandboxID, agent.ScopeSessionIndex,
		agent.ScopeApprovals, agent.ScopeCallResults, agent.ScopeApprovalReqs, agent.ScopeInbox, agent.ScopeSessionTree, agent.ScopeSessionTree + "s1",
		agent.ScopeSessionTreeMeta, agent.ScopeSubscriptions, agent.ScopeSubscriptions + "s1", access.Scope, registry.Scope, trigger.Scope,
	} {
		if CheckScopes([]string{scope}) == nil {
			t.Errorf("%q can be given to agents", scope)
		}
	}
}

// Arguments play no part: none of these makes a denied function callable.
func TestA12HostileArgumentsChangeNothing(t *testing.T) {
	t.Parallel()
	for _, args := range []string{``, `null`, `[]`, `{`, `"state::get"`, `{"scope":"notes"}`, `{"function_id":"models::list"}`, `{"decision":"allow"}`,
		`{"metadata":{"internal":false}}`, `{"scope":"notes","scope":"turn_state"}`, "{\"scope\":\"notes\\u0000\"}"} {
		for _, rule := range strings.Fields(contract) {
			id := strings.ReplaceAll(rule, "*", "x")
			if got, ok := Allow(id, json.RawMessage(args), []string{"notes"}); ok {
				t.Errorf("%s %s is allowed by %s", id, args, got)
			}
		}
	}
}

func TestCheckScopes(t *testing.T) {
	t.Parallel()
	if err := CheckScopes([]string{"notes", "turn_states", "my:own", "agent_notes", "engineering", "modelsx"}); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"", "*", "a*", "turn_state", "approvals", "api_tokens", "session_tree:s1", "ui_subscriptions:x", "control",
		"engine:triggers", "engine:registrations", "session_tree", "ui_subscriptions", "Turn_State", "agent", "inbox/s1", " notes", "a\nb"} {
		err := CheckScopes([]string{"notes", bad})
		var e *ScopeError
		if !errors.As(err, &e) || e.Index != 1 || e.ErrorCode() != "invalid_config" || e.Retryable() || !strings.Contains(err.Error(), "agent_scopes[1]") {
			t.Errorf("%q: error = %v", bad, err)
		}
	}
}
