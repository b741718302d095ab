package approval

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
)

const remember = `{"session_id":"s1","function_call_id":"c1","decision":"allow","remember":"session"}`

func grantFixture(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t)
	f.turn.calls["s1/c1"] = `{"run":"r1","args_hash":"h1","function_id":"shell::exec","args_excerpt":{"command":"ls"}}`
	return f
}

func TestGrantIsListedAndRevocable(t *testing.T) {
	t.Parallel()
	f := grantFixture(t)
	const none, own = `{"grants":[]}`, `{"session_id":"s1"}`
	if got := f.invoke(alice, "approval::grants", own); got != none {
		t.Errorf("before: %s", got)
	}
	if got := f.invoke(approver, "approval::resolve", remember); got != `{"ok":true}` {
		t.Fatal(got)
	}
	want := `{"grants":[{"function_id":"shell::exec","args_excerpt":{"command":"ls"},"args_hash":"h1","function_call_id":"c1","granted_by":"slack:T1:U1","granted_at":1780000000000}]}`
	for _, p := range []bus.Principal{alice, approver, operator} {
		if got := f.invoke(p, "approval::grants", own); got != want {
			t.Errorf("%s sees %s", p.ID, got)
		}
	}
	// To a stranger there is no such session.
	revoke := `{"session_id":"s1","args_hash":"h1"}`
	if got := f.invoke(bob, "approval::grants", own); got != none {
		t.Errorf("a stranger sees %s", got)
	}
	if got := f.invoke(bob, "approval::revoke", revoke); got != `{"revoked":false}` {
		t.Errorf("a stranger's revoke: %s", got)
	}
	for _, want := range []string{`{"revoked":true}`, `{"revoked":false}`} {
		if got := f.invoke(alice, "approval::revoke", revoke); got != want {
			t.Errorf("revoke: %s, want %s", got, want)
		}
	}
	if got := f.invoke(alice, "approval::grants", own); got != none {
		t.Errorf("after: %s", got)
	}
}

// TestLateDecisionGrantsNothing: the grant stands or falls with the decision
// that it came with.
func TestLateDecisionGrantsNothing(t *testing.T) {
	t.Parallel()
	f := grantFixture(t)
	f.invoke(alice, "approval::resolve", `{"session_id":"s1","function_call_id":"c1","decision":"deny"}`)
	if got := f.invoke(approver, "approval::resolve", remember); got != `{"ok":false,"error":"already_decided","decision":"deny","decided_by":"alice"}` {
		t.Error(got)
	}
	if got := f.invoke(alice, "approval::grants", `{"session_id":"s1"}`); got != `{"grants":[]}` {
		t.Error(got)
	}
}

func TestGrantsOfABadStore(t *testing.T) {
	t.Parallel()
	f := grantFixture(t)
	for id, bad := range map[string][]string{
		"approval::grants": {`{}`, `{"session_id":"a/b"}`}, "approval::revoke": {`{"session_id":"s1"}`, `{"args_hash":"h"}`, `{"session_id":"s1","args_hash":"a/b"}`},
	} {
		for _, data := range bad {
			if _, err := f.Endpoints()[id].Handle(t.Context(), &bus.Call{Principal: alice, Data: json.RawMessage(data)}); bus.Code(err) != "invalid_payload" {
				t.Errorf("%s %s: %v", id, data, err)
			}
		}
	}
	f.put(agent.ScopeApprovalGrants, "s1/bad", `"damaged"`)
	f.put(agent.ScopeApprovalGrants, "s1/h0", `{"function_id":"a::b","args_hash":"h0","granted_at":5}`)
	f.put(agent.ScopeApprovalGrants, "s1/h2", `{"function_id":"a::b","args_hash":"h2","granted_at":5}`)
	f.put(agent.ScopeApprovalGrants, "s1/h9", `{"function_id":"a::b","args_hash":"h9","granted_at":9}`)
	var out grantsResponse
	if err := json.Unmarshal([]byte(f.invoke(alice, "approval::grants", `{"session_id":"s1"}`)), &out); err != nil {
		t.Fatal(err)
	}
	if len(out.Grants) != 3 || out.Grants[0].ArgsHash != "h9" || out.Grants[1].ArgsHash != "h0" {
		t.Errorf("grants %+v", out.Grants)
	}
	boom := &state.StorageError{Op: "x", Err: fmt.Errorf("disk")}
	f.store.submit = func([]state.Write) error { return boom }
	if _, err := f.Endpoints()["approval::revoke"].Handle(t.Context(), &bus.Call{Principal: alice, Data: json.RawMessage(`{"session_id":"s1","args_hash":"h0"}`)}); err == nil {
		t.Error("a failing store revoked")
	}
}
