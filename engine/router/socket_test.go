package router_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
)

// TestSocketToSocket compares what both ends see with what the iii engine sends, but for the metadata of the bus.
func TestSocketToSocket(t *testing.T) {
	t.Parallel()
	const principal = `"principal":{"id":"p-a","role":"worker","workspace_id":"ws"}`
	for _, tc := range []struct{ name, call, given, answer, got string }{
		{"all members",
			`{"type":"invokefunction","invocation_id":"ID","function_id":"f::g","data":{"n":1},"metadata":{"user":"u"},"traceparent":"TP","baggage":"k=v","namespace":"default"}`,
			`{"type":"invokefunction","invocation_id":"ID","function_id":"f::g","data":{"_caller_worker_id":"worker-a","n":1},"traceparent":"TP","baggage":"iii.function.id=f::g,k=v","metadata":{` + principal + `,"idempotency_key":"ID","user":"u"}}`,
			`{"type":"invocationresult","invocation_id":"ID","function_id":"f::g","result":{"z":1,"a":12345678901234567890123},"traceparent":"other","baggage":"z=1"}`,
			`{"type":"invocationresult","invocation_id":"ID","function_id":"f::g","result":{"z":1,"a":12345678901234567890123},"traceparent":"TP","baggage":"k=v"}`},
		{"only a traceparent",
			`{"type":"invokefunction","invocation_id":"ID","function_id":"f::g","data":{},"traceparent":"TP"}`,
			`{"type":"invokefunction","invocation_id":"ID","function_id":"f::g","data":{"_caller_worker_id":"worker-a"},"traceparent":"TP","baggage":"iii.function.id=f::g","metadata":{` + principal + `,"idempotency_key":"ID"}}`,
			`{"type":"invocationresult","invocation_id":"ID","function_id":"f::g","result":null}`,
			`{"type":"invocationresult","invocation_id":"ID","function_id":"f::g","traceparent":"TP"}`},
		{"forged caller, key order kept",
			`{"type":"invokefunction","invocation_id":"ID","function_id":"f::g","data":{"z":1e3,"_caller_worker_id":"forged","a":1.0}}`,
			`{"type":"invokefunction","invocation_id":"ID","function_id":"f::g","data":{"_caller_worker_id":"worker-a","z":1e3,"a":1.0},"metadata":{` + principal + `,"idempotency_key":"ID"}}`,
			`{"type":"invocationresult","invocation_id":"ID","function_id":"other","result":2,"error":null}`,
			`{"type":"invocationresult","invocation_id":"ID","function_id":"f::g","result":2}`},
		{"array",
			`{"type":"invokefunction","invocation_id":"ID","function_id":"f::g","data":[1,2]}`,
			`{"type":"invokefunction","invocation_id":"ID","function_id":"f::g","data":[1,2],"metadata":{` + principal + `,"idempotency_key":"ID"}}`,
			`{"type":"invocationresult","invocation_id":"ID","error":{"code":"x","message":"y","stacktrace":"st"}}`,
			`{"type":"invocationresult","invocation_id":"ID","function_id":"f::g","error":{"code":"x","message":"y","stacktrace":"st"}}`},
		{"no data, an error that is a string",
			`{"type":"invokefunction","invocation_id":"ID","function_id":"f::g"}`,
			`{"type":"invokefunction","invocation_id":"ID","function_id":"f::g","data":null,"metadata":{` + principal + `,"idempotency_key":"ID"}}`,
			`{"type":"invocationresult","invocation_id":"ID","function_id":"f::g","error":"bad"}`,
			`{"type":"invocationresult","invocation_id":"ID","function_id":"f::g","error":{"code":"UNKNOWN","message":"bad"}}`},
		{"metadata that is no object",
			`{"type":"invokefunction","invocation_id":"ID","function_id":"f::g","data":"s","metadata":[1]}`,
			`{"type":"invokefunction","invocation_id":"ID","function_id":"f::g","data":"s","metadata":{` + principal + `,"idempotency_key":"ID","value":[1]}}`,
			`{"type":"invocationresult","invocation_id":"ID","function_id":"f::g"}`,
			`{"type":"invocationresult","invocation_id":"ID","function_id":"f::g"}`},
		{"members of the bus from a socket",
			`{"type":"invokefunction","invocation_id":"ID","function_id":"f::g","data":1,"metadata":{"principal":{"id":"root","role":"operator"},"deadline_ms":1,"x":{"principal":1},"idempotency_key":"k","Reply":{}}}`,
			`{"type":"invokefunction","invocation_id":"ID","function_id":"f::g","data":1,"metadata":{` + principal + `,"idempotency_key":"ID","x":{"principal":1}}}`,
			`{"type":"invocationresult","invocation_id":"ID","function_id":"f::g","result":1}`,
			`{"type":"invocationresult","invocation_id":"ID","function_id":"f::g","result":1}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			g := newRig(t)
			a, b := g.connect("a"), g.connect("b")
			g.register(b, "f::g")
			fill := strings.NewReplacer("ID", id1, "TP", traceparent).Replace
			g.send(a, fill(tc.call))
			if diff := cmp.Diff(fill(tc.given), b.text(t)); diff != "" {
				t.Errorf("callee (-want +got):\n%s", diff)
			}
			g.send(b, fill(tc.answer))
			if diff := cmp.Diff(fill(tc.got), a.text(t)); diff != "" {
				t.Errorf("caller (-want +got):\n%s", diff)
			}
			g.send(b, fill(tc.answer)) // a second answer is dropped
			a.silent(t)
			b.silent(t)
			if n := g.Active("a") + g.Active("b"); n != 0 {
				t.Errorf("%d calls are counted as active", n)
			}
		})
	}
}

func TestInvocationIDsComeBackAsWritten(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	a, b := g.connect("a"), g.connect("b")
	g.register(b, "f::g")
	for _, id := range []string{strings.ToUpper(id1), "0d1f00000000400080000000000000AB"} {
		g.send(a, `{"type":"invokefunction","invocation_id":"`+id+`","function_id":"f::g"}`)
		call := b.call(t)
		canonical, _ := protocol.CanonicalID(id)
		if call.InvocationID != canonical {
			t.Errorf("the callee got %s, want %s", call.InvocationID, canonical)
		}
		call.InvocationID = strings.ToUpper(call.InvocationID)
		g.answer(b, call, "1")
		if got := a.next(t).(*protocol.InvocationResult); got.InvocationID != id {
			t.Errorf("the caller got %s, want %s", got.InvocationID, id)
		}
	}
}

func TestSocketCallsABuiltin(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.serve("f::echo", bus.Meta{}, echo)
	g.serve("f::null", bus.Meta{}, func(context.Context, *bus.Call) (json.RawMessage, error) { return json.RawMessage("null"), nil })
	g.serve("f::nothing", bus.Meta{}, func(context.Context, *bus.Call) (json.RawMessage, error) { return nil, nil })
	g.serve("f::bad", bus.Meta{}, func(context.Context, *bus.Call) (json.RawMessage, error) { return json.RawMessage("{"), nil })
	a := g.connect("a")
	for i, tc := range []struct{ call, want string }{
		{`{"type":"invokefunction","invocation_id":"@ID","function_id":"f::echo","data":null,"metadata":{"principal":{"id":"root"}},"traceparent":"@TP"}`,
			`{"type":"invocationresult","invocation_id":"@ID","function_id":"f::echo","result":{"baggage":"iii.function.id=f::echo","connection":"a","data":{"_caller_worker_id":"worker-a"},"deadline":false,"id":"@ID","key":"@ID","metadata":{},"namespace":"default","principal":{"id":"p-a","role":"worker","workspace_id":"ws"},"traceparent":"@TP","worker":""},"traceparent":"@TP"}`},
		{`{"type":"invokefunction","invocation_id":"@ID","function_id":"f::null"}`, `{"type":"invocationresult","invocation_id":"@ID","function_id":"f::null","result":null}`},
		{`{"type":"invokefunction","invocation_id":"@ID","function_id":"f::nothing"}`, `{"type":"invocationresult","invocation_id":"@ID","function_id":"f::nothing"}`},
		{`{"type":"invokefunction","invocation_id":"@ID","function_id":"f::bad"}`,
			`{"type":"invocationresult","invocation_id":"@ID","function_id":"f::bad","error":{"code":"serialization_error","message":"The result of f::bad cannot be sent."}}`},
		{`{"type":"invokefunction","invocation_id":"@ID","function_id":"f::none","namespace":"x"}`,
			`{"type":"invocationresult","invocation_id":"@ID","function_id":"f::none","error":{"code":"function_not_found","message":"Function f::none not found in namespace x."}}`},
		{`{"type":"invokefunction","invocation_id":"@ID","function_id":"f::echo","namespace":" "}`,
			"{\"type\":\"invocationresult\",\"invocation_id\":\"@ID\",\"function_id\":\"f::echo\",\"error\":{\"code\":\"INVALID_NAMESPACE\",\"message\":\"`namespace` is empty: it was named and left blank. Give it a name, or omit it to use `default`.\"}}"},
	} {
		fill := strings.NewReplacer("@ID", fmt.Sprintf("0d1f0000-0000-4000-8000-%012x", i), "@TP", traceparent).Replace
		g.send(a, fill(tc.call))
		if diff := cmp.Diff(fill(tc.want), a.text(t)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestVoidFromASocket(t *testing.T) {
	t.Parallel()
	g := newRig(t, withAccess(refuse{"f::refused": true}))
	g.serve("f::internal", bus.Meta{Internal: true}, echo)
	g.serve("f::says_forbidden", bus.Meta{}, func(context.Context, *bus.Call) (json.RawMessage, error) {
		return nil, &bus.Error{Code: "FORBIDDEN", Message: "by the callee"}
	})
	a, b := g.connect("a"), g.connect("b")
	g.register(b, "f::g")
	for _, own := range []string{"", `"invocation_id":"` + id1 + `",`} {
		g.send(a, `{"type":"invokefunction",`+own+`"function_id":"f::g","data":{"n":1},"action":{"type":"void"},"metadata":{"m":1}}`)
		call := b.call(t)
		if _, ok := protocol.CanonicalID(call.InvocationID); !ok || call.InvocationID == id1 || call.Action != nil || call.Namespace != nil {
			t.Errorf("the callee got %+v, want a fresh id and nothing else", call)
		}
		if string(call.Data) != `{"_caller_worker_id":"worker-a","n":1}` {
			t.Errorf("data %s", call.Data)
		}
		g.send(b, `{"type":"invocationresult","invocation_id":"`+call.InvocationID+`","function_id":"f::g","error":{"code":"x","message":"y"}}`)
		a.silent(t)
	}
	for _, id := range []string{"f::unknown", "f::says_forbidden"} {
		g.send(a, `{"type":"invokefunction","invocation_id":"`+id1+`","function_id":"`+id+`","action":{"type":"void"}}`)
	}
	g.send(a, `{"type":"invokefunction","function_id":"f::g","namespace":"","action":{"type":"void"}}`)
	for _, id := range []string{"f::refused", "f::internal"} {
		g.send(a, `{"type":"invokefunction","function_id":"`+id+`","action":{"type":"void"}}`)
		got := a.next(t).(*protocol.InvocationResult)
		if _, ok := protocol.CanonicalID(got.InvocationID); !ok || got.Error.Code != "FORBIDDEN" || got.FunctionID != id {
			t.Errorf("got %+v, want FORBIDDEN under a fresh id", got)
		}
	}
	if err := g.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.silent(t)
}

func TestSyncWithoutAnIdAnswersNobody(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	a, b := g.connect("a"), g.connect("b")
	g.register(b, "f::g")
	g.send(a, `{"type":"invokefunction","function_id":"f::g","data":{}}`)
	call := b.call(t)
	if _, ok := protocol.CanonicalID(call.InvocationID); !ok {
		t.Errorf("the callee got no id: %+v", call)
	}
	g.answer(b, call, "1")
	g.send(a, `{"type":"invokefunction","function_id":"f::none","data":{}}`)
	a.silent(t)
}

func TestRefusedCalls(t *testing.T) {
	t.Parallel()
	g := newRig(t, withAccess(refuse{"f::refused": true}))
	g.serve("f::refused", bus.Meta{}, echo)
	g.serve("f::internal", bus.Meta{Internal: true}, echo)
	a, b := g.connect("a"), g.connect("b")
	g.send(b, `{"type":"registerfunction","id":"b::own","metadata":{"internal":true}}`)
	for id, message := range map[string]string{
		"f::refused":  "f::refused is not in the list",
		"f::internal": "Function f::internal is internal to the bus: no connection may call it.",
		"b::own":      "Function b::own is internal to the bus: no connection may call it.",
	} {
		for _, action := range []string{"", `,"action":{"type":"enqueue","queue":"mail"}`} {
			g.send(a, `{"type":"invokefunction","invocation_id":"`+id1+`","function_id":"`+id+`"`+action+`}`)
			got := a.next(t).(*protocol.InvocationResult)
			if diff := cmp.Diff(&bus.Error{Code: "FORBIDDEN", Message: message}, got.Error); diff != "" {
				t.Errorf("%s%s (-want +got):\n%s", id, action, diff)
			}
		}
	}
	g.send(b, `{"type":"invokefunction","invocation_id":"`+id1+`","function_id":"b::own"}`)
	if call := b.call(t); call.FunctionID != "b::own" {
		t.Errorf("got %+v: a worker may call its own functions", call)
	}
	if _, err := g.Worker("x").Invoke(t.Context(), bus.Invocation{FunctionID: "f::internal"}); err != nil {
		t.Errorf("a built-in worker got %v", err)
	}
	if len(g.queue.sent) > 0 {
		t.Errorf("a refused call was queued: %+v", g.queue.sent)
	}
}

func TestInProcessCallsASocket(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	b := g.connect("b")
	g.register(b, "f::g")
	type result struct {
		out json.RawMessage
		err error
	}
	results := make(chan result)
	invoke := func(in bus.Invocation) {
		out, err := g.Worker("turn").Invoke(context.Background(), in)
		results <- result{out, err}
	}
	go invoke(bus.Invocation{
		FunctionID: "f::g", Data: json.RawMessage(`{"a":1}`), InvocationID: id1, IdempotencyKey: "call-1", Timeout: 5 * time.Second,
		Principal: &bus.Principal{ID: "ann", Role: bus.RoleClient, OnBehalfOf: "slack:T:U", Sessions: []string{"s*"}},
		Reply:     &bus.Reply{SessionID: "s", FunctionCallID: "c", Run: "r", AfterMS: 2000},
	})
	want := `{"type":"invokefunction","invocation_id":"` + id1 + `","function_id":"f::g","data":{"a":1},"metadata":{"principal":{"id":"ann","role":"client","on_behalf_of":"slack:T:U"},` +
		`"deadline_ms":1767323050000,"idempotency_key":"call-1","reply":{"session_id":"s","function_call_id":"c","run":"r","after_ms":2000}}}`
	if diff := cmp.Diff(want, b.text(t)); diff != "" {
		t.Errorf("callee (-want +got):\n%s", diff)
	}
	g.send(b, `{"type":"invocationresult","invocation_id":"`+id1+`","function_id":"f::g","result":"r"}`)
	if r := <-results; r.err != nil || string(r.out) != `"r"` {
		t.Errorf("got %s, %v", r.out, r.err)
	}
	go invoke(bus.Invocation{FunctionID: "f::g"})
	call := b.call(t)
	if string(call.Data) != "null" {
		t.Errorf("data %s, want null: no worker id, no {} for a socket", call.Data)
	}
	g.send(b, `{"type":"invocationresult","invocation_id":"`+call.InvocationID+`","error":{"code":"x","message":"y"}}`)
	if r := <-results; bus.Code(r.err) != "x" {
		t.Errorf("got %v", r.err)
	}
	g.noRow("s/c")
}

func TestSendFailures(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	b := g.connect("b")
	g.register(b, "f::g")
	for _, tc := range []struct {
		err  error
		code string
	}{
		{bus.ErrTooLarge, "VALUE_TOO_LARGE"},
		{errors.New("other"), "channel_send_failed"},
		{context.DeadlineExceeded, "TIMEOUT"},
		{nil, "invocation_failed"}, // what is no JSON is not sent
	} {
		b.failWith(tc.err)
		in := bus.Invocation{FunctionID: "f::g", InvocationID: id1}
		if tc.err == nil {
			in.Data = json.RawMessage("{")
		}
		_, err := g.Worker("a").Invoke(t.Context(), in)
		if err == nil || tc.err != nil && bus.Code(err) != tc.code {
			t.Errorf("%v: got %v, want %s", tc.err, err, tc.code)
		}
		if n := g.Active("a") + g.Active("b"); n != 0 {
			t.Errorf("%v: %d calls are counted as active", tc.err, n)
		}
	}
	// A call that was given to nobody may be made again under its id.
	result := make(chan error)
	go func() {
		_, err := g.Worker("a").Invoke(context.Background(), bus.Invocation{FunctionID: "f::g", InvocationID: id1})
		result <- err
	}()
	g.answer(b, b.call(t), "1")
	if err := <-result; err != nil {
		t.Error(err)
	}
}

func TestResultsTooLargeForTheCaller(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	a, b := g.connect("a"), g.connect("b")
	g.register(b, "f::g")
	failing := true
	got := make(chan *protocol.InvocationResult, 1)
	big := &limited{conn: a, refuse: func() bool { f := failing; failing = false; return f }, got: got}
	g.Detach(a)
	g.Attach(big)
	g.HandleInvoke(t.Context(), big, &protocol.InvokeFunction{InvocationID: id1, FunctionID: "f::g"})
	g.answer(b, b.call(t), `"large"`)
	if f := <-got; f.Error == nil || f.Error.Code != "VALUE_TOO_LARGE" || f.Result != nil {
		t.Errorf("got %+v, want VALUE_TOO_LARGE", f)
	}
}

// limited refuses a frame as too large.
type limited struct {
	*conn
	refuse func() bool
	got    chan *protocol.InvocationResult
}

func (l *limited) Send(_ context.Context, f protocol.Frame) error {
	if l.refuse() {
		return bus.ErrTooLarge
	}
	l.got <- f.(*protocol.InvocationResult)
	return nil
}

func TestOnlyTheCalleeAnswers(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	a, b, c := g.connect("a"), g.connect("b"), g.connect("c")
	g.register(b, "f::g")
	g.send(a, `{"type":"invokefunction","invocation_id":"`+id1+`","function_id":"f::g"}`)
	call := b.call(t)
	g.answer(c, call, `"spoofed"`)
	g.answer(a, call, `"by the caller"`)
	a.silent(t)
	g.answer(b, call, `"real"`)
	if got := a.next(t).(*protocol.InvocationResult); string(got.Result) != `"real"` {
		t.Errorf("got %s", got.Result)
	}
}

func TestDetachStopsCalls(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	a, b := g.connect("a"), g.connect("b")
	g.register(b, "f::g")
	g.send(a, `{"type":"invokefunction","invocation_id":"`+id1+`","function_id":"f::g"}`)
	b.call(t)
	result := make(chan error)
	go func() {
		_, err := g.Worker("x").Invoke(context.Background(), bus.Invocation{FunctionID: "f::g"})
		result <- err
	}()
	b.call(t)
	g.Detach(b)
	g.Detach(b)
	stopped := &bus.Error{Code: "invocation_stopped", Message: "Invocation stopped"}
	if diff := cmp.Diff(stopped, a.next(t).(*protocol.InvocationResult).Error); diff != "" {
		t.Errorf("socket caller (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(stopped, (<-result).(*bus.Error)); diff != "" {
		t.Errorf("caller in process (-want +got):\n%s", diff)
	}
	g.send(a, `{"type":"invokefunction","invocation_id":"`+id1[:35]+`b","function_id":"f::g"}`)
	if got := a.next(t).(*protocol.InvocationResult); got.Error.Code != "function_not_found" {
		t.Errorf("got %+v", got.Error)
	}
	// Frames of a connection that has gone do nothing.
	g.register(b, "f::again")
	g.send(b, `{"type":"invokefunction","invocation_id":"`+id1+`","function_id":"f::g"}`)
	g.send(b, `{"type":"unregisterfunction","id":"f::g"}`)
	g.send(b, `{"type":"registertrigger","id":"t","trigger_type":"state","function_id":"f::g"}`)
	g.send(b, `{"type":"unregistertrigger","id":"t"}`)
	g.answer(b, &protocol.InvokeFunction{InvocationID: id1}, "1")
	b.silent(t)
	if got := g.FixNamespace(b, "shop"); got != "shop" || b.fixed != "default" {
		t.Errorf("got %q, fixed %q", got, b.fixed)
	}
}

func TestACallerThatHasGoneIsForgotten(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	a, b := g.connect("a"), g.connect("b")
	g.register(b, "f::g")
	done := make(chan error)
	g.serve("s::low", bus.Meta{}, func(ctx context.Context, _ *bus.Call) (json.RawMessage, error) {
		<-done
		done <- ctx.Err()
		return nil, nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	g.HandleInvoke(ctx, a, &protocol.InvokeFunction{InvocationID: id1, FunctionID: "f::g"})
	g.HandleInvoke(ctx, a, &protocol.InvokeFunction{InvocationID: id1[:35] + "b", FunctionID: "s::low"})
	call := b.call(t)
	cancel()
	a.failWith(bus.ErrGone)
	g.Detach(a)
	g.answer(b, call, "1")
	done <- nil
	if err := <-done; err != nil {
		t.Errorf("the handler's context ended with the caller's connection: %v", err)
	}
	b.silent(t)
	a.silent(t)
	if g.log.has("result_lost") {
		t.Error("a caller that has gone is no alarm")
	}
}

func TestStickyFunctionAway(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	const id = "policy::check_permissions"
	g.serve(id, bus.Meta{}, echo)
	b := g.connect("b")
	g.register(b, id)
	g.Detach(b)
	_, err := g.Worker("turn").Invoke(t.Context(), bus.Invocation{FunctionID: id})
	want := &bus.Error{Code: "function_unavailable", Message: "Function policy::check_permissions in namespace default is unavailable: the worker that replaced it is away."}
	if diff := cmp.Diff(want, err.(*bus.Error)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
