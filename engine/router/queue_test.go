package router_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/queue"
	"github.com/iii-aws/harness/engine/router"
)

func TestEnqueueFromASocket(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	a := g.connect("a")
	for i := range 20 {
		id := id1[:34] + string(rune('a'+i/10)) + string(rune('0'+i%10))
		g.send(a, `{"type":"invokefunction","invocation_id":"`+id+`","function_id":"mail::send","data":{"n":`+string(rune('0'+i%10))+`},"metadata":{"m":1},"traceparent":"`+traceparent+`","baggage":"k=v","namespace":"shop","action":{"type":"enqueue","queue":"mail"}}`)
	}
	for range 20 {
		got := a.next(t).(*protocol.InvocationResult)
		var receipt struct {
			ID string `json:"messageReceiptId"`
		}
		if err := json.Unmarshal(got.Result, &receipt); err != nil || got.Error != nil {
			t.Fatalf("got %+v, %v", got, err)
		}
		if _, ok := protocol.CanonicalID(receipt.ID); !ok || got.Traceparent != traceparent {
			t.Errorf("got %+v", got)
		}
	}
	if len(g.queue.sent) != 20 {
		t.Fatalf("%d messages", len(g.queue.sent))
	}
	want := queue.Message{
		Queue: "mail", FunctionID: "mail::send", Namespace: "shop", Data: json.RawMessage(`{"n":0}`), Principal: a.principal, External: true,
		Traceparent: traceparent, Baggage: "iii.function.id=mail::send,k=v",
	}
	if diff := cmp.Diff(want, g.queue.sent[0], cmpopts.IgnoreFields(queue.Message{}, "ReceiptID")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for i, m := range g.queue.sent { // in the order they were sent
		if want := `{"n":` + string(rune('0'+i%10)) + `}`; string(m.Data) != want {
			t.Errorf("message %d is %s, want %s", i, m.Data, want)
		}
	}
	for _, tc := range []struct{ queue, message string }{
		{"nope", `enqueue_error: queue: unknown queue "nope"`},
		{"turn-step", `enqueue_error: queue: unknown queue "turn-step"`}, // internal
	} {
		g.send(a, `{"type":"invokefunction","invocation_id":"`+id1+`","function_id":"mail::send","action":{"type":"enqueue","queue":"`+tc.queue+`"}}`)
		if diff := cmp.Diff(&bus.Error{Code: "enqueue_error", Message: tc.message}, a.next(t).(*protocol.InvocationResult).Error); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.queue, diff)
		}
	}
}

func TestEnqueueInProcess(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	in := bus.Invocation{FunctionID: "turn::step", Data: json.RawMessage(`{"session_id":"s"}`), Action: bus.Enqueue, Queue: "turn-step", IdempotencyKey: "k"}
	out, err := g.Worker("turn").Invoke(t.Context(), in)
	if err != nil || len(g.queue.sent) != 1 {
		t.Fatalf("got %s, %v", out, err)
	}
	m := g.queue.sent[0]
	if string(out) != `{"messageReceiptId":"`+m.ReceiptID+`"}` || m.DedupID != "k" || m.Principal.ID != "turn" || m.Namespace != "default" {
		t.Errorf("got %s for %+v", out, m)
	}
	g.queue.err = &queue.InvalidError{Queue: "turn-step", Field: "session_id", Allowed: "there"}
	if _, err := g.Worker("turn").Invoke(t.Context(), in); bus.Code(err) != "enqueue_error" {
		t.Errorf("got %v", err)
	}
	g = newRig(t, func(c *router.Config) { c.Queue = nil })
	if _, err := g.Worker("turn").Invoke(t.Context(), in); bus.Code(err) != "enqueue_error" {
		t.Errorf("got %v", err)
	}
}

// transient is an error that its queue must see unchanged.
type transient struct{ error }

func TestServeQueue(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	failure := transient{errors.New("later")}
	g.serve("f::fail", bus.Meta{}, func(context.Context, *bus.Call) (json.RawMessage, error) { return nil, failure })
	g.serve("f::nested", bus.Meta{}, func(ctx context.Context, _ *bus.Call) (json.RawMessage, error) {
		return g.Worker("f").Invoke(ctx, bus.Invocation{FunctionID: "f::none"})
	})
	var seen *bus.Call
	var value any
	type key struct{}
	g.serve("f::see", bus.Meta{Internal: true}, func(ctx context.Context, c *bus.Call) (json.RawMessage, error) {
		seen, value = c, ctx.Value(key{})
		return nil, nil
	})
	d := queue.Delivery{ID: "m1", Message: queue.Message{
		FunctionID: "f::see", Data: json.RawMessage(`{"a":1}`), Principal: bus.Principal{ID: "ann"}, Traceparent: traceparent, Baggage: "k=v",
	}}
	ctx := bus.WithCall(context.WithValue(t.Context(), key{}, "v"), &bus.Call{Traceparent: "other"})
	if err := g.ServeQueue(ctx, d); err != nil {
		t.Fatal(err)
	}
	if seen.Principal.ID != "ann" || seen.IdempotencyKey != "m1" || seen.Traceparent != traceparent || seen.Baggage != "iii.function.id=f::see,k=v" ||
		string(seen.Data) != `{"a":1}` || seen.Metadata != nil || seen.Worker != "" || seen.Connection != "" || value != "v" {
		t.Errorf("the handler saw %+v, value %v", seen, value)
	}
	for id, want := range map[string]error{"f::fail": failure, "f::none": queue.ErrNoTarget} {
		d.FunctionID = id
		if err := g.ServeQueue(ctx, d); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", id, err, want)
		}
	}
	d.FunctionID = "f::nested" // a not found further down is a failure, not a missing target
	if err := g.ServeQueue(ctx, d); bus.Code(err) != "function_not_found" || errors.Is(err, queue.ErrNoTarget) {
		t.Errorf("got %v", err)
	}

	b := g.connect("b")
	g.register(b, "f::socket")
	d.FunctionID = "f::socket"
	done := make(chan error)
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() { done <- g.ServeQueue(ctx, d) }()
	b.call(t)
	cancel(queue.ErrDrained)
	if err := <-done; !errors.Is(err, queue.ErrDrained) {
		t.Errorf("got %v, want the cause of the end", err)
	}
	go func() { done <- g.ServeQueue(t.Context(), d) }()
	g.answer(b, b.call(t), "1")
	if err := <-done; err != nil {
		t.Error(err)
	}
	b.failWith(errors.New("broken"))
	if err := g.ServeQueue(t.Context(), d); bus.Code(err) != "channel_send_failed" {
		t.Errorf("got %v", err)
	}
}

// TestExternalMessageReachesNothingInternal: also when the function came to be
// after it was sent.
func TestExternalMessageReachesNothingInternal(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.serve("f::inner", bus.Meta{Internal: true}, echo)
	g.serve("f::open", bus.Meta{}, echo)
	b := g.connect("b")
	g.RegisterFunction(t.Context(), b, &protocol.RegisterFunction{ID: "b::inner", Metadata: json.RawMessage(`{"internal":true}`)})
	ann := bus.Principal{ID: "ann"}
	for _, tt := range []struct {
		id   string
		by   bus.Principal
		code string
	}{{"f::inner", ann, "FORBIDDEN"}, {"f::open", ann, ""}, {"b::inner", ann, "FORBIDDEN"}} {
		d := queue.Delivery{ID: "m" + tt.id, Message: queue.Message{FunctionID: tt.id, Data: json.RawMessage("1"), Principal: tt.by, External: true}}
		if err := g.ServeQueue(t.Context(), d); (err == nil) != (tt.code == "") || (err != nil && bus.Code(err) != tt.code) {
			t.Errorf("%s: error = %v, want %q", tt.id, err, tt.code)
		}
	}
	done := make(chan error, 1)
	d := queue.Delivery{ID: "own", Message: queue.Message{FunctionID: "b::inner", Data: json.RawMessage("1"), Principal: b.principal, External: true}}
	go func() { done <- g.ServeQueue(t.Context(), d) }()
	g.answer(b, b.call(t), "1")
	if err := <-done; err != nil {
		t.Errorf("its own: %v", err)
	}
}
