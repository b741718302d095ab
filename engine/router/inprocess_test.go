package router_test

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/registry"
	"github.com/iii-aws/harness/engine/router"
)

func TestInProcessCall(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.serve("b::echo", bus.Meta{}, echo)
	g.serve("a::nest", bus.Meta{}, func(ctx context.Context, c *bus.Call) (json.RawMessage, error) {
		return g.Worker("a").Invoke(ctx, bus.Invocation{FunctionID: "b::echo"})
	})
	ann := bus.Principal{ID: "ann", Role: bus.RoleClient}
	for _, tc := range []struct {
		name   string
		worker string
		in     bus.Invocation
		want   string
	}{
		{"plain", "a", bus.Invocation{FunctionID: "b::echo", Data: json.RawMessage(`{"z":1,"a":1e3}`)},
			`{"baggage":"","connection":"","data":{"z":1,"a":1e3},"deadline":true,"id":"ID","key":"ID","metadata":null,"namespace":"default","principal":{"id":"a","role":"worker"},"traceparent":"","worker":"a"}`},
		{"null counts as {}", "a", bus.Invocation{FunctionID: "b::echo"},
			`{"baggage":"","connection":"","data":{},"deadline":true,"id":"ID","key":"ID","metadata":null,"namespace":"default","principal":{"id":"a","role":"worker"},"traceparent":"","worker":"a"}`},
		{"the bus itself", "", bus.Invocation{FunctionID: "b::echo", Data: json.RawMessage(`"s"`), Metadata: json.RawMessage(`"text"`)},
			`{"baggage":"","connection":"","data":"s","deadline":true,"id":"ID","key":"ID","metadata":{"value":"text"},"namespace":"default","principal":{"id":"system","role":"system"},"traceparent":"","worker":""}`},
		{"for somebody", "a", bus.Invocation{FunctionID: "b::echo", Principal: &ann, IdempotencyKey: "k", InvocationID: strings.ToUpper(id1), Metadata: json.RawMessage(`{"Principal":{"id":"evil"},"x":1,"reply":2}`)},
			`{"baggage":"","connection":"","data":{},"deadline":true,"id":"` + id1 + `","key":"k","metadata":{"x":1},"namespace":"default","principal":{"id":"ann","role":"client"},"traceparent":"","worker":"a"}`},
		{"nested", "top", bus.Invocation{FunctionID: "a::nest", Principal: &ann},
			`{"baggage":"","connection":"","data":{},"deadline":true,"id":"ID","key":"ID","metadata":null,"namespace":"default","principal":{"id":"ann","role":"client"},"traceparent":"","worker":"a"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inv := g.Engine()
			if tc.worker != "" {
				inv = g.Worker(tc.worker)
			}
			got, err := inv.Invoke(t.Context(), tc.in)
			if err != nil {
				t.Fatal(err)
			}
			var seen struct{ ID string }
			if err := json.Unmarshal(got, &seen); err != nil {
				t.Fatal(err)
			}
			if _, ok := protocol.CanonicalID(seen.ID); !ok {
				t.Errorf("id %q is no UUID", seen.ID)
			}
			if diff := cmp.Diff(strings.ReplaceAll(tc.want, "ID", seen.ID), string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTraceReachesNestedCalls(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.serve("b::echo", bus.Meta{}, echo)
	ctx := bus.WithCall(t.Context(), &bus.Call{Traceparent: traceparent, Baggage: "k=v,iii.function.id=other"})
	got, err := g.Worker("a").Invoke(ctx, bus.Invocation{FunctionID: "b::echo"})
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`"traceparent":"` + traceparent + `"`, `"baggage":"iii.function.id=b::echo,k=v"`} {
		if !strings.Contains(string(got), part) {
			t.Errorf("%s lacks %s", got, part)
		}
	}
}

func TestInProcessErrors(t *testing.T) {
	t.Parallel()
	g := newRig(t, func(c *router.Config) {
		c.Redact = func(text string) string { return strings.ReplaceAll(text, "secret", "***") }
	})
	g.serve("f::coded", bus.Meta{}, func(context.Context, *bus.Call) (json.RawMessage, error) {
		return nil, &bus.Error{Code: "MINE", Message: "m", Stacktrace: "st"}
	})
	g.serve("f::typed", bus.Meta{}, func(context.Context, *bus.Call) (json.RawMessage, error) {
		return nil, bus.Missing("x")
	})
	g.serve("f::plain", bus.Meta{}, func(context.Context, *bus.Call) (json.RawMessage, error) {
		return nil, errors.New("plain")
	})
	g.serve("f::panic", bus.Meta{}, func(context.Context, *bus.Call) (json.RawMessage, error) { panic("secret text") })
	g.serve("f::exit", bus.Meta{}, func(context.Context, *bus.Call) (json.RawMessage, error) {
		runtime.Goexit()
		return nil, nil
	})
	g.serve("f::empty", bus.Meta{}, func(context.Context, *bus.Call) (json.RawMessage, error) { return json.RawMessage{}, nil })
	c := g.connect("w")
	g.FixNamespace(c, "shop")
	g.register(c, "f::elsewhere")
	for _, tc := range []struct {
		in   bus.Invocation
		want *bus.Error
	}{
		{bus.Invocation{FunctionID: "f::coded"}, &bus.Error{Code: "MINE", Message: "m", Stacktrace: "st"}},
		{bus.Invocation{FunctionID: "f::typed"}, &bus.Error{Code: "invalid_payload", Message: "missing required field: x"}},
		{bus.Invocation{FunctionID: "f::plain"}, &bus.Error{Code: "invocation_failed", Message: "plain"}},
		{bus.Invocation{FunctionID: "f::panic"}, &bus.Error{Code: "invocation_failed", Message: "The handler of f::panic panicked."}},
		{bus.Invocation{FunctionID: "f::exit"}, &bus.Error{Code: "invocation_failed", Message: "The handler of f::exit ended without an answer."}},
		{bus.Invocation{FunctionID: "f::none"}, &bus.Error{Code: "function_not_found", Message: "Function f::none not found in namespace default."}},
		{bus.Invocation{FunctionID: "f::elsewhere"}, &bus.Error{Code: "function_not_found", Message: "Function f::elsewhere not found in namespace default. It is registered in namespace(s): shop."}},
		{bus.Invocation{FunctionID: "f::coded", Namespace: "x"}, &bus.Error{Code: "function_not_found", Message: "Function f::coded not found in namespace x. It is registered in namespace(s): default."}},
		{bus.Invocation{FunctionID: "f::coded", InvocationID: "no-uuid"}, &bus.Error{Code: "invalid_payload", Message: "invalid invocation_id: must be a UUID"}},
		{bus.Invocation{FunctionID: "f::coded", Metadata: json.RawMessage(`{"a"`)}, &bus.Error{Code: "invalid_payload", Message: "invalid metadata: must be JSON"}},
		{bus.Invocation{FunctionID: "f::coded", Action: "later"}, &bus.Error{Code: "invalid_payload", Message: `invalid action: must be "", "void" or "enqueue"`}},
	} {
		out, err := g.Worker("a").Invoke(t.Context(), tc.in)
		got, ok := err.(*bus.Error)
		if !ok || out != nil {
			t.Errorf("%s: got %s, %T, want a *bus.Error", tc.in.FunctionID, out, err)
			continue
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.in.FunctionID, diff)
		}
	}
	if out, err := g.Worker("a").Invoke(t.Context(), bus.Invocation{FunctionID: "f::empty"}); out != nil || err != nil {
		t.Errorf("no value came as %q, %v", out, err)
	}
	if !g.log.has("alarm=handler_panic") || !g.log.has(`panic="*** text"`) || g.log.has("secret") {
		t.Error("the panic must be logged, redacted")
	}
	if n := g.Active("a") + g.Active("f"); n != 0 {
		t.Errorf("%d calls are counted as active after all have ended", n)
	}
}

func TestTimeoutEndsTheHandlersContext(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	type end struct{ err, cause error }
	ends := make(chan end, 8)
	g.serve("f::slow", bus.Meta{TimeoutMS: 1500}, func(ctx context.Context, _ *bus.Call) (json.RawMessage, error) {
		<-ctx.Done()
		ends <- end{ctx.Err(), context.Cause(ctx)}
		return nil, ctx.Err()
	})
	for _, tc := range []struct {
		name    string
		timeout time.Duration
		want    string
	}{
		{"given", 700 * time.Millisecond, "Timeout: f::slow did not answer within 700 ms"},
		{"of the function", 0, "Timeout: f::slow did not answer within 1500 ms"},
	} {
		result := make(chan error)
		go func() {
			_, err := g.Worker("a").Invoke(context.Background(), bus.Invocation{FunctionID: "f::slow", Timeout: tc.timeout})
			result <- err
		}()
		g.clock.BlockUntil(1)
		if got := g.Active("f"); got != 1 {
			t.Errorf("%d active, want 1", got)
		}
		g.clock.Advance(1500 * time.Millisecond)
		if diff := cmp.Diff(&bus.Error{Code: "TIMEOUT", Message: tc.want}, (<-result).(*bus.Error)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
		if e := <-ends; e.err == nil || bus.Code(e.cause) != "TIMEOUT" {
			t.Errorf("%s: the handler's context ended with %v, %v", tc.name, e.err, e.cause)
		}
	}
	// The caller's own context.
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error)
	go func() {
		_, err := g.Worker("a").Invoke(ctx, bus.Invocation{FunctionID: "f::slow"})
		result <- err
	}()
	g.clock.BlockUntil(1)
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want canceled", err)
	}
	<-ends
	if _, err := g.Worker("a").Invoke(ctx, bus.Invocation{FunctionID: "f::slow"}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want canceled at once", err)
	}
	late, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancel()
	if _, err := g.Worker("a").Invoke(late, bus.Invocation{FunctionID: "f::slow"}); bus.Code(err) != "TIMEOUT" {
		t.Errorf("got %v, want TIMEOUT", err)
	}
}

func TestDeadlineOfANestedCall(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	seen := make(chan time.Time, 1)
	g.serve("f::g", bus.Meta{}, func(_ context.Context, c *bus.Call) (json.RawMessage, error) {
		seen <- c.Deadline
		return nil, nil
	})
	soon := start.Add(time.Second)
	for name, tc := range map[string]struct {
		parent time.Time
		want   time.Time
	}{
		"no parent":    {time.Time{}, start.Add(bus.DefaultTimeout)},
		"parent first": {soon, soon},
		"parent later": {start.Add(time.Hour), start.Add(bus.DefaultTimeout)},
	} {
		ctx := bus.WithCall(t.Context(), &bus.Call{Deadline: tc.parent})
		if _, err := g.Worker("a").Invoke(ctx, bus.Invocation{FunctionID: "f::g"}); err != nil {
			t.Fatal(err)
		}
		if got := <-seen; !got.Equal(tc.want) {
			t.Errorf("%s: deadline %v, want %v", name, got, tc.want)
		}
	}
}

func TestVoidInProcess(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	ran := make(chan error)
	g.serve("f::g", bus.Meta{}, func(ctx context.Context, _ *bus.Call) (json.RawMessage, error) {
		ran <- ctx.Err()
		return nil, errors.New("kaput")
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if out, err := g.Worker("a").Invoke(ctx, bus.Invocation{FunctionID: "f::g", Action: bus.Void}); out != nil || err != nil {
		t.Errorf("got %s, %v", out, err)
	}
	if err := <-ran; err != nil {
		t.Errorf("the handler's context has ended with its caller's: %v", err)
	}
	if out, err := g.Worker("a").Invoke(t.Context(), bus.Invocation{FunctionID: "f::none", Action: bus.Void}); out != nil || err != nil {
		t.Errorf("unknown: got %s, %v", out, err)
	}
}

func TestCloseEndsHandlers(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	started, release := make(chan struct{}), make(chan struct{})
	g.serve("f::g", bus.Meta{}, func(ctx context.Context, _ *bus.Call) (json.RawMessage, error) {
		close(started)
		<-ctx.Done()
		<-release
		return nil, nil
	})
	if _, err := g.Worker("a").Invoke(t.Context(), bus.Invocation{FunctionID: "f::g", Action: bus.Void}); err != nil {
		t.Fatal(err)
	}
	<-started
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v: a handler still runs", err)
	}
	close(release)
	if err := g.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestServeNeedsEveryHandler(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	err := g.Serve(registry.Builtin{Name: "w"}, map[string]registry.Function{"w::f": {}}, nil)
	if err == nil || !strings.Contains(err.Error(), "w::f") {
		t.Errorf("got %v, want an error that names w::f", err)
	}
	if _, err := router.New(router.Config{}); err == nil {
		t.Error("a router without anything was made")
	}
	wrapped := ""
	g = newRig(t, func(c *router.Config) {
		c.Wrap = func(id string, meta bus.Meta, h bus.Handler) bus.Handler {
			wrapped = id
			return h
		}
	})
	e := bus.Typed(func(context.Context, *bus.Call, struct{ X int }) (struct{ Y int }, error) {
		return struct{ Y int }{1}, nil
	})
	if err := g.Serve(registry.Builtin{Name: "w"}, map[string]registry.Function{"w::f": {}}, map[string]bus.Endpoint{"w::f": e, "w::not_in_the_manifest": e}); err != nil {
		t.Fatal(err)
	}
	entry, ok := g.registry.Lookup("default", "w::f")
	if !ok || string(entry.RequestSchema) != string(e.Request) || string(entry.ResponseSchema) != string(e.Response) || wrapped != "w::f" {
		t.Errorf("got %+v, wrapped %q", entry, wrapped)
	}
	if _, ok := g.registry.Lookup("default", "w::not_in_the_manifest"); ok {
		t.Error("a function that no manifest names is served")
	}
}
