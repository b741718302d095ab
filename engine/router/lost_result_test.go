package router_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
)

// instant makes a connection answer every call with its data, before Send has returned.
func (g *rig) instant(c *conn) {
	c.onSend = func(f protocol.Frame) {
		if call, ok := f.(*protocol.InvokeFunction); ok {
			g.HandleResult(c, &protocol.InvocationResult{InvocationID: call.InvocationID, Result: call.Data})
		}
	}
}

// TestNoResultIsLost has callees that answer at once: one call after the other, then 64 at a time, from sockets and in
// process.
func TestNoResultIsLost(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	a, b := g.connect("a"), g.connect("b")
	g.instant(b)
	g.register(b, "s::fast")
	results := make(chan *protocol.InvocationResult, 4096)
	a.onSend = func(f protocol.Frame) { results <- f.(*protocol.InvocationResult) }
	id := func(i int) string { return fmt.Sprintf("0d1f0000-0000-4000-8000-%012x", i) }
	ask := func(i int) {
		g.HandleInvoke(context.Background(), a, &protocol.InvokeFunction{InvocationID: id(i), FunctionID: "s::fast", Data: json.RawMessage(fmt.Sprintf("%d", i))})
	}
	for i := range 1000 {
		ask(i)
		got := <-results
		if got.InvocationID != id(i) || string(got.Result) != fmt.Sprint(i) {
			t.Fatalf("call %d got %+v", i, got)
		}
	}
	const each = 50
	var wg sync.WaitGroup
	for k := range 64 {
		wg.Go(func() {
			for n := range each {
				i := 1000 + k*each + n
				ask(i)
				out, err := g.Worker("x").Invoke(context.Background(), bus.Invocation{FunctionID: "s::fast", Data: json.RawMessage(fmt.Sprint(i))})
				if err != nil || string(out) != fmt.Sprint(i) {
					t.Errorf("call %d in process got %s, %v", i, out, err)
				}
			}
		})
	}
	wg.Wait()
	seen := map[string]bool{}
	for range 64 * each {
		got := <-results
		var i int
		if err := json.Unmarshal(got.Result, &i); err != nil || got.InvocationID != id(i) || seen[got.InvocationID] {
			t.Fatalf("got %+v", got)
		}
		seen[got.InvocationID] = true
	}
	if n := g.Active("a") + g.Active("b") + g.Active("x"); n != 0 {
		t.Errorf("%d calls are counted as active", n)
	}
}

// TestConnectionsComeAndGo has every caller hear of every call, whatever happens to the callees.
func TestConnectionsComeAndGo(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.serve("s::f", bus.Meta{}, func(context.Context, *bus.Call) (json.RawMessage, error) { return json.RawMessage(`"base"`), nil })
	stop := make(chan struct{})
	var churn sync.WaitGroup
	for k := range 3 {
		churn.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				c := g.connect(fmt.Sprintf("c%d-%d", k, n))
				if n%2 == 0 {
					g.instant(c)
				} else {
					c.onSend = func(protocol.Frame) {} // never answers, and goes
				}
				g.register(c, "s::f")
				if n%5 == 0 {
					c.failWith(bus.ErrGone)
				}
				g.Detach(c)
			}
		})
	}
	var callers sync.WaitGroup
	for k := range 8 {
		callers.Go(func() {
			for range 200 {
				ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
				_, err := g.Worker("x").Invoke(ctx, bus.Invocation{FunctionID: "s::f"})
				cancel()
				switch code := bus.Code(err); {
				case err == nil, code == "invocation_stopped", code == "channel_send_failed":
				default:
					t.Errorf("caller %d got %v", k, err)
				}
			}
		})
	}
	callers.Wait()
	close(stop)
	churn.Wait()
	if n := g.Active("x") + g.Active("s"); n != 0 {
		t.Errorf("%d calls are counted as active", n)
	}
}

// TestConcurrentRepeats runs each id once, however many ask for it at once, and answers everybody.
func TestConcurrentRepeats(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	var mu sync.Mutex
	runs := map[string]int{}
	g.serve("s::f", bus.Meta{}, func(_ context.Context, c *bus.Call) (json.RawMessage, error) {
		mu.Lock()
		defer mu.Unlock()
		runs[c.InvocationID]++
		return bus.Encode(c.InvocationID)
	})
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for range 100 {
				id := fmt.Sprintf("0d1f0000-0000-4000-8000-%012x", rand.IntN(40))
				out, err := g.Worker("x").Invoke(context.Background(), bus.Invocation{FunctionID: "s::f", InvocationID: id})
				if err != nil || string(out) != `"`+id+`"` {
					t.Errorf("%s got %s, %v", id, out, err)
				}
			}
		})
	}
	wg.Wait()
	for id, n := range runs {
		if n != 1 {
			t.Errorf("%s ran %d times", id, n)
		}
	}
}
