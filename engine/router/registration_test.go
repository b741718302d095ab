package router_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/router"
)

func TestRegistrations(t *testing.T) {
	t.Parallel()
	g := newRig(t, withAccess(refuse{"x::refused": true}))
	a := g.connect("a")
	g.FixNamespace(a, "shop")
	for _, frame := range []string{
		`{"type":"registerfunction","id":"x::refused"}`,
		`{"type":"registerfunction","id":"engine::foo"}`,
		`{"type":"registerfunction","id":"x::http","invocation":{"url":"https://example.com"}}`,
	} {
		g.send(a, frame)
		got := a.next(t).(*protocol.RegistrationRejected)
		if got.Code != "FUNCTION_NAMESPACE_CONFLICT" || got.Namespace != "shop" || got.OwnerWorkerID != "" || !strings.Contains(frame, got.FunctionID) {
			t.Errorf("%s: got %+v", frame, got)
		}
		if _, ok := g.registry.Lookup("shop", got.FunctionID); ok {
			t.Errorf("%s is stored", got.FunctionID)
		}
	}
	g.send(a, `{"type":"registerfunction","id":"x::ok","description":"d","metadata":{"slow":true},"request_format":{"type":"object"},"response_format":{"type":"string"}}`)
	a.silent(t)
	e, ok := g.registry.Lookup("shop", "x::ok")
	if !ok || e.Description != "d" || !e.Meta.Slow || string(e.RequestSchema) != `{"type":"object"}` || string(e.ResponseSchema) != `{"type":"string"}` || e.WorkerID != "worker-a" || e.Kind != bus.KindSocket {
		t.Errorf("got %+v", e)
	}
	g.send(a, `{"type":"unregisterfunction","id":"x::ok"}`)
	if _, ok := g.registry.Lookup("shop", "x::ok"); ok {
		t.Error("x::ok is still there")
	}
	a.failWith(errors.New("net"))
	g.send(a, `{"type":"registerfunction","id":"engine::foo"}`)
	if !g.log.has("a frame could not be sent") {
		t.Error("a refusal that could not be sent was not logged")
	}
}

// binder is a Triggers that keeps what it is told.
type binder struct {
	got []string
	err error
}

func (b *binder) Register(_ context.Context, c router.Caller, f *protocol.RegisterTrigger) error {
	b.got = append(b.got, "register "+c.Connection+" "+c.WorkerID+" "+c.Namespace+" "+c.Principal.ID+" "+f.ID)
	return b.err
}

func (b *binder) Unregister(c router.Caller, id string) {
	b.got = append(b.got, "unregister "+c.Connection+" "+id)
}

func (b *binder) RegisterType(c router.Caller, f *protocol.RegisterTriggerType) error {
	b.got = append(b.got, "register type "+c.Connection+" "+c.Namespace+" "+f.ID)
	return b.err
}

func (b *binder) UnregisterType(c router.Caller, id string) {
	b.got = append(b.got, "unregister type "+c.Connection+" "+id)
}

func (b *binder) Result(c router.Caller, f *protocol.TriggerRegistrationResult) {
	b.got = append(b.got, "result "+c.Connection+" "+f.ID)
}

func (b *binder) Move(from, to string) { b.got = append(b.got, "move "+from+" "+to) }
func (b *binder) Prune(string)         {}

func (b *binder) Drop(connection string) { b.got = append(b.got, "drop "+connection) }

func TestTriggers(t *testing.T) {
	t.Parallel()
	b := &binder{}
	g := newRig(t, withAccess(refuse{"x::refused": true, "cron": true}), func(c *router.Config) { c.Triggers = b })
	a := g.connect("a")
	for _, tc := range []struct{ frame, code string }{
		{`{"type":"registertrigger","id":"t1","trigger_type":"state","function_id":"x::f","config":{"condition_function_id":"x::ok"}}`, ""},
		{`{"type":"registertrigger","id":"t2","trigger_type":"state","function_id":"x::f","namespace":" "}`, "INVALID_NAMESPACE"},
		{`{"type":"registertrigger","id":"t3","trigger_type":"state","function_id":"x::f","trigger_namespace":""}`, "INVALID_NAMESPACE"},
		{`{"type":"registertrigger","id":"t4","trigger_type":"state","function_id":"x::refused","namespace":"shop"}`, "FORBIDDEN"},
		{`{"type":"registertrigger","id":"t5","trigger_type":"cron","function_id":"x::f"}`, "FORBIDDEN"},
		{`{"type":"registertrigger","id":"t6","trigger_type":"state","function_id":"x::f","config":{"condition_function_id":"x::refused"}}`, "FORBIDDEN"},
		{`{"type":"registertrigger","id":"t8","trigger_type":"http","function_id":"x::f","config":{"middleware_function_ids":["x::ok","x::refused"]}}`, "FORBIDDEN"},
	} {
		g.send(a, tc.frame)
		if tc.code == "" {
			a.silent(t)
			continue
		}
		got := a.next(t).(*protocol.TriggerRegistrationResult)
		if got.Error == nil || got.Error.Code != tc.code || !strings.Contains(tc.frame, `"`+got.ID+`"`) || got.TriggerType == "" || got.FunctionID == "" {
			t.Errorf("%s: got %+v, want %s", tc.frame, got, tc.code)
		}
	}
	b.err = &bus.Error{Code: "trigger_registration_failed", Message: "no"}
	g.send(a, `{"type":"registertrigger","id":"t7","trigger_type":"state","function_id":"x::f"}`)
	if got := a.next(t).(*protocol.TriggerRegistrationResult); got.Error == nil || got.Error.Message != "no" {
		t.Errorf("got %+v", got)
	}
	g.send(a, `{"type":"unregistertrigger","id":"t1","trigger_type":"state"}`)
	g.Detach(a)
	if diff := cmp.Diff([]string{"register a worker-a default p-a t1", "register a worker-a default p-a t7", "unregister a t1", "drop a"}, b.got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	g = newRig(t)
	a = g.connect("a")
	g.send(a, `{"type":"registertrigger","id":"t1","trigger_type":"state","function_id":"x::f"}`)
	if got := a.next(t).(*protocol.TriggerRegistrationResult); got.Error.Code != "trigger_registration_failed" {
		t.Errorf("got %+v", got)
	}
	g.send(a, `{"type":"unregistertrigger","id":"t1"}`)
}

func TestTriggerTypes(t *testing.T) {
	t.Parallel()
	b := &binder{}
	g := newRig(t, withAccess(refuse{"refused": true, "secret": true}), func(c *router.Config) { c.Triggers = b })
	a := g.connect("a")
	declare := func(frame string) {
		t.Helper()
		f, err := protocol.Decode([]byte(`{"type":"registertriggertype","description":"d",` + frame + `}`))
		if err != nil {
			t.Fatal(err)
		}
		g.RegisterTriggerType(a, f.(*protocol.RegisterTriggerType))
	}
	declare(`"id":"mine"`)
	declare(`"id":"refused"`)
	declare(`"id":"mine","namespace":" "`)
	declare(`"id":"mine","namespace":"secret"`)
	declare(`"id":"mine","namespace":"shop"`)
	for _, code := range []string{"FORBIDDEN", "INVALID_NAMESPACE"} {
		if !g.log.has(code) {
			t.Errorf("%s is not in the log", code)
		}
	}
	g.HandleTriggerResult(a, &protocol.TriggerRegistrationResult{ID: "t1"})
	g.UnregisterTriggerType(a, &protocol.UnregisterTriggerType{ID: "mine"})
	a.silent(t)
	if err := g.Tell(t.Context(), "a", &protocol.Ping{}); err != nil {
		t.Fatal(err)
	}
	if _, ok := a.next(t).(*protocol.Ping); !ok {
		t.Error("the frame was not sent")
	}
	g.Detach(a)
	if err := g.Tell(t.Context(), "a", &protocol.Ping{}); !errors.Is(err, bus.ErrGone) {
		t.Errorf("got %v, want gone", err)
	}
	declare(`"id":"late"`)
	g.HandleTriggerResult(a, &protocol.TriggerRegistrationResult{ID: "t1"})
	g.UnregisterTriggerType(a, &protocol.UnregisterTriggerType{ID: "mine"})
	want := []string{"register type a default mine", "register type a default mine", "result a t1", "unregister type a mine", "drop a"}
	if diff := cmp.Diff(want, b.got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	g = newRig(t)
	a = g.connect("a")
	declare(`"id":"mine"`)
	if !g.log.has("this server has no triggers") {
		t.Error("nothing was logged")
	}
}

func TestAnnounce(t *testing.T) {
	t.Parallel()
	g := newRig(t, withAccess(refuse{"secret": true}))
	if err := g.Serve(builtin("engine"), functions(router.FunctionAnnounce), g.Endpoints()); err != nil {
		t.Fatal(err)
	}
	a := g.connect("a")
	announces := 0
	announce := func(c *conn, data string) *protocol.InvocationResult {
		t.Helper()
		announces++
		id := fmt.Sprintf("0d1f0000-0000-4000-8000-%012x", announces)
		g.send(c, `{"type":"invokefunction","invocation_id":"`+id+`","function_id":"engine::workers::register","data":`+data+`}`)
		return c.next(t).(*protocol.InvocationResult)
	}
	for data, code := range map[string]string{
		`{"namespace":""}`:       "INVALID_NAMESPACE",
		`{"namespace":"secret"}`: "FORBIDDEN",
		`{"namespace":5}`:        "deserialization_error",
		`{"pid":"x"}`:            "deserialization_error",
	} {
		if got := announce(a, data); got.Error == nil || got.Error.Code != code {
			t.Errorf("%s: got %+v, want %s", data, got.Error, code)
		}
	}
	if a.fixed != "" {
		t.Errorf("the namespace is fixed to %q by a failed announce", a.fixed)
	}
	got := announce(a, `{"runtime":"node","version":"0.22.1","name":"orders","description":"d","os":"linux","pid":7,"isolation":null,"namespace":"shop","telemetry":{"language":"en"},"features":[1]}`)
	if got.Error != nil || string(got.Result) != `{"success":true}` || a.fixed != "shop" {
		t.Errorf("got %+v, fixed %q", got, a.fixed)
	}
	w, ok := g.registry.Worker("a")
	if !ok || w.Name != "orders" || w.Namespace != "shop" || w.Runtime != "node" || *w.PID != 7 || string(w.Telemetry) != `{"language":"en"}` || w.IP != "127.0.0.1" {
		t.Errorf("got %+v", w)
	}
	if got := announce(a, `{"name":"other","namespace":"elsewhere"}`); string(got.Result) != `{"success":true}` {
		t.Errorf("got %+v", got)
	}
	if w, _ := g.registry.Worker("a"); w.Namespace != "shop" || w.Name != "other" || !g.log.has("announced another namespace") {
		t.Errorf("got %+v", w)
	}
	b := g.connect("b")
	if got := announce(b, `null`); string(got.Result) != `{"success":true}` || b.fixed != "default" {
		t.Errorf("got %+v, fixed %q", got, b.fixed)
	}
	_, err := g.Worker("x").Invoke(t.Context(), bus.Invocation{FunctionID: router.FunctionAnnounce, Data: json.RawMessage(`{"_caller_worker_id":"worker-a"}`)})
	if diff := cmp.Diff(&bus.Error{Code: "deserialization_error", Message: "Failed to deserialize input for engine::workers::register: missing field `_caller_worker_id`"}, err.(*bus.Error)); diff != "" {
		t.Errorf("a built-in worker announced (-want +got):\n%s", diff)
	}
}
