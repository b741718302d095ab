package trigger_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/registry"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/engine/stream"
	"github.com/iii-aws/harness/engine/trigger"
)

func TestRegisteringTriggers(t *testing.T) {
	t.Parallel()
	const start = `{"type":"registertrigger","id":"t","function_id":"ora::t","trigger_type":`
	for _, tc := range []struct{ name, frame, code, message string }{
		{"state", `"state","config":{}}`, "", ""},
		{"state with all", `"state","config":{"scope":"s","key":"k","condition_function_id":"ora::cond"}}`, "", ""},
		{"unknown member", `"state","config":{"bogus":1}}`, "", ""},
		{"no config", `"state"}`, "", ""},
		{"null members", `"state","config":{"scope":null,"key":null,"condition_function_id":null}}`, "", ""},
		{"string", `"state","config":"str"}`, "trigger_registration_failed", `Failed to parse trigger config: invalid type: string "str", expected struct StateTriggerConfig`},
		{"null", `"state","config":null}`, "trigger_registration_failed", "Failed to parse trigger config: invalid type: null, expected struct StateTriggerConfig"},
		{"number as scope", `"state","config":{"scope":1}}`, "trigger_registration_failed", "Failed to parse trigger config: invalid type: integer `1`, expected a string"},
		{"stream", `"stream","config":{"stream_name":"s"}}`, "", ""},
		{"stream without name", `"stream","config":{}}`, "trigger_registration_failed", "Failed to parse trigger config: missing field `stream_name`"},
		{"stream with null", `"stream","config":null}`, "trigger_registration_failed", "Failed to parse trigger config: invalid type: null, expected struct StreamTriggerConfig"},
		{"stream with a bad group", `"stream","config":{"stream_name":"s","group_id":{}}}`, "trigger_registration_failed", "Failed to parse trigger config: invalid type: map, expected a string"},
		{"unknown type", `"nosuchtype","config":"anything"}`, "", ""},
		{"other provider", `"state","config":"anything","trigger_namespace":"shop"}`, "", ""},
		{"default provider", `"state","config":{},"trigger_namespace":"default"}`, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			g := newRig(t)
			err := g.bind(socket("a", bus.RoleWorker), start+tc.frame)
			if tc.code == "" {
				if err != nil || len(g.All()) != 1 {
					t.Errorf("got %v, %v", err, g.All())
				}
				return
			}
			if diff := cmp.Diff(&bus.Error{Code: tc.code, Message: tc.message}, err); diff != "" || len(g.All()) != 0 {
				t.Errorf("%v (-want +got):\n%s", g.All(), diff)
			}
		})
	}
}

func TestWhatIsTriggered(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	a := socket("a", bus.RoleWorker)
	if g.Triggered("orders", "o1") || g.StreamTriggered("chat", "r1") {
		t.Error("triggered without a trigger")
	}
	for i, config := range []string{`{"scope":"orders","key":"o1"}`, `{"scope":"users"}`, `{"scope":""}`} {
		if err := g.bind(a, fmt.Sprintf(`{"type":"registertrigger","id":"s%d","function_id":"f::g","trigger_type":"state","config":%s}`, i, config)); err != nil {
			t.Fatal(err)
		}
	}
	for i, config := range []string{`{"stream_name":"chat","group_id":"r1","item_id":"m1"}`, `{"stream_name":"log","group_id":""}`} {
		if err := g.bind(a, fmt.Sprintf(`{"type":"registertrigger","id":"r%d","function_id":"f::g","trigger_type":"stream","config":%s}`, i, config)); err != nil {
			t.Fatal(err)
		}
	}
	for key, want := range map[[2]string]bool{
		{"orders", "o1"}: true, {"orders", "o2"}: false, {"users", "x"}: true, {"other", "o1"}: false, {"", "x"}: true,
	} {
		if got := g.Triggered(key[0], key[1]); got != want {
			t.Errorf("state %q: %v, want %v", key, got, want)
		}
	}
	for key, want := range map[[2]string]bool{{"chat", "r1"}: true, {"chat", "r2"}: false, {"log", "x"}: true, {"other", "r1"}: false} {
		if got := g.StreamTriggered(key[0], key[1]); got != want {
			t.Errorf("stream %q: %v, want %v", key, got, want)
		}
	}
	// Whatever the scope or the stream, but never what the bus keeps for itself.
	if err := g.bind(a, `{"type":"registertrigger","id":"any","function_id":"f::g","trigger_type":"state"}`); err != nil {
		t.Fatal(err)
	}
	if err := g.bind(a, `{"type":"registertrigger","id":"anys","function_id":"f::g","trigger_type":"stream","config":{"stream_name":""}}`); err != nil {
		t.Fatal(err)
	}
	if !g.Triggered("other", "k") || !g.StreamTriggered("other", "g") || g.Triggered(trigger.Scope, "k") || g.Triggered(registry.Scope, "k") {
		t.Error("a trigger on everything is wrong")
	}
	if err := g.State(t.Context(), change(trigger.Scope, "k", "", "1")); err != nil {
		t.Fatal(err)
	}
	g.calls.none(t)
	g.Drop("b")
	if !g.Triggered("users", "x") {
		t.Error("another connection's end took the triggers of a")
	}
	g.Drop("a")
	if g.Triggered("users", "x") || g.Triggered("other", "k") || g.StreamTriggered("chat", "r1") || len(g.All()) != 0 {
		t.Error("the triggers outlived their connection")
	}
}

func TestMatching(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	configs := map[string]string{
		"state key": `"state","config":{"scope":"orders","key":"o1"}`, "state scope": `"state","config":{"scope":"orders"}`, "state any": `"state"`, "state key of any": `"state","config":{"key":"o1"}`,
		"stream item": `"stream","config":{"stream_name":"chat","group_id":"r1","item_id":"m1"}`, "stream group": `"stream","config":{"stream_name":"chat","group_id":"r1"}`,
		"stream": `"stream","config":{"stream_name":"chat"}`, "stream empty": `"stream","config":{"stream_name":"chat","group_id":"","item_id":""}`, "stream any": `"stream","config":{"stream_name":"","item_id":"m1"}`,
	}
	for id, config := range configs {
		if err := g.bind(socket("a", bus.RoleWorker), `{"type":"registertrigger","id":"`+id+`","function_id":"`+id+`","trigger_type":`+config+`}`); err != nil {
			t.Fatal(err)
		}
	}
	got := func(n int) string {
		seen := map[string]bool{}
		for range n {
			seen[g.calls.next(t).FunctionID] = true
		}
		var names []string
		for _, row := range g.All() {
			if seen[row.ID] {
				names = append(names, row.ID)
			}
		}
		return strings.Join(names, ", ")
	}
	for _, tc := range []struct {
		c    state.Key
		n    int
		want string
	}{
		{state.Key{Scope: "orders", Key: "o1"}, 4, "state any, state key, state key of any, state scope"},
		{state.Key{Scope: "orders", Key: "o2"}, 2, "state any, state scope"},
		{state.Key{Scope: "users", Key: "o1"}, 2, "state any, state key of any"},
		{state.Key{Scope: "users", Key: "u"}, 1, "state any"},
	} {
		if err := g.State(t.Context(), change(tc.c.Scope, tc.c.Key, "", "1")); err != nil {
			t.Fatal(err)
		}
		if got := got(tc.n); got != tc.want {
			t.Errorf("%v fired %s, want %s", tc.c, got, tc.want)
		}
	}
	for _, tc := range []struct {
		k    stream.Key
		n    int
		want string
	}{
		{stream.Key{Stream: "chat", Group: "r1", Item: "m1"}, 5, "stream, stream any, stream empty, stream group, stream item"},
		{stream.Key{Stream: "chat", Group: "r1", Item: "m2"}, 3, "stream, stream empty, stream group"},
		{stream.Key{Stream: "chat", Group: "r2", Item: "m1"}, 3, "stream, stream any, stream empty"},
		{stream.Key{Stream: "log", Group: "r1", Item: "m1"}, 1, "stream any"},
	} {
		if err := g.Stream(t.Context(), stream.Event{Key: tc.k, Kind: stream.Create}); err != nil {
			t.Fatal(err)
		}
		if got := got(tc.n); got != tc.want {
			t.Errorf("%v fired %s, want %s", tc.k, got, tc.want)
		}
	}
	if err := g.State(t.Context(), change("log", "x", "", "1")); err != nil {
		t.Fatal(err)
	}
	g.calls.next(t)
	g.calls.none(t)
}

func TestWhoMayReplaceAndRemoveABinding(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	a, stranger := socket("a", bus.RoleWorker), socket("b", bus.RoleWorker)
	again := a // the same worker on its next connection
	again.Connection = "a2"
	frame := func(scope string) string {
		return `{"type":"registertrigger","id":"t","function_id":"f::g","trigger_type":"state","config":{"scope":"` + scope + `"}}`
	}
	if err := g.bind(a, frame("one")); err != nil {
		t.Fatal(err)
	}
	if err := g.bind(stranger, frame("two")); bus.Code(err) != "trigger_registration_failed" {
		t.Errorf("a stranger got %v", err)
	}
	g.Unregister(stranger, "t")
	g.Unregister(again, "t")
	if !g.Triggered("one", "k") || g.Triggered("two", "k") {
		t.Error("a stranger changed the binding")
	}
	if err := g.bind(again, frame("three")); err != nil {
		t.Error(err)
	}
	if g.Triggered("one", "k") || !g.Triggered("three", "k") || len(g.All()) != 1 {
		t.Error("the binding was not replaced")
	}
	g.Drop("a") // the old connection ends after the new one came
	g.Unregister(a, "t")
	if !g.Triggered("three", "k") {
		t.Error("the old connection took the new one's binding")
	}
	g.Unregister(again, "t")
	g.Unregister(again, "nope")
	if g.Triggered("three", "k") {
		t.Error("the binding is still there")
	}
	if err := g.Declare("turn", []trigger.Declaration{{Type: "state", FunctionID: "turn::on", Config: []byte(`{"scope":"approvals"}`)}}); err != nil {
		t.Fatal(err)
	}
	id := g.All()[0].ID
	if err := g.bind(a, strings.Replace(frame("x"), `"t"`, `"`+id+`"`, 1)); bus.Code(err) != "trigger_registration_failed" {
		t.Errorf("a worker replaced %s of the manifest: %v", id, err)
	}
}

func TestDeclare(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	err := g.Declare("turn", []trigger.Declaration{
		{Type: "state", FunctionID: "turn::ok"},
		{Type: "stream", FunctionID: "turn::bad", Config: []byte(`{}`)},
	})
	if err == nil || !strings.Contains(err.Error(), "worker turn: stream trigger of turn::bad") || !strings.Contains(err.Error(), "missing field `stream_name`") || len(g.All()) != 0 {
		t.Errorf("got %v, %v", err, g.All())
	}
	if err := g.Declare("turn", []trigger.Declaration{{Type: "state", FunctionID: "turn::f"}, {Type: "state", FunctionID: "turn::f"}, {Type: "durable:subscriber", FunctionID: "turn::g", Config: []byte(`{"topic":"t"}`)}}); err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, b := range g.All() {
		rows = append(rows, b.Type+" "+b.ID+" "+string(b.Config))
	}
	want := []string{`state turn/turn::f/state/0 {}`, `state turn/turn::f/state/1 {}`, `durable:subscriber turn/turn::g/durable:subscriber/2 {"topic":"t"}`}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWhatATableNeeds(t *testing.T) {
	t.Parallel()
	if _, err := trigger.NewTable(t.Context(), trigger.Config{}); err == nil {
		t.Error("a table without anything was made")
	}
	if _, err := trigger.NewDispatcher(trigger.Delivery{}); err == nil {
		t.Error("a dispatcher without anything was made")
	}
}

func BenchmarkTriggered(b *testing.B) {
	g := newRig(b)
	for i := range 200 {
		if err := g.bind(socket("a", bus.RoleWorker), fmt.Sprintf(`{"type":"registertrigger","id":"t%d","function_id":"f::g","trigger_type":"state","config":{"scope":"s%d"}}`, i, i)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if g.Triggered("turn_state", "session") {
			b.Fatal("triggered")
		}
	}
}
