package agent

import "strings"

// keyed are the scopes whose keys are sessions, or start with one and a slash.
var keyed = map[string]bool{
	ScopeTurnState: true, ScopeRunRequest: true, ScopeControl: true, ScopeRunAccepted: true, ScopeSandboxID: true, ScopeSessionIndex: true,
	ScopeApprovals: true, ScopeCallResults: true, ScopeApprovalGrants: true, ScopeApprovalReqs: true, ScopeInbox: true,
	ScopeSessionTreeMeta: true, "session_tree_head": true, "session_tree_calls": true, "event_counter": true,
	"compaction_lease": true, "prune_lease": true, "approval_refs": true,
}

// SessionOf is the session that a value of the state store belongs to. Owned is
// false for values that the harness has nothing to do with. A value that is its
// own, and no session's, is owned by the session with the empty id, which is
// nobody's.
func SessionOf(scope, key string) (session string, owned bool) {
	for _, prefix := range []string{ScopeSessionTree, ScopeSubscriptions} {
		if rest, ok := strings.CutPrefix(scope, prefix); ok {
			return rest, true
		}
	}
	if keyed[scope] {
		session, _, _ = strings.Cut(key, "/")
		return session, true
	}
	return "", scope == ScopeModelSubscriptions
}

// SessionStream reports whether the groups of a stream are sessions.
func SessionStream(name string) bool { return strings.HasPrefix(name, "agent::") }
