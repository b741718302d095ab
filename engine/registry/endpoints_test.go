package registry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/registry"
)

type bound struct{}

func (bound) Types() []registry.TriggerType {
	return []registry.TriggerType{{ID: "state", Namespace: "default", WorkerName: "iii-state", Description: "State trigger"}}
}

func (bound) All() []registry.Trigger {
	return []registry.Trigger{
		{ID: "t1", Type: "state", Namespace: "default", FunctionID: "ora::listed", Config: json.RawMessage(`{"scope":"l"}`)},
		{ID: "t2", Type: "state", Namespace: "shop", FunctionID: "ora::listed", Config: json.RawMessage(`{}`)},
	}
}

// scene is what the recorded lists of the iii engine were made of.
func scene(t *testing.T) (*registry.Registry, func(function, data string) (string, error)) {
	r := newRegistry(t)
	nop := func(context.Context, *bus.Call) (json.RawMessage, error) { return nil, nil }
	err := r.RegisterBuiltin(registry.Builtin{Name: "iii-state", Description: "State worker"},
		map[string]registry.Function{
			"state::get":           {Description: "Get a value from state", RequestSchema: json.RawMessage(`{"type":"object"}`)},
			"state::hidden":        {Meta: bus.Meta{Internal: true}},
			"engine::queue::list":  {},
			"engine::health::look": {},
		},
		map[string]bus.Handler{"state::get": nop, "state::hidden": nop, "engine::queue::list": nop, "engine::health::look": nop})
	if err != nil {
		t.Fatal(err)
	}
	connect(r, "a", "b", "c", "tab")
	pid := int64(18518)
	r.Announce("a", registry.Announcement{Runtime: "node", Version: "0.22.1", Name: "ora-a", OS: "linux", PID: &pid})
	r.Announce("b", registry.Announcement{Runtime: "node", Version: "0.22.1", Name: "ora-b", OS: "linux", PID: &pid})
	r.Announce("c", registry.Announcement{Runtime: "python", Version: "0.25.0", Name: "ora-shop", OS: "linux", PID: &pid, Description: "shop worker"})
	r.FixNamespace("b", "default")
	r.FixNamespace("c", "shop")
	add := func(connection, namespace, id string, f registry.Function) {
		t.Helper()
		f.Meta = registry.MetaOf(f.Metadata)
		if err := r.Register(t.Context(), connection, namespace, id, f); err != nil {
			t.Fatal(err)
		}
	}
	add("b", "default", "ora::listed", registry.Function{Description: "a listed fn", Metadata: json.RawMessage(`{"public":true}`),
		RequestSchema: json.RawMessage(`{"type":"object"}`), ResponseSchema: json.RawMessage(`{"type":"string"}`)})
	add("b", "default", "ora::hidden", registry.Function{Metadata: json.RawMessage(`{"internal":true}`)})
	add("c", "shop", "ora::shopfn", registry.Function{})
	e := r.Endpoints(registry.Views{
		Triggers: bound{},
		Visible:  func(call *bus.Call, _, id string) bool { return call.Principal.ID != "narrow" || id != "ora::listed" },
		Active:   func(worker string) int { return map[string]int{"a": 1, "iii-state": 3}[worker] },
	})
	return r, func(function, data string) (string, error) {
		p := bus.Principal{ID: "wide", Role: bus.RoleOperator}
		if rest, ok := strings.CutPrefix(data, "narrow "); ok {
			p, data = bus.Principal{ID: "narrow", Role: bus.RoleWorker}, rest
		}
		out, err := e[function].Handle(t.Context(), &bus.Call{FunctionID: function, Principal: p, Data: json.RawMessage(data)})
		return string(out), err
	}
}

const (
	listed  = `{"function_id":"ora::listed","namespace":"default","worker_name":"ora-b","description":"a listed fn","metadata":{"public":true}}`
	shopfn  = `{"function_id":"ora::shopfn","namespace":"shop","worker_name":"ora-shop"}`
	hidden  = `{"function_id":"ora::hidden","namespace":"default","worker_name":"ora-b","metadata":{"internal":true}}`
	getfn   = `{"function_id":"state::get","namespace":"default","worker_name":"iii-state","description":"Get a value from state"}`
	queuefn = `{"function_id":"engine::queue::list","namespace":"default","worker_name":"iii-state"}`
	detail  = `{"function_id":"ora::listed","namespace":"default","worker_name":"ora-b","description":"a listed fn","metadata":{"public":true},` +
		`"request_schema":{"type":"object"},"response_schema":{"type":"string"},"registered_triggers":[{"id":"t1","trigger_type":"state","config":{"scope":"l"}}]}`
	at      = `1767323045000`
	workerA = `{"name":"ora-a","description":null,"version":"0.22.1","id":"A","namespace":"default","runtime":"node","os":"linux","status":"connected",` +
		`"function_count":0,"connected_at_ms":` + at + `,"active_invocations":1,"isolation":null,"ip_address":"127.0.0.1"}`
	workerB = `{"name":"ora-b","description":null,"version":"0.22.1","id":"B","namespace":"default","runtime":"node","os":"linux","status":"connected",` +
		`"function_count":2,"connected_at_ms":` + at + `,"active_invocations":0,"isolation":null,"ip_address":"127.0.0.1"}`
	workerC = `{"name":"ora-shop","description":"shop worker","version":"0.25.0","id":"C","namespace":"shop","runtime":"python","os":"linux","status":"connected",` +
		`"function_count":1,"connected_at_ms":` + at + `,"active_invocations":0,"isolation":null,"ip_address":"127.0.0.1"}`
	workerState = `{"name":"iii-state","description":"State worker","version":"9.9","id":"iii-state","namespace":"default","runtime":"engine","os":null,"status":"available",` +
		`"function_count":4,"connected_at_ms":` + at + `,"active_invocations":3,"isolation":"in-process","ip_address":null}`
)

func TestLists(t *testing.T) {
	t.Parallel()
	_, call := scene(t)
	functions := func(rows ...string) string { return `{"functions":[` + strings.Join(rows, ",") + `]}` }
	workers := func(rows ...string) string { return `{"workers":[` + strings.Join(rows, ",") + `]}` }
	for _, tc := range []struct{ name, function, data, want, code, message string }{
		{name: "all", function: "engine::functions::list", data: `{}`, want: functions(queuefn, listed, shopfn, getfn)},
		{name: "null", function: "engine::functions::list", data: `null`, want: functions(queuefn, listed, shopfn, getfn)},
		{name: "internal", function: "engine::functions::list", data: `{"include_internal":true,"prefix":"ora::"}`, want: functions(hidden, listed, shopfn)},
		{name: "search", function: "engine::functions::list", data: `{"search":"LISTED"}`, want: functions(listed)},
		{name: "id hits before text hits", function: "engine::functions::list", data: `{"search":"state"}`, want: functions(getfn)},
		{name: "text hits come last", function: "engine::functions::list", data: `{"search":"l"}`, want: functions(queuefn, listed, getfn)},
		{name: "prefix", function: "engine::functions::list", data: `{"prefix":"ora::"}`, want: functions(listed, shopfn)},
		{name: "worker", function: "engine::functions::list", data: `{"worker":"ora-b"}`, want: functions(listed)},
		{name: "workers", function: "engine::functions::list", data: `{"workers":["ora-b","ora-shop"]}`, want: functions(listed, shopfn)},
		{name: "restricted", function: "engine::functions::list", data: `narrow {"prefix":"ora::"}`, want: functions(shopfn)},
		{name: "none", function: "engine::functions::list", data: `{"prefix":"zz"}`, want: functions()},

		{name: "info", function: "engine::functions::info", data: `{"function_id":"ora::listed"}`, want: detail},
		{name: "info of the only namespace", function: "engine::functions::info", data: `{"function_id":"ora::shopfn"}`,
			want: `{"function_id":"ora::shopfn","namespace":"shop","worker_name":"ora-shop","registered_triggers":[]}`},
		{name: "batch", function: "engine::functions::info", data: `{"function_ids":["ora::listed","nope"]}`,
			want: functions(detail, `{"function_id":"nope","error":"not_found"}`)},
		{name: "restricted batch", function: "engine::functions::info", data: `narrow {"function_ids":["ora::listed"]}`,
			want: functions(`{"function_id":"ora::listed","error":"forbidden"}`)},
		{name: "unknown", function: "engine::functions::info", data: `{"function_id":"nope"}`, code: "NOT_FOUND", message: "Function 'nope' is not registered."},
		{name: "not there", function: "engine::functions::info", data: `{"function_id":"ora::listed","namespace":"shop"}`, code: "NOT_FOUND",
			message: "Function 'ora::listed' is not registered in namespace 'shop'."},
		{name: "there", function: "engine::functions::info", data: `{"function_id":"ora::listed","namespace":"default"}`, want: detail},
		{name: "neither", function: "engine::functions::info", data: `{}`, code: "INVALID_ARGUMENTS", message: "missing field `function_id` (or `function_ids` for a batch)"},
		{name: "both", function: "engine::functions::info", data: `{"function_id":"a","function_ids":[]}`, code: "INVALID_ARGUMENTS",
			message: "`function_id` and `function_ids` exclude each other"},
		{name: "too many", function: "engine::functions::info", data: `{"function_ids":[` + strings.Repeat(`"a",`, 32) + `"a"]}`, code: "INVALID_ARGUMENTS",
			message: "`function_ids` has 33 entries, at most 32 are allowed"},
		{name: "restricted info", function: "engine::functions::info", data: `narrow {"function_id":"ora::listed"}`, code: "FORBIDDEN",
			message: "Function 'ora::listed' is outside the scope of this connection."},

		{name: "workers", function: "engine::workers::list", data: `{}`, want: workers(workerState, workerA, workerB, workerC)},
		{name: "search workers", function: "engine::workers::list", data: `{"search":"ora"}`, want: workers(workerA, workerB, workerC)},
		{name: "runtime", function: "engine::workers::list", data: `{"runtime":"python"}`, want: workers(workerC)},
		{name: "status", function: "engine::workers::list", data: `{"status":"available"}`, want: workers(workerState)},
		{name: "worker info", function: "engine::workers::info", data: `{"name":"ora-b"}`,
			want: `{"worker":` + strings.TrimSuffix(workerB, "}") + `,"pid":18518,"internal":false},"functions":[` + hidden + "," + listed + `],"trigger_types":[],` +
				`"registered_triggers":[{"id":"t1","trigger_type":"state","function_id":"ora::listed","worker_name":"ora-b","config":{"scope":"l"},"config_summary":"{\"scope\":\"l\"}"}]}`},
		{name: "built-in worker info", function: "engine::workers::info", data: `narrow {"name":"iii-state","namespace":"default"}`,
			want: `{"worker":` + strings.TrimSuffix(workerState, "}") + `,"internal":false},"functions":[{"function_id":"engine::health::look","namespace":"default","worker_name":"iii-state"},` +
				queuefn + "," + getfn + `,{"function_id":"state::hidden","namespace":"default","worker_name":"iii-state","metadata":{"internal":true}}],` +
				`"trigger_types":[{"id":"state","namespace":"default","worker_name":"iii-state","description":"State trigger"}],"registered_triggers":[]}`},
		{name: "unknown worker", function: "engine::workers::info", data: `{"name":"nope"}`, code: "NOT_FOUND", message: "Worker 'nope' is not connected."},
		{name: "worker of another namespace", function: "engine::workers::info", data: `{"name":"ora-b","namespace":"shop"}`, code: "NOT_FOUND", message: "Worker 'ora-b' is not connected."},
		{name: "nameless workers are not found", function: "engine::workers::info", data: `{"name":""}`, code: "NOT_FOUND", message: "Worker '' is not connected."},
		{name: "no name", function: "engine::workers::info", data: `{}`, code: "deserialization_error",
			message: "Failed to deserialize input for engine::workers::info: missing field `name`"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := call(tc.function, tc.data)
			if tc.code != "" {
				if diff := cmp.Diff(&bus.Error{Code: tc.code, Message: tc.message}, bus.AsError(err)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestInfoWithoutANamespace(t *testing.T) {
	t.Parallel()
	r, call := scene(t)
	connect(r, "d", "e")
	for i, name := range []string{"d", "e"} {
		r.Announce(name, registry.Announcement{Name: "twin"})
		ns := fmt.Sprint("ns", 2-i)
		r.FixNamespace(name, ns)
		if err := r.Register(t.Context(), name, ns, "twin::f", registry.Function{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := call("engine::functions::info", `{"function_id":"twin::f"}`); !strings.Contains(fmt.Sprint(err), "NOT_FOUND: Function 'twin::f' is registered in several namespaces: ns1, ns2. Name one in `namespace`.") {
		t.Errorf("got %v", err)
	}
	if _, err := call("engine::workers::info", `{"name":"twin"}`); !strings.Contains(fmt.Sprint(err), "NOT_FOUND: Worker 'twin' is connected in several namespaces: ns1, ns2. Name one in `namespace`.") {
		t.Errorf("got %v", err)
	}
	connect(r, "f")
	r.Announce("f", registry.Announcement{Name: "twin"})
	register(t, r, "f", "twin::f")
	if got, err := call("engine::functions::info", `{"function_id":"twin::f"}`); err != nil || !strings.Contains(got, `"namespace":"default"`) {
		t.Errorf("the default namespace must win: %s, %v", got, err)
	}
	if got, err := call("engine::workers::info", `{"name":"twin"}`); err != nil || !strings.Contains(got, `"id":"F"`) {
		t.Errorf("the default namespace must win: %s, %v", got, err)
	}
}

func TestReleaseFunction(t *testing.T) {
	t.Parallel()
	store := &faulty{Store: newStore(t)}
	r := open(t, store)
	serve(t, r, "harness", policy)
	connect(r, "a")
	register(t, r, "a", policy)
	r.Disconnect("a")
	e := r.Endpoints(registry.Views{})
	call := func(p bus.Principal, data string) (string, error) {
		out, err := e[registry.FunctionRelease].Handle(t.Context(), &bus.Call{Principal: p, Data: json.RawMessage(data)})
		return string(out), err
	}
	operator := bus.Principal{ID: "op", Role: bus.RoleOperator}
	ask := `{"function_id":"policy::check_permissions"}`
	if _, err := call(bus.Principal{ID: "w", Role: bus.RoleWorker}, ask); bus.Code(err) != "FORBIDDEN" {
		t.Errorf("a worker got %v, want FORBIDDEN", err)
	}
	store.writes = true
	if _, err := call(operator, ask); !errors.Is(err, errDisk) {
		t.Errorf("got %v, want the store's error", err)
	}
	store.writes = false
	want(t, r, policy, "away")
	if got, err := call(operator, ask); err != nil || got != `{"released":true,"now_served_by":"harness"}` {
		t.Errorf("got %s, %v", got, err)
	}
	want(t, r, policy, "builtin")
	if got, err := call(operator, `{"function_id":"no::one","namespace":"shop"}`); err != nil || got != `{"released":false,"now_served_by":null}` {
		t.Errorf("got %s, %v", got, err)
	}
	if got, err := e[registry.FunctionWorkersList].Handle(t.Context(), &bus.Call{}); err != nil || !strings.Contains(string(got), `"name":"harness"`) {
		t.Errorf("without views: %s, %v", got, err)
	}
	if got, err := e[registry.FunctionWorkersInfo].Handle(t.Context(), &bus.Call{Data: json.RawMessage(`{"name":"harness"}`)}); err != nil || !strings.Contains(string(got), `"registered_triggers":[]`) {
		t.Errorf("without views: %s, %v", got, err)
	}
}
