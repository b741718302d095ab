package trigger_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/trigger"
)

// kept makes a stored binding and gives its id.
func (g *rig) kept(maker, data string) string {
	g.t.Helper()
	out, err := g.ask(bus.Call{Principal: bus.Principal{ID: maker, Role: bus.RoleWorker}}, trigger.FunctionRegister, data)
	var res struct{ ID string }
	if err != nil || json.Unmarshal([]byte(out), &res) != nil {
		g.t.Fatalf("got %s, %v", out, err)
	}
	return res.ID
}

func (g *rig) parked(id string) string {
	g.t.Helper()
	out, err := g.ask(bus.Call{}, trigger.FunctionInfo, `{"id":"`+id+`"}`)
	var res struct{ Parked string }
	if err != nil || json.Unmarshal([]byte(out), &res) != nil {
		g.t.Fatalf("got %s, %v", out, err)
	}
	return res.Parked
}

func TestStoredBindingsEndWithTheTokenOfTheirMaker(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	p := newProvider()
	if err := g.Provide(trigger.Type{ID: "tick"}, p); err != nil {
		t.Fatal(err)
	}
	id := g.kept("ann", `{"trigger_type":"tick","function_id":"f::g"}`)
	other := g.kept("bob", `{"trigger_type":"tick","function_id":"f::g"}`)
	g.mine(socket("ann", bus.RoleWorker), "mine", "")
	g.Revoke("ann")
	g.Revoke("ann") // again
	if len(p.bound) != 2 || p.bound[other].ID == "" || g.parked(id) != "revoked" || g.parked(other) != "" {
		t.Errorf("bound %v", p.bound)
	}
	if n := strings.Count(g.log.text.String(), "the token of its maker"); n != 1 || len(g.All()) != 3 {
		t.Errorf("told %d times, %v", n, g.All())
	}
	g.provide(socket("q", bus.RoleWorker), "") // nobody gets it any more
	if got := g.parked(id); got != "revoked" {
		t.Errorf("parked: %s", got)
	}
	if got, err := g.ask(bus.Call{Principal: bus.System()}, trigger.FunctionUnregister, `{"id":"`+id+`"}`); err != nil || got != `{"removed":true}` {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestWhoMayNothingAnyMoreIsAskedWhenABindingFires(t *testing.T) {
	t.Parallel()
	var fault error
	g := newRig(t, func(c *trigger.Config, _ *trigger.Delivery) {
		c.Stands = func(_ context.Context, p bus.Principal) (bool, error) { return p.ID != "ann", fault }
	})
	id := g.kept("ann", `{"trigger_type":"state","function_id":"ann::f","config":{"scope":"s"}}`)
	g.kept("bob", `{"trigger_type":"state","function_id":"bob::f","config":{"scope":"s"}}`)
	fault = errDisk
	g.withTime(func() {
		if err := g.State(t.Context(), change("s", "k", "", "1")); err != nil {
			t.Error(err)
		}
	})
	g.calls.none(t)
	if got := g.parked(id); got != "" {
		t.Errorf("parked %s, because the store failed", got)
	}
	fault = nil
	if err := g.State(t.Context(), change("s", "k", "", "1")); err != nil {
		t.Fatal(err)
	}
	if in := g.calls.next(t); in.FunctionID != "bob::f" || g.parked(id) != "revoked" {
		t.Errorf("called %+v", in)
	}
	g.calls.none(t)
	// What a connection bound ends with it, and is not asked about.
	if err := g.bind(socket("ann", bus.RoleWorker), `{"type":"registertrigger","id":"c","trigger_type":"state","function_id":"c::f","config":{"scope":"c"}}`); err != nil {
		t.Fatal(err)
	}
	if err := g.State(t.Context(), change("c", "k", "", "1")); err != nil {
		t.Fatal(err)
	}
	g.calls.next(t)
}

func TestWhyABindingIsParked(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	id := g.kept("ann", `{"trigger_type":"tick","function_id":"f::g"}`)
	if got := g.parked(id); got != "no_provider" {
		t.Errorf("parked: %s", got)
	}
	p := socket("p", bus.RoleWorker)
	g.provide(p, "")
	if got := g.parked(id); got != "" {
		t.Errorf("parked: %s", got)
	}
	g.answer(p, id, &bus.Error{Code: "x", Message: "m"})
	if got := g.parked(id); got != "refused" || !g.log.has("alarm=trigger_parked trigger_id="+id) {
		t.Errorf("parked: %s, %s", got, g.log.text.String())
	}
	g.Drop("p")
	if got := g.parked(id); got != "no_provider" {
		t.Errorf("parked: %s after its provider has gone", got)
	}
}
