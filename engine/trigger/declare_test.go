package trigger_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/registry"
	"github.com/iii-aws/harness/engine/router"
	"github.com/iii-aws/harness/engine/trigger"
)

const conf = `,"config":{"a":1},"metadata":{"b":2}`

func TestAWorkerProvidesAType(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	maker, p := socket("m", bus.RoleWorker), socket("p", bus.RoleWorker)
	g.mine(maker, "early", conf) // parked: no error
	g.provide(p, "")
	g.wire.next(t, bound("p", "early", conf))
	g.mine(maker, "late", conf+`,"namespace":"shop"`)
	g.wire.next(t, bound("p", "late", conf+`,"namespace":"shop"`))
	g.mine(maker, "late", `,"config":{"a":2}`)
	g.wire.next(t, unbound("p", "late"), bound("p", "late", `,"config":{"a":2}`))
	g.Unregister(socket("x", bus.RoleWorker), "late") // not its own
	g.Unregister(maker, "late")
	g.wire.next(t, unbound("p", "late"))
	g.mine(p, "own", "")
	g.wire.next(t, bound("p", "own", `,"config":{}`))
	g.Drop("m")
	g.wire.next(t, unbound("p", "early"))
	g.Drop("p")
	if len(g.All()) != 0 {
		t.Errorf("got %v", g.All())
	}
	g.wire.none(t)
}

func TestTheLastProviderHasTheBindings(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	maker, p, q := socket("m", bus.RoleWorker), socket("p", bus.RoleWorker), socket("q", bus.RoleWorker)
	g.provide(p, "")
	g.mine(maker, "t", conf)
	g.wire.next(t, bound("p", "t", conf))
	g.provide(q, "")
	g.wire.any(t, unbound("p", "t"), bound("q", "t", conf))
	g.answer(p, "t", &bus.Error{Code: "x"}) // no longer its provider
	g.UnregisterType(socket("x", bus.RoleWorker), "tick")
	g.UnregisterType(q, "nope")
	g.wire.none(t)
	g.UnregisterType(q, "tick")
	g.wire.next(t, bound("p", "t", conf))
	g.provide(q, "")
	g.wire.any(t, unbound("p", "t"), bound("q", "t", conf))
	g.Drop("q")
	g.wire.next(t, bound("p", "t", conf))
	g.Drop("p") // parked
	if got := g.All(); len(got) != 1 {
		t.Errorf("got %v", got)
	}
	g.provide(q, "")
	g.wire.next(t, bound("q", "t", conf))
	// Who provides the type already hears of all again.
	g.provide(q, "")
	g.wire.next(t, bound("q", "t", conf))
	g.wire.none(t)
}

func TestAWorkerReplacesATypeOfTheBus(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	own := newProvider()
	if err := g.Provide(trigger.Type{ID: "tick"}, own); err != nil {
		t.Fatal(err)
	}
	g.declare("tick", "turn::f", `{}`)
	g.mine(socket("m", bus.RoleWorker), "t", conf)
	own.heard(t, "bind w-turn::f/turn::f/tick/0 {}", `bind t {"a":1}`)
	p := socket("p", bus.RoleWorker)
	g.provide(p, "")
	g.wire.next(t, bound("p", "t", conf))
	own.heard(t, "unbind t") // but the bus keeps its own
	g.Drop("p")
	own.heard(t, `bind t {"a":1}`)
	own.refuse = func(trigger.Binding) error { return errors.New("full") }
	g.provide(p, "")
	g.wire.next(t, bound("p", "t", conf))
	g.UnregisterType(p, "tick")
	g.wire.next(t, `m {"type":"triggerregistrationresult","id":"t","trigger_type":"tick","function_id":"f::g","error":{"code":"trigger_registration_failed","message":"full"}}`)
	g.provide(p, "")
	g.wire.next(t, bound("p", "t", conf))
	if err := g.RegisterType(p, &protocol.RegisterTriggerType{ID: "engine::functions-available"}); bus.Code(err) != "FORBIDDEN" {
		t.Errorf("got %v", err)
	}
}

func TestWhereAProviderIsLookedFor(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	common, shop := socket("p", bus.RoleWorker), socket("s", bus.RoleWorker)
	shop.Namespace = "shop"
	maker := socket("m", bus.RoleWorker)
	maker.Namespace = "shop"
	g.provide(common, "")
	g.mine(maker, "home", "")
	g.mine(maker, "default", `,"trigger_namespace":"default"`)
	g.mine(maker, "strict", `,"trigger_namespace":"shop"`) // parked: default is not looked at
	g.mine(maker, "nowhere", `,"trigger_namespace":"nowhere"`)
	g.wire.any(t, bound("p", "home", `,"config":{}`), bound("p", "default", `,"config":{}`))
	g.provide(shop, "") // appears in the home namespace
	g.wire.any(t, unbound("p", "home"), bound("s", "home", `,"config":{},"trigger_namespace":"shop"`), bound("s", "strict", `,"config":{},"trigger_namespace":"shop"`))
	g.UnregisterType(shop, "tick")
	g.wire.next(t, bound("p", "home", `,"config":{}`))
	g.provide(common, `,"namespace":"nowhere"`)
	g.wire.next(t, bound("p", "nowhere", `,"config":{},"trigger_namespace":"nowhere"`))
	types := func() string {
		var out []string
		for _, k := range g.Types() {
			if k.ID == "tick" {
				out = append(out, k.Namespace)
			}
		}
		return strings.Join(out, " ")
	}
	if got := types(); got != "default nowhere" {
		t.Errorf("types in %s", got)
	}
	g.UnregisterType(common, "tick") // wherever it is
	if got := types(); got != "" {
		t.Errorf("types in %s", got)
	}
	g.wire.none(t)
}

func TestAProviderThatRefuses(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	maker, p := socket("m", bus.RoleWorker), socket("p", bus.RoleWorker)
	g.provide(p, "")
	g.mine(maker, "t", conf)
	g.wire.next(t, bound("p", "t", conf))
	no := &bus.Error{Code: "trigger_registration_failed", Message: "no"}
	g.answer(maker, "t", no) // not the provider
	g.Result(p, &protocol.TriggerRegistrationResult{ID: "t", TriggerType: "other", Error: no})
	g.answer(p, "nope", no)
	g.answer(p, "t", nil)
	g.wire.none(t)
	g.answer(p, "t", no)
	const told = `m {"type":"triggerregistrationresult","id":"t","trigger_type":"tick","function_id":"f::g","error":{"code":"trigger_registration_failed","message":"no"}}`
	g.wire.next(t, told)
	if got := g.All(); len(got) != 1 {
		t.Errorf("got %v, want a parked binding", got)
	}
	g.answer(p, "t", no) // it is parked by now
	g.wire.none(t)
	// Another provider gets it, and its end sends nothing to who refused.
	q := socket("q", bus.RoleWorker)
	g.provide(q, "")
	g.wire.next(t, bound("q", "t", conf))
	g.UnregisterType(q, "tick")
	g.wire.none(t)
	// So does the same one that comes again.
	g.provide(p, "")
	g.wire.next(t, bound("p", "t", conf))
	g.answer(p, "t", no)
	g.wire.next(t, told)
	g.Unregister(maker, "t")
	g.wire.none(t)

	g.wire.set(func(w *wire) { w.fail = bus.ErrTooLarge })
	g.mine(maker, "t", conf)
	for !g.log.has("a refused trigger was not told") {
		runtime.Gosched()
	}
	if !g.log.has("refused by its provider") {
		t.Errorf("logged %s", g.log.text.String())
	}
}

func TestASlowProviderHearsTheLatest(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	maker, p := socket("m", bus.RoleWorker), socket("p", bus.RoleWorker)
	g.wire.set(func(w *wire) { w.gone["p"] = true }) // nothing gets through
	g.provide(p, "")
	for i := range 100 {
		g.mine(maker, "t", fmt.Sprintf(`,"config":%d`, i))
		g.mine(maker, fmt.Sprintf("gone%d", i), "")
		g.Unregister(maker, fmt.Sprintf("gone%d", i))
	}
	g.Move("p", "p2")
	g.wire.next(t, bound("p2", "t", `,"config":99`))
	g.mine(maker, "end", "")
	g.wire.next(t, bound("p2", "end", `,"config":{}`))
	g.wire.none(t)
}

func TestStoredBindingsWaitForTheirProvider(t *testing.T) {
	t.Parallel()
	const ask = `{"trigger_type":"tick","function_id":"f::g","config":{"a":1}}`
	start := func(t *testing.T) (*rig, router.Caller, chan error) {
		g := newRig(t)
		p := socket("p", bus.RoleWorker)
		g.provide(p, "")
		done := make(chan error, 1)
		go func() {
			_, err := g.ask(bus.Call{Connection: "c", Principal: bus.Principal{ID: "ann"}}, trigger.FunctionRegister, ask)
			done <- err
		}()
		frame := <-g.wire.sent
		if !strings.Contains(frame, `p {"type":"registertrigger","id":"`) {
			t.Fatalf("got %s", frame)
		}
		g.clock.BlockUntil(1)
		return g, p, done
	}
	id := func(g *rig) string { return g.All()[0].ID }
	t.Run("agrees", func(t *testing.T) {
		t.Parallel()
		g, p, done := start(t)
		g.answer(p, id(g), nil)
		if err := <-done; err != nil || len(g.All()) != 1 {
			t.Errorf("got %v, %v", err, g.All())
		}
		g.open() // a restart: parked until the provider is back
		g.provide(p, "")
		g.wire.next(t, bound("p", id(g), `,"config":{"a":1}`))
	})
	t.Run("refuses", func(t *testing.T) {
		t.Parallel()
		g, p, done := start(t)
		g.answer(p, id(g), &bus.Error{Code: "trigger_registration_failed", Message: "no"})
		if diff := cmp.Diff(&bus.Error{Code: "trigger_registration_failed", Message: "no"}, <-done); diff != "" || len(g.All()) != 0 {
			t.Errorf("%v (-want +got):\n%s", g.All(), diff)
		}
		g.open()
		if len(g.All()) != 0 {
			t.Errorf("got %v: it was stored", g.All())
		}
	})
	t.Run("says nothing", func(t *testing.T) {
		t.Parallel()
		g, _, done := start(t)
		g.clock.Advance(trigger.AckTimeout - 1)
		select {
		case err := <-done:
			t.Errorf("did not wait: %v", err)
		default:
		}
		g.clock.Advance(1)
		if err := <-done; err != nil || len(g.All()) != 1 {
			t.Errorf("got %v, %v", err, g.All())
		}
	})
	t.Run("goes", func(t *testing.T) {
		t.Parallel()
		g, _, done := start(t)
		g.Drop("p")
		if err := <-done; err != nil || len(g.All()) != 1 {
			t.Errorf("got %v, %v: want a parked binding", err, g.All())
		}
	})
	t.Run("is removed meanwhile", func(t *testing.T) {
		t.Parallel()
		g, _, done := start(t)
		if got, err := g.ask(bus.Call{Principal: bus.System()}, trigger.FunctionUnregister, `{"id":"`+id(g)+`"}`); err != nil || got != `{"removed":true}` {
			t.Errorf("got %s, %v", got, err)
		}
		if err := <-done; bus.Code(err) != "trigger_registration_failed" || len(g.All()) != 0 {
			t.Errorf("got %v, %v", err, g.All())
		}
	})
}

func TestBoundsOfAConnection(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	p := socket("p", bus.RoleWorker)
	g.attached(p)
	for i := range trigger.MaxTypes {
		if err := g.RegisterType(p, &protocol.RegisterTriggerType{ID: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.RegisterType(p, &protocol.RegisterTriggerType{ID: "more"}); bus.Code(err) != "trigger_registration_failed" {
		t.Errorf("got %v", err)
	}
	if err := g.RegisterType(p, &protocol.RegisterTriggerType{ID: "7"}); err != nil {
		t.Errorf("one that it has: %v", err)
	}
	g.Drop("p")
	if n := len(g.Types()); n != 2 {
		t.Errorf("%d types are left, want those of the bus", n)
	}
	for i := range trigger.MaxBindings {
		g.mine(p, fmt.Sprint(i), "")
	}
	if err := g.bind(p, tick); bus.Code(err) != "trigger_registration_failed" {
		t.Errorf("got %v", err)
	}
	g.mine(p, "7", conf)
	if err := g.bind(socket("m", bus.RoleWorker), strings.Replace(tick, `{"n":1}`, `"`+strings.Repeat("x", trigger.MaxConfig)+`"`, 1)); bus.Code(err) != "trigger_registration_failed" {
		t.Errorf("got %v", err)
	}
	g.Drop("p")
	if len(g.All()) != 0 {
		t.Errorf("%d triggers are left", len(g.All()))
	}
}

func TestWorkerTypesInLists(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.registry.Connect("p", "P", "", bus.Principal{})
	p := socket("p", bus.RoleWorker)
	g.provide(p, `,"config_schema":{"type":"object"},"call_request_format":{"type":"string"}`)
	get := func() string {
		t.Helper()
		got, err := g.ask(bus.Call{}, trigger.FunctionTypesInfo, `{"id":"tick"}`)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	g.mine(socket("m", bus.RoleWorker), "t", "")
	const want = `{"id":"tick","namespace":"default","worker_name":"%s","description":"d","configuration_schema":%s,"request_schema":{"type":"string"},"instance_count":1}`
	if diff := cmp.Diff(fmt.Sprintf(want, "tick", `{"type":"object"}`), get()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	g.registry.Announce("p", registry.Announcement{Name: "ticker"})
	g.provide(p, `,"trigger_request_format":{"type":"number"},"config_schema":{"type":"object"},"call_request_format":{"type":"string"}`)
	if diff := cmp.Diff(fmt.Sprintf(want, "ticker", `{"type":"number"}`), get()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got, err := g.ask(bus.Call{}, trigger.FunctionInfo, `{"id":"t"}`)
	var info struct {
		Trigger *struct{ ID string } `json:"trigger"`
	}
	if err != nil || json.Unmarshal([]byte(got), &info) != nil || info.Trigger == nil || info.Trigger.ID != "tick" {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestAClosedConnectionRegistersNothing(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	p := socket("p", bus.RoleWorker)
	g.attached(p)
	g.registry.Disconnect("p")
	g.Drop("p")
	if err := g.RegisterType(p, &protocol.RegisterTriggerType{ID: "tick"}); bus.Code(err) != "trigger_registration_failed" {
		t.Errorf("a type: got %v", err)
	}
	if err := g.Register(t.Context(), p, &protocol.RegisterTrigger{ID: "t", TriggerType: "state", FunctionID: "f::g"}); bus.Code(err) != "trigger_registration_failed" {
		t.Errorf("a trigger: got %v", err)
	}
	if len(g.All()) != 0 || len(g.Types()) != 2 {
		t.Errorf("left %v, %v", g.All(), g.Types())
	}
}

func TestWithoutAWayToSend(t *testing.T) {
	t.Parallel()
	g := newRig(t, func(c *trigger.Config, _ *trigger.Delivery) { c.Send = nil })
	if err := g.RegisterType(socket("p", bus.RoleWorker), &protocol.RegisterTriggerType{ID: "tick"}); bus.Code(err) != "trigger_registration_failed" {
		t.Errorf("got %v", err)
	}
}
