package trigger_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/registry"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/engine/trigger"
)

// ask calls one of the functions.
func (g *rig) ask(call bus.Call, function, data string) (string, error) {
	g.t.Helper()
	call.Data = json.RawMessage(data)
	out, err := g.Endpoints()[function].Handle(g.t.Context(), &call)
	return string(out), err
}

func TestTriggerLists(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.registry.Connect("b", "B", "", bus.Principal{})
	g.registry.Announce("b", registry.Announcement{Name: "ora-b"})
	if err := g.registry.Register(t.Context(), "b", "default", "ora::listed", registry.Function{Description: "a listed fn"}); err != nil {
		t.Fatal(err)
	}
	b := socket("b", bus.RoleWorker)
	for _, frame := range []string{
		`{"type":"registertrigger","id":"t1","trigger_type":"state","function_id":"ora::listed","config":{"scope":"l"},"metadata":{"a":1}}`,
		`{"type":"registertrigger","id":"t2","trigger_type":"durable:subscriber","function_id":"hook::f","config":{"topic":"agent::x"}}`,
		`{"type":"registertrigger","id":"t3","trigger_type":"state","function_id":"engine::internal","config":{}}`,
	} {
		if err := g.bind(b, frame); err != nil {
			t.Fatal(err)
		}
	}
	const (
		t1 = `{"id":"t1","trigger_type":"state","function_id":"ora::listed","worker_name":"ora-b","config":{"scope":"l"},"config_summary":"{\"scope\":\"l\"}"}`
		t2 = `{"id":"t2","trigger_type":"durable:subscriber","function_id":"hook::f","worker_name":"hook","config":{"topic":"agent::x"},"config_summary":"{\"topic\":\"agent::x\"}"}`
		t3 = `{"id":"t3","trigger_type":"state","function_id":"engine::internal","worker_name":"engine","config":{},"config_summary":"{}"}`
		st = `{"id":"state","namespace":"default","worker_name":"engine","description":"Calls a function when a value of the state changes"}`
		sr = `{"id":"stream","namespace":"default","worker_name":"engine","description":"Calls a function when an item of a stream changes"}`
		fn = `{"function_id":"ora::listed","namespace":"default","worker_name":"ora-b","description":"a listed fn","registered_triggers":[{"id":"t1","trigger_type":"state","config":{"scope":"l"}}]}`
	)
	rows := func(r ...string) string { return `{"registered_triggers":[` + strings.Join(r, ",") + `]}` }
	types := func(r ...string) string { return `{"triggers":[` + strings.Join(r, ",") + `]}` }
	for _, tc := range []struct{ function, data, want, code, message string }{
		{function: "engine::registered-triggers::list", data: `{}`, want: rows(t1, t2)},
		{function: "engine::registered-triggers::list", data: `{"include_internal":true}`, want: rows(t1, t2, t3)},
		{function: "engine::registered-triggers::list", data: `{"trigger_type":"durable:subscriber"}`, want: rows(t2)},
		{function: "engine::registered-triggers::list", data: `{"function_id":"ora::listed"}`, want: rows(t1)},
		{function: "engine::registered-triggers::list", data: `{"worker":"ora-b"}`, want: rows(t1)},
		{function: "engine::registered-triggers::list", data: `{"search":"AGENT"}`, want: rows(t2)},
		{function: "engine::registered-triggers::list", data: `{"search":"zz"}`, want: rows()},
		{function: "engine::triggers::list", data: `{}`, want: types(st, sr)},
		{function: "engine::triggers::list", data: `{"prefix":"str"}`, want: types(sr)},
		{function: "engine::triggers::list", data: `{"search":"value"}`, want: types(st)},
		{function: "engine::triggers::list", data: `{"worker":"engine"}`, want: types(st, sr)},
		{function: "engine::triggers::info", data: `{"id":"nope"}`, code: "NOT_FOUND", message: "Trigger type 'nope' is not registered in namespace 'default'."},
		{function: "engine::triggers::info", data: `{"id":"state","namespace":"shop"}`, code: "NOT_FOUND", message: "Trigger type 'state' is not registered in namespace 'shop'."},
		{function: "engine::registered-triggers::info", data: `{"id":"nope"}`, code: "NOT_FOUND", message: "Registered trigger 'nope' was not found."},
		{function: "engine::registered-triggers::info", data: `{"id":"t2"}`, want: `{"id":"t2","trigger_type":"durable:subscriber","function_id":"hook::f","worker_name":"hook","config":{"topic":"agent::x"},"trigger":null,"function":null,"parked":"no_provider"}`},
		{function: "engine::registered-triggers::info", data: `{}`, code: "deserialization_error", message: "Failed to deserialize input for engine::registered-triggers::info: missing field `id`"},
	} {
		got, err := g.ask(bus.Call{}, tc.function, tc.data)
		if tc.code != "" {
			if diff := cmp.Diff(&bus.Error{Code: tc.code, Message: tc.message}, bus.AsError(err)); diff != "" {
				t.Errorf("%s %s (-want +got):\n%s", tc.function, tc.data, diff)
			}
			continue
		}
		if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
			t.Errorf("%s %s: %v (-want +got):\n%s", tc.function, tc.data, err, diff)
		}
	}
	got, err := g.ask(bus.Call{}, "engine::triggers::info", `{"id":"state"}`)
	if err != nil || !strings.HasPrefix(got, strings.TrimSuffix(st, "}")+`,"configuration_schema":{`) || !strings.HasSuffix(got, `,"instance_count":2}`) || !strings.Contains(got, `"request_schema":{`) {
		t.Errorf("got %s, %v", got, err)
	}
	got, err = g.ask(bus.Call{}, "engine::registered-triggers::info", `{"id":"t1"}`)
	if err != nil || !strings.Contains(got, `"metadata":{"a":1},"trigger":{"id":"state"`) || !strings.HasSuffix(got, `,"function":`+fn+`}`) {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestStoredBindings(t *testing.T) {
	t.Parallel()
	refuse := func(c *trigger.Config, _ *trigger.Delivery) {
		c.Authorize = func(call *bus.Call, _, _, id string) error {
			if id == "x::refused" && call.Connection != "" {
				return &bus.Error{Code: "FORBIDDEN", Message: "not in the list"}
			}
			return nil
		}
	}
	g := newRig(t, refuse)
	ann := bus.Call{Connection: "c1", Principal: bus.Principal{ID: "ann", Role: bus.RoleClient}}
	for _, tc := range []struct{ data, code string }{
		{`{"function_id":"f::g"}`, "deserialization_error"},
		{`{"trigger_type":"state","function_id":"f::g","config":"str"}`, "trigger_registration_failed"},
		{`{"trigger_type":"state","function_id":"f::g","trigger_namespace":" "}`, "INVALID_NAMESPACE"},
		{`{"trigger_type":"state","function_id":"x::refused"}`, "FORBIDDEN"},
		{`{"trigger_type":"state","function_id":"f::g","config":{"condition_function_id":"x::refused"}}`, "FORBIDDEN"},
		{`{"trigger_type":"http","function_id":"f::g","config":{"middleware_function_ids":["x::refused"]}}`, "FORBIDDEN"},
	} {
		if _, err := g.ask(ann, trigger.FunctionRegister, tc.data); bus.Code(err) != tc.code {
			t.Errorf("%s: got %v, want %s", tc.data, err, tc.code)
		}
	}
	make := func(call bus.Call, data string) string {
		t.Helper()
		out, err := g.ask(call, trigger.FunctionRegister, data)
		var res struct{ ID string }
		if err != nil || json.Unmarshal([]byte(out), &res) != nil || res.ID == "" {
			t.Fatalf("got %s, %v", out, err)
		}
		return res.ID
	}
	id := make(ann, `{"trigger_type":"state","function_id":"f::g","config":{"scope":"s"},"metadata":{"m":1}}`)
	parked := make(ann, `{"trigger_type":"cron","function_id":"f::g","config":null,"metadata":null}`)
	other := make(ann, `{"trigger_type":"state","function_id":"f::g","config":{"scope":"o"},"trigger_namespace":"shop"}`)
	g.Drop("c1") // its maker's connection ends
	before := fmt.Sprint(g.All())

	g.open(refuse) // the bus starts again
	if diff := cmp.Diff(before, fmt.Sprint(g.All())); diff != "" {
		t.Errorf("after a restart (-want +got):\n%s", diff)
	}
	if !g.Triggered("s", "k") || g.Triggered("o", "k") {
		t.Error("the stored bindings are wrong")
	}
	if err := g.State(t.Context(), change("s", "k", "", "1")); err != nil {
		t.Fatal(err)
	}
	if in := g.calls.next(t); in.Principal.ID != "ann" || string(in.Metadata) != `{"m":1}` {
		t.Errorf("got %+v", in)
	}

	bob := bus.Call{Connection: "c2", Principal: bus.Principal{ID: "bob", Role: bus.RoleWorker}}
	operator := bus.Call{Connection: "c3", Principal: bus.Principal{ID: "op", Role: bus.RoleOperator}}
	for _, tc := range []struct {
		name string
		call bus.Call
		data string
		want string
	}{
		{"a stranger", bob, `{"id":"` + id + `"}`, `{"removed":false}`},
		{"unknown", ann, `{"id":"nope"}`, `{"removed":false}`},
		{"its maker", ann, `{"id":"` + id + `","trigger_type":"state"}`, `{"removed":true}`},
		{"again", ann, `{"id":"` + id + `"}`, `{"removed":false}`},
		{"an operator", operator, `{"id":"` + parked + `"}`, `{"removed":true}`},
	} {
		if got, err := g.ask(tc.call, trigger.FunctionUnregister, tc.data); err != nil || got != tc.want {
			t.Errorf("%s: got %s, %v, want %s", tc.name, got, err, tc.want)
		}
	}
	g.open(refuse)
	if rows := g.All(); len(rows) != 1 || rows[0].ID != other {
		t.Errorf("got %v", rows)
	}

	g.store.writes = true
	if _, err := g.ask(ann, trigger.FunctionRegister, `{"trigger_type":"state","function_id":"f::g"}`); bus.Code(err) != "trigger_registration_failed" {
		t.Errorf("got %v", err)
	}
	if _, err := g.ask(operator, trigger.FunctionUnregister, `{"id":"`+other+`"}`); bus.Code(err) != "unregister_failed" || len(g.All()) != 1 {
		t.Errorf("got %v, %v", err, g.All())
	}
}

func TestUnregisterOfABindingOfAConnection(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	if err := g.bind(socket("a", bus.RoleWorker), `{"type":"registertrigger","id":"t","trigger_type":"state","function_id":"f::g"}`); err != nil {
		t.Fatal(err)
	}
	g.declare("state", "f::own", `{}`)
	for _, tc := range []struct {
		call bus.Call
		id   string
		want string
	}{
		{bus.Call{Connection: "b", Principal: bus.Principal{ID: "p-a", Role: bus.RoleOperator}}, "t", `{"removed":false}`},
		{bus.Call{Principal: bus.System()}, "t", `{"removed":false}`},
		{bus.Call{Principal: bus.System()}, "w-f::own/f::own/state/0", `{"removed":false}`},
		{bus.Call{Connection: "a"}, "t", `{"removed":true}`},
	} {
		if got, err := g.ask(tc.call, trigger.FunctionUnregister, `{"id":"`+tc.id+`"}`); err != nil || got != tc.want {
			t.Errorf("%+v: got %s, %v, want %s", tc.call, got, err, tc.want)
		}
	}
}

func TestStoredBindingsOfSocketsReachNoInternalFunctions(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	err := g.registry.RegisterBuiltin(registry.Builtin{Name: "turn"}, map[string]registry.Function{"turn::sweep": {Meta: bus.Meta{Internal: true}}}, map[string]bus.Handler{"turn::sweep": returns("", nil)})
	if err != nil {
		t.Fatal(err)
	}
	ask := `{"trigger_type":"state","function_id":"turn::sweep"}`
	if _, err := g.ask(bus.Call{Connection: "c"}, trigger.FunctionRegister, ask); bus.Code(err) != "FORBIDDEN" {
		t.Errorf("a socket got %v", err)
	}
	if _, err := g.ask(bus.Call{Worker: "turn"}, trigger.FunctionRegister, ask); err != nil {
		t.Errorf("a built-in worker got %v", err)
	}
}

func TestStoredRowsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	cfg := trigger.Config{State: g.store, Registry: g.registry, IDs: nil}
	if _, err := trigger.NewTable(t.Context(), cfg); err == nil {
		t.Error("a table without ids was made")
	}
	put := func(value string) {
		t.Helper()
		if _, err := state.Do(t.Context(), g.store, state.Set(trigger.Scope, "x", json.RawMessage(value))); err != nil {
			t.Fatal(err)
		}
	}
	put(`{"id":"x","trigger_type":"stream","namespace":"default","function_id":"f::g","config":{},"principal":{"id":"p","role":"worker"}}`)
	g.open()
	if rows := g.All(); len(rows) != 1 || !g.log.has("alarm=trigger_parked") {
		t.Errorf("got %v: a config that is no longer understood is kept and told", rows)
	}
	put(`7`)
	bad := func() error {
		_, err := trigger.NewTable(t.Context(), trigger.Config{State: g.store, Registry: g.registry, IDs: ids{}})
		return err
	}
	if err := bad(); err == nil || !strings.Contains(err.Error(), "engine:triggers/x") {
		t.Errorf("got %v, want an error that names the row", err)
	}
	g.store.lists = true
	if err := bad(); !errors.Is(err, errDisk) {
		t.Errorf("got %v", err)
	}
}

type ids struct{}

func (ids) UUID() string               { return "id" }
func (ids) Read(p []byte) (int, error) { return len(p), nil }
