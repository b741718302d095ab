package router_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/router"
)

// TestTenThousandReconnects: a worker with 200 functions loses its connection again and again. Who owns what stays as it
// was, and nothing is left behind.
func TestTenThousandReconnects(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const functions = 200
	reconnects := 10_000
	if raceEnabled {
		reconnects = 1000
	}
	g := newRig(t, withGrace, func(c *router.Config) { c.Logger = nil })
	id := func(i int) string { return fmt.Sprintf("w::f%03d", i) }
	b, over := g.connect("b"), g.connect("over")
	for i := range functions {
		g.register(b, id(i))
	}
	for i := 0; i < functions; i += 2 {
		g.register(over, id(i)) // on top of every other one
	}
	push := bus.Push{Connection: "b", FunctionID: id(1)}
	round := func(n int) {
		g.Detach(b)
		b = g.connectAs(fmt.Sprint("b", n), b.principal)
		previous := fmt.Sprint("b", n-1)
		if n == 0 {
			previous = "b"
		}
		as := &conn{id: previous}
		if n%10 == 9 { // now and then the reattach is seen last
			g.FixNamespace(b, bus.DefaultNamespace)
			defer g.reattach(b, as)
		} else {
			g.reattach(b, as)
		}
		for i := range functions {
			g.RegisterFunction(t.Context(), b, &protocol.RegisterFunction{ID: id(i)})
		}
	}
	settle := func() (heap uint64, goroutines int) {
		if err := g.Post(t.Context(), push); err != nil { // waits until what was kept is sent
			t.Fatal(err)
		}
		b.call(t)
		g.clock.Advance(time.Hour)
		for limit := time.Now().Add(10 * time.Second); g.clock.Waiting() > 0 && time.Now().Before(limit); {
			runtime.Gosched()
		}
		var m runtime.MemStats
		for range 3 {
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return m.HeapAlloc, runtime.NumGoroutine()
	}
	n := 0
	for ; n < reconnects/10; n++ {
		round(n)
	}
	heap, goroutines := settle()
	for ; n < reconnects; n++ {
		round(n)
		if n%100 == 0 {
			g.clock.Advance(time.Second)
		}
	}
	after, now := settle()
	for i := range functions {
		e, ok := g.registry.Lookup("", id(i))
		if want := []string{"over", b.id}[i%2]; !ok || e.Connection != want {
			t.Fatalf("%s is served by %s, want %s", id(i), e.Connection, want)
		}
	}
	if now > goroutines {
		t.Errorf("%d goroutines, %d before", now, goroutines)
	}
	if after > heap+1<<19 {
		t.Errorf("the heap has %d bytes, %d before", after, heap)
	}
	t.Logf("heap %d kB, then %d kB; %d goroutines, then %d", heap>>10, after>>10, goroutines, now)
}
