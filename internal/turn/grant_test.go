package turn

import (
	"context"
	"errors"
	"testing"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
	"github.com/iii-aws/harness/internal/turn/step"
)

// grant lets a call pass in a session.
func (w *world) grant(session, functionID string, args any) {
	w.t.Helper()
	hash := step.ArgsHash(functionID, encode(args))
	w.setRow(agent.ScopeApprovalGrants, session+"/"+hash, agent.Grant{FunctionID: functionID, ArgsHash: hash})
}

// TestStandingGrant: the same call passes in its session, nothing else does,
// and a deny beats it.
func TestStandingGrant(t *testing.T) {
	t.Parallel()
	args := map[string]int{"a": 1}
	for _, tt := range []struct {
		name    string
		prepare func(*world)
		want    string // ran, parked, denied
	}{
		{"the same call", func(w *world) { w.grant("s1", "ask::x", args) }, "ran"},
		{"none", func(*world) {}, "parked"},
		{"other arguments", func(w *world) { w.grant("s1", "ask::x", map[string]int{"a": 2}) }, "parked"},
		{"another function", func(w *world) { w.grant("s1", "ask::y", args) }, "parked"},
		{"another session", func(w *world) { w.grant("s2", "ask::x", args) }, "parked"},
		{"a row that is not its key's", func(w *world) {
			w.setRow(agent.ScopeApprovalGrants, "s1/"+step.ArgsHash("ask::x", encode(args)), agent.Grant{FunctionID: "ask::x", ArgsHash: "other"})
		}, "parked"},
		{"a row that cannot be read", func(w *world) {
			w.setRow(agent.ScopeApprovalGrants, "s1/"+step.ArgsHash("ask::x", encode(args)), "damaged")
		}, "parked"},
		{"a store that fails", func(w *world) {
			w.grant("s1", "ask::x", args)
			w.breaks("get:"+agent.ScopeApprovalGrants, 1, errRead)
		}, "parked"},
		{"a deny", func(w *world) {
			w.grant("s1", "ask::x", args)
			w.bus.on("policy::check_permissions", func(context.Context, *bus.Call) (any, error) {
				return map[string]string{"decision": "deny", "rule_id": "no"}, nil
			})
		}, "denied"},
		{"what a hook made of it", func(w *world) {
			w.grant("s1", "ask::x", args)
			w.hooked(TopicBefore, 1, replies(`{"arguments":{"a":2}}`))
		}, "parked"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			x := w.simple("ask::x")
			tt.prepare(w)
			w.model.plays(wants(want("ask::x", args)), says("ok"))
			w.start("s1", "go")
			if tt.want == "parked" {
				w.parked("s1")
			} else {
				w.ended("s1")
			}
			if ran := x.count() == 1; ran != (tt.want == "ran") || x.count() > 1 {
				t.Errorf("ran %d times, want %s", x.count(), tt.want)
			}
		})
	}
}

var errRead = &state.StorageError{Op: "get", Err: errors.New("disk")}
