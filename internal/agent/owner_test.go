package agent

import "testing"

func TestSessionOf(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		scope, key, session string
		owned               bool
	}{
		{ScopeTurnState, "s1", "s1", true},
		{ScopeApprovals, "s1/c1", "s1", true},
		{ScopeInbox, "s1/steering", "s1", true},
		{"session_tree:s1", "entry", "s1", true},
		{"ui_subscriptions:s1", "row", "s1", true},
		{ScopeModelSubscriptions, "c1/b1", "", true},
		{ScopeTurnState, "", "", true},
		{"orders", "o1", "", false},
		{"session_trees", "s1", "", false},
	} {
		if session, owned := SessionOf(tt.scope, tt.key); session != tt.session || owned != tt.owned {
			t.Errorf("%s %s: %q, %v", tt.scope, tt.key, session, owned)
		}
	}
	if !SessionStream(StreamEvents) || SessionStream("orders") {
		t.Error("SessionStream is wrong")
	}
}
