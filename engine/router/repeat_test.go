package router_test

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/router"
)

func TestRepeatsRunOnce(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	a, b, c := g.connect("a"), g.connect("b"), g.connect("c")
	g.register(b, "f::g", "f::h")
	ask := `{"type":"invokefunction","invocation_id":"` + id1 + `","function_id":"f::g","traceparent":"`
	g.send(a, ask+`first"}`)
	first := b.call(t)
	g.send(a, ask+`second"}`) // while the first is under way
	b.silent(t)

	// The same id of another caller is another call.
	g.send(c, ask+`third"}`)
	third := b.call(t)
	if first.InvocationID != id1 || third.InvocationID == id1 {
		t.Errorf("the callee got the ids %s and %s", first.InvocationID, third.InvocationID)
	}
	g.answer(b, third, `"for c"`)
	if got := c.next(t).(*protocol.InvocationResult); string(got.Result) != `"for c"` || got.InvocationID != id1 {
		t.Errorf("c got %+v", got)
	}
	g.answer(b, first, `"for a"`)
	for _, trace := range []string{"first", "second"} {
		if got := a.next(t).(*protocol.InvocationResult); string(got.Result) != `"for a"` || got.Traceparent != trace {
			t.Errorf("a got %+v, want the answer with its own trace %s", got, trace)
		}
	}
	g.send(a, ask+`late"}`) // after the answer
	if got := a.next(t).(*protocol.InvocationResult); string(got.Result) != `"for a"` || got.Traceparent != "late" {
		t.Errorf("a got %+v", got)
	}
	used := &bus.Error{Code: "invocation_error", Message: "The invocation id was used for another function."}
	g.send(a, `{"type":"invokefunction","invocation_id":"`+id1+`","function_id":"f::h"}`)
	if diff := cmp.Diff(used, a.next(t).(*protocol.InvocationResult).Error); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	g.clock.Advance(59 * time.Second)
	g.send(a, ask+`minute"}`)
	a.next(t)
	b.silent(t)
	g.clock.Advance(30 * time.Second)
	g.send(a, ask+`later"}`)
	g.answer(b, b.call(t), `"again"`)
	if got := a.next(t).(*protocol.InvocationResult); string(got.Result) != `"again"` {
		t.Errorf("a got %+v", got)
	}
	g.clock.Advance(24 * time.Hour)
	g.send(a, ask+`day"}`)
	g.answer(b, b.call(t), `"again"`)
	a.next(t)

	// While one is under way, the id is taken for other functions too.
	g.send(a, `{"type":"invokefunction","invocation_id":"`+id1[:35]+`b","function_id":"f::g"}`)
	b.call(t)
	g.send(a, `{"type":"invokefunction","invocation_id":"`+id1[:35]+`b","function_id":"f::h"}`)
	if diff := cmp.Diff(used, a.next(t).(*protocol.InvocationResult).Error); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRepeatWhoseResultIsNotKept(t *testing.T) {
	t.Parallel()
	g := newRig(t, func(c *router.Config) { c.DedupBytes = 200 })
	a, b := g.connect("a"), g.connect("b")
	g.register(b, "f::g")
	g.send(b, `{"type":"registerfunction","id":"f::secret","metadata":{"sensitive":true}}`)
	for _, tc := range []struct{ id, function, result string }{
		{id1[:35] + "1", "f::g", `"` + string(make([]byte, 0)) + `0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"`},
		{id1[:35] + "2", "f::secret", `"key"`},
	} {
		for range 2 {
			g.send(a, `{"type":"invokefunction","invocation_id":"`+tc.id+`","function_id":"`+tc.function+`"}`)
			select {
			case <-b.more:
				b.more <- struct{}{}
				g.answer(b, b.call(t), tc.result)
			default:
			}
		}
		if got := a.next(t).(*protocol.InvocationResult); string(got.Result) != tc.result {
			t.Errorf("%s: got %+v", tc.function, got)
		}
		want := &bus.Error{Code: "invocation_error", Message: "The call was answered before, and its result is no longer kept."}
		if diff := cmp.Diff(want, a.next(t).(*protocol.InvocationResult).Error); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.function, diff)
		}
	}
}

func TestRepeatInProcess(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	var runs atomic.Int32
	release := make(chan struct{})
	g.serve("f::g", bus.Meta{}, func(ctx context.Context, _ *bus.Call) (json.RawMessage, error) {
		runs.Add(1)
		select {
		case <-release:
			return json.RawMessage("1"), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	in := bus.Invocation{FunctionID: "f::g", InvocationID: id1}
	results := make(chan error, 3)
	ctx, cancel := context.WithCancel(t.Context())
	invoke := func(ctx context.Context) {
		_, err := g.Worker("a").Invoke(ctx, in)
		results <- err
	}
	go invoke(ctx)
	g.clock.BlockUntil(1)
	go invoke(context.Background())
	g.clock.BlockUntil(2)
	cancel() // the first caller leaves: the second still waits, so the handler goes on
	if err := <-results; err != context.Canceled {
		t.Errorf("got %v", err)
	}
	close(release)
	if err := <-results; err != nil {
		t.Errorf("got %v: the second caller must get the answer", err)
	}
	invoke(context.Background())
	if err := <-results; err != nil || runs.Load() != 1 {
		t.Errorf("got %v after %d runs", err, runs.Load())
	}
	// Another worker's id of the same text is another call.
	if _, err := g.Worker("b").Invoke(t.Context(), in); err != nil || runs.Load() != 2 {
		t.Errorf("got %v after %d runs", err, runs.Load())
	}
	if _, err := g.Worker("a").Invoke(t.Context(), bus.Invocation{FunctionID: "f::none", InvocationID: id1[:35] + "c"}); bus.Code(err) != "function_not_found" {
		t.Errorf("got %v", err)
	}
}
