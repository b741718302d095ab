package trigger_test

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/registry"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/engine/stream"
	"github.com/iii-aws/harness/engine/trigger"
)

// declare binds a function of the bus to a scope or a stream.
func (g *rig) declare(kind, function, config string) {
	g.t.Helper()
	if err := g.Declare("w-"+function, []trigger.Declaration{{Type: kind, FunctionID: function, Config: json.RawMessage(config), Metadata: json.RawMessage(`{"why":"test"}`)}}); err != nil {
		g.t.Fatal(err)
	}
}

func TestStatePayloads(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.declare("state", "f::on", `{"scope":"fire"}`)
	for _, tc := range []struct {
		c    state.Change
		want string
	}{
		{change("fire", "k", "", `{"z":1,"a":1e3}`), `{"type":"state","event_type":"state:created","scope":"fire","key":"k","old_value":null,"new_value":{"z":1,"a":1e3}}`},
		{change("fire", "k", "null", `2`), `{"type":"state","event_type":"state:updated","scope":"fire","key":"k","old_value":null,"new_value":2}`},
		{change("fire", "k", `{"s":3}`, ""), `{"type":"state","event_type":"state:deleted","scope":"fire","key":"k","old_value":{"s":3},"new_value":null}`},
		{change("fire", "k", "", ""), `{"type":"state","event_type":"state:deleted","scope":"fire","key":"k","old_value":null,"new_value":null}`},
	} {
		if err := g.State(t.Context(), tc.c); err != nil {
			t.Fatal(err)
		}
		in := g.calls.next(t)
		if diff := cmp.Diff(tc.want, string(in.Data)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if in.FunctionID != "f::on" || in.Namespace != "default" || string(in.Metadata) != `{"why":"test"}` || in.Action != bus.Sync || in.Principal.Role != bus.RoleSystem {
			t.Errorf("got %+v", in)
		}
	}
}

func TestStreamPayloads(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.declare("stream", "f::on", `{"stream_name":"chat"}`)
	key := stream.Key{Stream: "chat", Group: "r1", Item: "m1"}
	at := time.UnixMilli(1760000000000)
	for _, tc := range []struct {
		e    stream.Event
		want string
	}{
		{stream.Event{Key: key, Kind: stream.Create, Data: json.RawMessage(`{"t":"hi"}`), At: at}, `{"type":"stream","timestamp":1760000000000,"streamName":"chat","groupId":"r1","id":"m1","event":{"type":"create","data":{"t":"hi"}}}`},
		{stream.Event{Key: key, Kind: stream.Change, Data: json.RawMessage(`1`), At: at, By: "step"}, `{"type":"stream","timestamp":1760000000000,"streamName":"chat","groupId":"r1","id":"m1","event":{"type":"update","data":1},"by":"step"}`},
		{stream.Event{Key: key, Kind: stream.Remove, At: at}, `{"type":"stream","timestamp":1760000000000,"streamName":"chat","groupId":"r1","id":"m1","event":{"type":"delete","data":null}}`},
		{stream.Event{Key: stream.Key{Stream: "chat", Group: "r1"}, Kind: stream.Ephemeral, Data: json.RawMessage(`{"type":"typing","data":{}}`), At: at},
			`{"type":"stream","timestamp":1760000000000,"streamName":"chat","groupId":"r1","id":null,"event":{"type":"event","event":{"type":"typing","data":{}}}}`},
	} {
		if err := g.Stream(t.Context(), tc.e); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, string(g.calls.next(t).Data)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if err := g.Stream(t.Context(), stream.Event{Key: stream.Key{Stream: "other"}}); err != nil {
		t.Error(err)
	}
	g.calls.none(t)
}

func TestWhatIsNoPayload(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.declare("state", "f::on", `{}`)
	g.declare("stream", "f::on", `{"stream_name":""}`)
	if err := g.State(t.Context(), change("s", "k", "{", "1")); err != nil {
		t.Error(err)
	}
	if err := g.Stream(t.Context(), stream.Event{Key: stream.Key{Stream: "s", Group: "g"}, Data: json.RawMessage("{")}); err != nil {
		t.Error(err)
	}
	g.calls.none(t)
	if !g.log.has("a change is no payload") || !g.log.has("an event is no payload") {
		t.Errorf("logged %q", g.log.text.String())
	}
}

func TestConditions(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		answer bus.Handler
		fires  bool
	}{
		{"false", returns("false", nil), false},
		{"false with space", returns(" false\n", nil), false},
		{"true", returns("true", nil), true},
		{"null", returns("null", nil), true},
		{"nothing", returns("", nil), true},
		{"zero", returns("0", nil), true},
		{"the word", returns(`"false"`, nil), true},
		{"an object", returns(`{"ok":false}`, nil), true},
		{"not there", returns("", &bus.Error{Code: "function_not_found"}), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			g := newRig(t)
			g.declare("state", "f::on", `{"scope":"s","condition_function_id":"f::cond"}`)
			g.calls.on("f::cond", tc.answer)
			if err := g.State(t.Context(), change("s", "k", "", "1")); err != nil {
				t.Fatal(err)
			}
			asked := g.calls.next(t)
			if asked.FunctionID != "f::cond" || asked.Metadata != nil || asked.Namespace != "default" {
				t.Errorf("got %+v", asked)
			}
			if !tc.fires {
				g.calls.none(t)
				return
			}
			if in := g.calls.next(t); in.FunctionID != "f::on" || string(in.Data) != string(asked.Data) {
				t.Errorf("got %+v, want the payload of the condition", in)
			}
		})
	}
}

// withTime lets time go by while f runs.
func (g *rig) withTime(f func()) {
	done := make(chan struct{})
	go func() {
		f()
		close(done)
	}()
	for {
		select {
		case <-done:
			return
		default:
			g.clock.Advance(50 * time.Millisecond)
		}
	}
}

func TestFailuresAreRetriedAndGivenUp(t *testing.T) {
	t.Parallel()
	failing := func(n int, then bus.Handler) bus.Handler {
		var mu sync.Mutex
		return func(ctx context.Context, c *bus.Call) (json.RawMessage, error) {
			mu.Lock()
			defer mu.Unlock()
			if n--; n >= 0 {
				return nil, &bus.Error{Code: "invocation_stopped", Message: "m"}
			}
			return then(ctx, c)
		}
	}
	for _, tc := range []struct {
		name                string
		condition, function bus.Handler
		conditions, calls   int
		alarm               string
	}{
		{"passing fault of the function", returns("true", nil), failing(2, returns("", nil)), 3, 3, ""},
		{"passing fault of the condition", failing(3, returns("", nil)), returns("", nil), 4, 1, ""},
		{"the condition says no in the end", failing(1, returns("false", nil)), returns("", nil), 2, 0, ""},
		{"function that stays broken", returns("", nil), failing(99, nil), 5, 5, "alarm=trigger_given_up"},
		{"condition that stays broken", failing(99, nil), returns("", nil), 5, 0, "alarm=trigger_given_up"},
		{"nobody serves the function", returns("", nil), returns("", &bus.Error{Code: "function_not_found"}), 1, 1, "nobody serves the function of a trigger"},
		{"refused", returns("", nil), returns("", &bus.Error{Code: "FORBIDDEN"}), 1, 1, "alarm=trigger_given_up"},
		{"away", returns("", nil), returns("", &bus.Error{Code: "function_unavailable"}), 5, 5, "alarm=trigger_given_up"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			g := newRig(t)
			g.declare("state", "f::on", `{"scope":"s","condition_function_id":"f::cond"}`)
			g.calls.on("f::cond", tc.condition)
			g.calls.on("f::on", tc.function)
			g.withTime(func() {
				if err := g.State(t.Context(), change("s", "k", "", "1")); err != nil {
					t.Error(err)
				}
			})
			counts := map[string]int{}
			for len(g.calls.made) > 0 {
				counts[g.calls.next(t).FunctionID]++
			}
			if counts["f::cond"] != tc.conditions || counts["f::on"] != tc.calls {
				t.Errorf("got %v, want %d conditions and %d calls", counts, tc.conditions, tc.calls)
			}
			if alarmed := g.log.has("alarm=") || g.log.has("nobody serves"); alarmed != (tc.alarm != "") || !g.log.has(tc.alarm) {
				t.Errorf("logged %s, want %q", g.log.text.String(), tc.alarm)
			}
		})
	}
}

func TestADeliveryThatIsCutShortIsNotDone(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.declare("state", "f::on", `{"scope":"s"}`)
	ctx, cancel := context.WithCancel(t.Context())
	g.calls.on("f::on", func(context.Context, *bus.Call) (json.RawMessage, error) {
		cancel()
		return nil, errors.New("shutting down")
	})
	if err := g.State(ctx, change("s", "k", "", "1")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want canceled: the change must be delivered again", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	g.calls.on("f::on", returns("", errors.New("busy")))
	done := make(chan error)
	go func() { done <- g.State(ctx, change("s", "k", "", "1")) }()
	g.clock.BlockUntil(1)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v in a pause", err)
	}
}

func TestPrincipalAndTrace(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	traces := make(chan [2]string, 1)
	g.calls.on("f::on", func(_ context.Context, c *bus.Call) (json.RawMessage, error) {
		traces <- [2]string{c.Traceparent, c.Baggage}
		return nil, nil
	})
	if err := g.bind(socket("a", bus.RoleOperator), `{"type":"registertrigger","id":"t","function_id":"f::on","trigger_type":"state","namespace":"shop","config":{"scope":"s"},"metadata":{"m":1}}`); err != nil {
		t.Fatal(err)
	}
	c := change("s", "k", "", "1")
	c.Origin = state.Origin{Principal: bus.Principal{ID: "writer"}, Traceparent: "tp", Baggage: "bg"}
	if err := g.State(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	in := g.calls.next(t)
	if in.Principal.ID != "p-a" || in.Namespace != "shop" || string(in.Metadata) != `{"m":1}` {
		t.Errorf("got %+v, want a call for who bound", in)
	}
	if got := <-traces; got != [2]string{"tp", "bg"} {
		t.Errorf("got %q, want the trace of the writer", got)
	}
}

func TestStreamsOfStrangersStayTheirs(t *testing.T) {
	t.Parallel()
	event := func(name, session, item string) stream.Event {
		return stream.Event{Key: stream.Key{Stream: name, Group: session, Item: item}, Kind: stream.Create}
	}
	const frame = `{"type":"registertrigger","id":"x","function_id":"ui::x","trigger_type":"stream","config":{"stream_name":"NAME"}}`
	for _, tc := range []struct {
		name    string
		role    bus.Role
		who     string
		session string
		stream  string
		asked   bool // whether it matters who owns the session
		fires   bool
	}{
		{"own", bus.RoleClient, "ann", "s1", "agent::events", true, true},
		{"another's", bus.RoleClient, "ann", "s2", "agent::events", true, false},
		{"stranger", bus.RoleClient, "bob", "s1", "agent::events", true, false},
		{"approver", bus.RoleApprover, "bob", "s1", "chat", true, false},
		{"operator", bus.RoleOperator, "bob", "s2", "agent::events", false, true},
		{"worker on a session", bus.RoleWorker, "bob", "s2", "agent::turn_end", true, false},
		{"worker on its own stream", bus.RoleWorker, "bob", "s2", "chat", false, true},
		{"client on a stream", bus.RoleClient, "bob", "s2", "chat", true, false},
		{"program of this machine on a session", bus.RoleClient, "here", "s2", "agent::events", true, false},
		{"program of this machine on a stream", bus.RoleClient, "here", "s2", "chat", false, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			asked := make(chan struct{}, 2)
			everybody := make(chan bool, 1) // lets the second event through
			g := newRig(t, func(_ *trigger.Config, d *trigger.Delivery) {
				d.Worker = func(p bus.Principal) bool { return p.ID == "p-here" }
				d.Owns = func(_ context.Context, p bus.Principal, session string) (bool, error) {
					defer func() { asked <- struct{}{} }() // the answer is fixed by then
					select {
					case <-everybody:
						return true, nil
					default:
						return p.ID == "p-ann" && session == "s1", nil
					}
				}
			})
			if err := g.bind(socket(tc.who, tc.role), strings.Replace(frame, "NAME", tc.stream, 1)); err != nil {
				t.Fatal(err)
			}
			fire := func(item string) {
				t.Helper()
				if err := g.Stream(t.Context(), event(tc.stream, tc.session, item)); err != nil {
					t.Fatal(err)
				}
				if tc.asked {
					<-asked
				}
			}
			fire("first")
			want := "second"
			if tc.fires {
				want = "first"
			} else {
				everybody <- true
				fire("second")
			}
			if in := g.calls.next(t); !strings.Contains(string(in.Data), `"id":"`+want+`"`) {
				t.Errorf("got %s, want the %s event", in.Data, want)
			}
			if !tc.asked && len(asked) > 0 {
				t.Error("who owns the session was asked")
			}
		})
	}
	t.Run("no owners known", func(t *testing.T) {
		t.Parallel()
		g := newRig(t)
		if _, err := g.ask(bus.Call{Connection: "c", Principal: bus.Principal{ID: "ann", Role: bus.RoleClient}}, trigger.FunctionRegister,
			`{"trigger_type":"stream","function_id":"ui::x","config":{"stream_name":"agent::events"}}`); err != nil {
			t.Fatal(err)
		}
		if err := g.Stream(t.Context(), event("agent::events", "s1", "first")); err != nil { // a stored binding is waited for
			t.Fatal(err)
		}
		g.calls.none(t)
	})
	t.Run("owners cannot be asked", func(t *testing.T) {
		t.Parallel()
		g := newRig(t, func(_ *trigger.Config, d *trigger.Delivery) {
			d.Owns = func(context.Context, bus.Principal, string) (bool, error) { return true, errDisk }
		})
		if _, err := g.ask(bus.Call{Connection: "c", Principal: bus.Principal{ID: "ann", Role: bus.RoleClient}}, trigger.FunctionRegister,
			`{"trigger_type":"stream","function_id":"ui::x","config":{"stream_name":"agent::events"}}`); err != nil {
			t.Fatal(err)
		}
		g.withTime(func() {
			if err := g.Stream(t.Context(), event("agent::events", "s1", "first")); err != nil {
				t.Error(err)
			}
		})
		g.calls.none(t)
		if !g.log.has("alarm=trigger_given_up") {
			t.Error("nothing was logged")
		}
	})
}

func TestSocketsReachNoInternalFunctions(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	nop := func(context.Context, *bus.Call) (json.RawMessage, error) { return nil, nil }
	err := g.registry.RegisterBuiltin(registry.Builtin{Name: "turn"}, map[string]registry.Function{"turn::on_dead_letter": {Meta: bus.Meta{Internal: true}}}, map[string]bus.Handler{"turn::on_dead_letter": nop})
	if err != nil {
		t.Fatal(err)
	}
	g.registry.Connect("a", "w-a", "", bus.Principal{})
	own := func(id string) {
		if err := g.registry.Register(t.Context(), "a", "default", id, registry.Function{Meta: bus.Meta{Internal: true}}); err != nil {
			t.Fatal(err)
		}
	}
	own("a::on_change")
	a, b := socket("a", bus.RoleWorker), socket("b", bus.RoleWorker)
	for _, tc := range []struct {
		name     string
		internal bool
		frame    string
	}{
		{"function of the bus", true, `{"type":"registertrigger","id":"1","function_id":"turn::on_dead_letter","trigger_type":"state"}`},
		{"condition of the bus", true, `{"type":"registertrigger","id":"2","function_id":"x::y","trigger_type":"state","config":{"condition_function_id":"turn::on_dead_letter"}}`},
		{"own function", false, `{"type":"registertrigger","id":"3","function_id":"a::on_change","trigger_type":"state","config":{"scope":"s"}}`},
	} {
		if err := g.bind(a, tc.frame); (bus.Code(err) == "FORBIDDEN") != tc.internal || err != nil != tc.internal {
			t.Errorf("%s: got %v", tc.name, err)
		}
	}
	if err := g.bind(b, `{"type":"registertrigger","id":"4","function_id":"a::on_change","trigger_type":"state","config":{"scope":"s"}}`); bus.Code(err) != "FORBIDDEN" {
		t.Errorf("another's internal function: %v", err)
	}
	// A function that becomes internal after it was bound.
	if err := g.bind(b, `{"type":"registertrigger","id":"5","function_id":"a::later","trigger_type":"state","config":{"scope":"late"}}`); err != nil {
		t.Fatal(err)
	}
	own("a::later")
	if err := g.State(t.Context(), change("late", "k", "", "1")); err != nil {
		t.Fatal(err)
	}
	for !g.log.has("trigger_given_up") {
		runtime.Gosched()
	}
	g.calls.none(t)
	if err := g.State(t.Context(), change("s", "k", "", "1")); err != nil {
		t.Fatal(err)
	}
	if in := g.calls.next(t); in.FunctionID != "a::on_change" {
		t.Errorf("got %+v", in)
	}
	g.declare("state", "turn::on_dead_letter", `{"scope":"own"}`)
	if err := g.State(t.Context(), change("own", "k", "", "1")); err != nil {
		t.Fatal(err)
	}
	if in := g.calls.next(t); in.FunctionID != "turn::on_dead_letter" {
		t.Errorf("got %+v: manifests may name internal functions", in)
	}
}
