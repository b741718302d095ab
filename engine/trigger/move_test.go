package trigger_test

import (
	"testing"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/registry"
	"github.com/iii-aws/harness/engine/trigger"
)

func TestBindingsFollowAReattach(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	p := newProvider()
	if err := g.Provide(trigger.Type{ID: "tick"}, p); err != nil {
		t.Fatal(err)
	}
	a := socket("a", bus.RoleWorker)
	g.mine(a, "same", conf)
	g.mine(a, "other", conf)
	g.mine(a, "left", conf)
	p.heard(t, `bind same {"a":1}`, `bind other {"a":1}`, `bind left {"a":1}`)
	g.Move("a", "b")
	b := a
	b.Connection = "b"
	g.Drop("a") // the old connection has nothing left
	g.Unregister(a, "left")
	// What comes again unchanged goes on, and only once: then it is a repeat like any other.
	g.mine(b, "same", conf)
	p.heard(t)
	g.mine(b, "same", conf)
	p.heard(t, `bind same {"a":1}`)
	g.mine(b, "other", `,"config":{"a":2}`)
	p.heard(t, "unbind other", `bind other {"a":2}`)
	g.Unregister(b, "left")
	p.heard(t, "unbind left")
	g.Drop("b")
	if len(g.All()) != 0 || len(p.bound) != 0 {
		t.Errorf("got %v", g.All())
	}
}

func TestAMovedBindingReachesItsOwnInternalFunctions(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	a := socket("a", bus.RoleWorker)
	p := newProvider()
	if err := g.Provide(trigger.Type{ID: "tick"}, p); err != nil {
		t.Fatal(err)
	}
	g.mine(a, "t", "")
	g.Move("a", "b")
	g.registry.Connect("b", "w-b", "", bus.Principal{})
	if err := g.registry.Register(t.Context(), "b", "default", "f::g", registry.Function{Meta: bus.Meta{Internal: true}}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := g.Fire(t.Context(), p.bound["t"], trigger.Firing{}); err != nil {
		t.Error(err)
	}
	g.Move("b", "c")
	if _, _, err := g.Fire(t.Context(), p.bound["t"], trigger.Firing{}); bus.Code(err) != "FORBIDDEN" {
		t.Errorf("got %v", err)
	}
}

func TestTypesFollowAReattach(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	maker, first, second := socket("m", bus.RoleWorker), socket("p", bus.RoleWorker), socket("q", bus.RoleWorker)
	g.provide(first, "")
	g.mine(maker, "t", conf)
	g.wire.next(t, bound("p", "t", conf))
	g.provide(second, "")
	g.wire.any(t, unbound("p", "t"), bound("q", "t", conf))
	again := first
	again.Connection = "p2"
	g.Move("p", "p2")
	g.provide(again, "") // keeps its place
	g.wire.none(t)
	next := second
	next.Connection = "q2"
	g.wire.set(func(w *wire) { w.gone["q"] = true })
	g.mine(maker, "while", "") // while q is away
	g.Move("q", "q2")
	g.wire.next(t, bound("q2", "while", `,"config":{}`))
	g.answer(second, "t", &bus.Error{Code: "x"}) // the old connection says nothing any more
	g.provide(next, "")
	g.wire.any(t, bound("q2", "t", conf), bound("q2", "while", `,"config":{}`))
	g.Drop("q2")
	g.wire.any(t, bound("p2", "t", conf), bound("p2", "while", `,"config":{}`))
	g.provide(second, "")
	g.wire.any(t, unbound("p2", "t"), unbound("p2", "while"))
	g.provide(again, "") // the second time is no longer the reattach
	g.wire.any(t, bound("p2", "t", conf), bound("p2", "while", `,"config":{}`))
}

func TestAReattachThatIsSeenLate(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	maker, first, second := socket("m", bus.RoleWorker), socket("p", bus.RoleWorker), socket("q", bus.RoleWorker)
	g.provide(first, "")
	g.provide(second, "")
	g.mine(maker, "t", conf)
	g.wire.next(t, bound("q", "t", conf))
	again := first
	again.Connection = "p2"
	g.provide(again, `,"namespace":"default"`) // its replay comes before its reattach
	g.wire.any(t, unbound("q", "t"), bound("p2", "t", conf))
	g.Move("p", "p2")
	// Its place is the old one, so the other provider has the bindings again.
	g.wire.any(t, unbound("p2", "t"), bound("q", "t", conf))
	g.Drop("q")
	g.wire.next(t, bound("p2", "t", conf))
	g.Drop("p2")
	if n := len(g.Types()); n != 2 {
		t.Errorf("%d types are left", n)
	}
}
