package trigger_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/trigger"
)

// provider keeps what it is told.
type provider struct {
	mu    sync.Mutex
	bound map[string]trigger.Binding
	told  []string
	// refuse answers a bind; nil takes it.
	refuse func(trigger.Binding) error
}

func newProvider() *provider { return &provider{bound: map[string]trigger.Binding{}} }

func (p *provider) Bind(_ context.Context, b trigger.Binding) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told = append(p.told, "bind "+b.ID+" "+string(b.Config))
	if p.refuse != nil {
		if err := p.refuse(b); err != nil {
			return err
		}
	}
	p.bound[b.ID] = b
	return nil
}

func (p *provider) Unbind(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told = append(p.told, "unbind "+id)
	delete(p.bound, id)
}

func (p *provider) heard(t testing.TB, want ...string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if diff := cmp.Diff(want, p.told); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	p.told = nil
}

const tick = `{"type":"registertrigger","id":"t","trigger_type":"tick","function_id":"f::g","config":{"n":1},"metadata":{"m":1}}`

func TestAProviderOfTheBus(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	a := socket("a", bus.RoleWorker)
	if err := g.bind(a, tick); err != nil {
		t.Fatal(err) // parked
	}
	g.declare("tick", "own::f", `{"n":0}`)
	id, err := g.ask(bus.Call{Principal: bus.Principal{ID: "ann"}}, trigger.FunctionRegister, `{"trigger_type":"tick","function_id":"f::kept","config":{"n":2}}`)
	if err != nil {
		t.Fatal(err)
	}
	p := newProvider()
	if err := g.Provide(trigger.Type{ID: "tick", Description: "Ticks", Config: json.RawMessage(`{"type":"object"}`)}, p); err != nil {
		t.Fatal(err)
	}
	if err := g.Provide(trigger.Type{ID: "tick"}, p); err == nil || !strings.Contains(err.Error(), "tick") {
		t.Errorf("provided twice: %v", err)
	}
	if len(p.bound) != 3 {
		t.Fatalf("got %v, want what was parked", p.bound)
	}
	b := p.bound["t"]
	if b.Type != "tick" || b.Namespace != "default" || b.FunctionID != "f::g" || string(b.Metadata) != `{"m":1}` || b.Principal.ID != "p-a" || !b.External || b.Connection != "a" {
		t.Errorf("got %+v", b)
	}
	p.told = nil

	// It replaces, refuses and removes.
	if err := g.bind(a, strings.Replace(tick, `"n":1`, `"n":3`, 1)); err != nil {
		t.Fatal(err)
	}
	p.refuse = func(trigger.Binding) error { return errors.New("no more") }
	want := &bus.Error{Code: "trigger_registration_failed", Message: "no more"}
	if diff := cmp.Diff(want, g.bind(a, strings.Replace(tick, `"n":1`, `"n":4`, 1))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, g.bind(a, strings.Replace(tick, `"t"`, `"t2"`, 1))); diff != "" || len(g.All()) != 3 {
		t.Errorf("%v (-want +got):\n%s", g.All(), diff)
	}
	p.refuse = func(trigger.Binding) error { return &bus.Error{Code: "OWN", Message: "code"} }
	if err := g.bind(a, strings.Replace(tick, `"t"`, `"t2"`, 1)); bus.Code(err) != "OWN" {
		t.Errorf("got %v", err)
	}
	p.refuse = func(trigger.Binding) error { panic("secret") }
	if err := g.bind(a, strings.Replace(tick, `"t"`, `"t2"`, 1)); bus.Code(err) != "trigger_registration_failed" || !g.log.has("alarm=handler_panic") || g.log.has("secret") {
		t.Errorf("got %v, %s", err, g.log.text.String())
	}
	p.heard(t, `bind t {"n":3}`, `bind t {"n":4}`, `bind t2 {"n":1}`, `bind t2 {"n":1}`, `bind t2 {"n":1}`)
	for _, row := range g.All() {
		if row.ID == "t" && string(row.Config) != `{"n":3}` {
			t.Errorf("got %+v: a refused replacement took the binding's place", row)
		}
	}
	p.refuse = nil
	again := a
	again.Connection = "a2" // the same worker on its next connection
	if err := g.bind(again, tick); err != nil {
		t.Fatal(err)
	}
	p.heard(t, "unbind t", `bind t {"n":1}`)
	if err := g.bind(again, strings.Replace(tick, "tick", "state", 1)); err != nil {
		t.Fatal(err)
	}
	p.heard(t, "unbind t")
	if !g.Triggered("any", "k") {
		t.Error("the binding did not change its type")
	}
	g.Unregister(again, "t")
	var res struct{ ID string }
	if err := json.Unmarshal([]byte(id), &res); err != nil {
		t.Fatal(err)
	}
	if got, err := g.ask(bus.Call{Principal: bus.Principal{ID: "ann"}}, trigger.FunctionUnregister, `{"id":"`+res.ID+`"}`); err != nil || got != `{"removed":true}` {
		t.Errorf("got %s, %v", got, err)
	}
	p.heard(t, "unbind "+res.ID)
	if err := g.bind(again, tick); err != nil {
		t.Fatal(err)
	}
	g.Drop("a2")
	p.heard(t, `bind t {"n":1}`, "unbind t")

	// A stored binding that cannot be stored is taken back.
	g.store.writes = true
	if _, err := g.ask(bus.Call{}, trigger.FunctionRegister, `{"trigger_type":"tick","function_id":"f::g","config":{"n":5}}`); bus.Code(err) != "trigger_registration_failed" {
		t.Errorf("got %v", err)
	}
	if len(p.told) != 2 || len(p.bound) != 1 {
		t.Errorf("got %v", p.told)
	}
}

func TestWhatAProviderRefusesIsParked(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	for i := range 3 {
		if err := g.bind(socket("a", bus.RoleWorker), strings.Replace(tick, `"t"`, fmt.Sprintf(`"t%d"`, i), 1)); err != nil {
			t.Fatal(err)
		}
	}
	p := newProvider()
	p.refuse = func(b trigger.Binding) error {
		if b.ID == "t1" {
			return errors.New("not this one")
		}
		return nil
	}
	if err := g.Provide(trigger.Type{ID: "tick"}, p); err != nil {
		t.Fatal(err)
	}
	if len(p.bound) != 2 || len(g.All()) != 3 || !g.log.has("refused by its provider\" trigger_id=t1") {
		t.Errorf("got %v, %s", p.bound, g.log.text.String())
	}
	g.Drop("a")
	if len(p.bound) != 0 || len(g.All()) != 0 {
		t.Errorf("got %v", p.bound)
	}
}

func TestFire(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name                string
		condition, function bus.Handler
		metadata            bool
		result, code        string
		blocked             bool
	}{
		{"fires", returns("true", nil), returns(`{"r":1}`, nil), true, `{"r":1}`, "", false},
		{"without metadata", returns("", nil), returns(`{"r":1}`, nil), false, `{"r":1}`, "", false},
		{"blocked", returns(" false ", nil), returns(`{"r":1}`, nil), true, "", "", true},
		{"condition fails", returns("", &bus.Error{Code: "C"}), returns(`{"r":1}`, nil), true, "", "C", false},
		{"function fails", returns("", nil), returns("", &bus.Error{Code: "F"}), true, "", "F", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			g := newRig(t)
			g.calls.on("f::cond", tc.condition)
			g.calls.on("f::g", tc.function)
			b := trigger.Binding{
				ID: "t", Namespace: "shop", FunctionID: "f::g", Config: json.RawMessage(`{"condition_function_id":"f::cond"}`), Metadata: json.RawMessage(`{"m":1}`),
				Principal: bus.Principal{ID: "ann"},
			}
			ctx := bus.WithCall(t.Context(), &bus.Call{})
			result, blocked, err := g.Fire(ctx, b, trigger.Firing{Payload: json.RawMessage(`{"p":1}`), Metadata: tc.metadata, Timeout: time.Hour})
			if string(result) != tc.result || blocked != tc.blocked || (err == nil) != (tc.code == "") || err != nil && bus.Code(err) != tc.code {
				t.Errorf("got %s, %v, %v", result, blocked, err)
			}
			asked := g.calls.next(t)
			if asked.FunctionID != "f::cond" || asked.Metadata != nil || asked.Namespace != "shop" || string(asked.Data) != `{"p":1}` || asked.Principal.ID != "ann" || asked.Timeout != time.Hour {
				t.Errorf("asked %+v", asked)
			}
			if tc.blocked || tc.code == "C" {
				g.calls.none(t)
				return
			}
			in := g.calls.next(t)
			if in.FunctionID != "f::g" || (string(in.Metadata) == `{"m":1}`) != tc.metadata || in.Principal.ID != "ann" || string(in.Data) != `{"p":1}` || in.Timeout != time.Hour {
				t.Errorf("called %+v", in)
			}
		})
	}
}
