package main

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
	"github.com/iii-aws/harness/internal/turn"
	"github.com/iii-aws/harness/internal/viewer"
)

// TestLateViewerOfAParkedTurn: a viewer that comes while a turn waits for a
// person costs at most one wake, however many sweeps there are until then.
func TestLateViewerOfAParkedTurn(t *testing.T) {
	t.Parallel()
	s := openTest(t, &waited{}, quickRules(t))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	system := bus.System()
	invoke := func(id string, p bus.Principal, payload, result any) {
		t.Helper()
		data, err := bus.Encode(payload)
		if err != nil {
			t.Fatal(err)
		}
		out, err := s.router.Worker("test").Invoke(ctx, bus.Invocation{FunctionID: id, Data: data, Principal: &p})
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(out, result); err != nil {
			t.Fatal(err)
		}
	}
	sweep := func() int {
		t.Helper()
		var res turn.SweepResponse
		invoke("turn::sweep", system, struct{}{}, &res)
		return res.Woken
	}
	var started turn.StartResponse
	invoke("run::start", caller, map[string]any{
		"session_id": "s1", "provider": "scripted", "model": "scripted-1", "messages": []agent.Message{agent.User("run true", 1)},
	}, &started)
	parkedCall(t, s, "s1")
	sweep() // the first one of a process wakes every turn that waits
	if _, err := s.jobs.viewers.Subscribe(ctx, viewer.Subscription{Browser: "b", Connection: "c", Session: "s1", Principal: caller}); err != nil {
		t.Fatal(err)
	}
	item, _, err := s.db.State().Get(ctx, state.Key{Scope: agent.ScopeControl, Key: "s1"})
	if err != nil {
		t.Fatal(err)
	}
	var control agent.Control
	if err := json.Unmarshal(item.Value, &control); err != nil || control.Rev == 0 {
		t.Fatalf("control item %s, %v", item.Value, err)
	}
	if n := sweep(); n > 1 {
		t.Errorf("woken %d, want at most 1", n)
	}
	key := state.Key{Scope: agent.ScopeTurnState, Key: "s1"}
	for range s.db.State().Watch(ctx, key) {
		item, _, err := s.db.State().Get(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		var rec struct {
			SeenRev int64 `json:"seen_rev"`
		}
		if err := json.Unmarshal(item.Value, &rec); err != nil {
			t.Fatal(err)
		}
		if rec.SeenRev == control.Rev {
			break
		}
	}
	if ctx.Err() != nil {
		t.Fatalf("the wake did not store rev %d", control.Rev)
	}
	if n := sweep(); n != 0 {
		t.Errorf("the next sweep wakes %d, want none", n)
	}
}
