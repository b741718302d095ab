package router_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/router"
)

func systemClock(c *router.Config) { c.Clock = clock.System(); c.IDs = clock.Random() }

func BenchmarkInProcessCall(b *testing.B) {
	g := newRig(b, systemClock)
	g.serve("s::f", bus.Meta{}, func(_ context.Context, c *bus.Call) (json.RawMessage, error) { return c.Data, nil })
	inv := g.Worker("x")
	in := bus.Invocation{FunctionID: "s::f", Data: json.RawMessage(`{"a":1}`)}
	b.ReportAllocs()
	b.Run("one", func(b *testing.B) {
		for b.Loop() {
			if _, err := inv.Invoke(context.Background(), in); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := inv.Invoke(context.Background(), in); err != nil {
					b.Error(err)
				}
			}
		})
	})
}

// BenchmarkSocketCall is a call from one connection to another, without the sockets and the codec.
func BenchmarkSocketCall(b *testing.B) {
	g := newRig(b, systemClock)
	from, to := g.connect("from"), &quick{conn: g.connect("to"), r: g.Router}
	g.Detach(to.conn)
	g.Attach(to)
	caller := &quick{conn: from, r: g.Router}
	g.Detach(from)
	g.Attach(caller)
	g.RegisterFunction(context.Background(), to, &protocol.RegisterFunction{ID: "s::f"})
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		f := &protocol.InvokeFunction{
			InvocationID: fmt.Sprintf("0d1f0000-0000-4000-8000-%012x", n), FunctionID: "s::f", Data: json.RawMessage(`{"a":1}`), Traceparent: traceparent,
		}
		g.HandleInvoke(context.Background(), caller, f)
	}
	if caller.results != n {
		b.Fatalf("%d results for %d calls", caller.results, n)
	}
}

// quick answers at once and counts results.
type quick struct {
	*conn
	r       *router.Router
	results int
}

func (q *quick) Send(_ context.Context, f protocol.Frame) error {
	switch f := f.(type) {
	case *protocol.InvokeFunction:
		q.r.HandleResult(q, &protocol.InvocationResult{InvocationID: f.InvocationID, Result: f.Data})
	case *protocol.InvocationResult:
		q.results++
	}
	return nil
}
