package trigger_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/router"
)

// wire is the outbound side of all connections.
type wire struct {
	mu   sync.Mutex
	gone map[string]bool
	fail error
	sent chan string
}

func (w *wire) send(ctx context.Context, connection string, f protocol.Frame) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gone[connection] {
		return bus.ErrGone
	}
	if w.fail != nil {
		return w.fail
	}
	text, err := protocol.Encode(f)
	if err != nil {
		return err
	}
	w.sent <- connection + " " + string(text)
	return nil
}

func (w *wire) set(f func(*wire)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(w)
}

// next expects frames in their order.
func (w *wire) next(t testing.TB, want ...string) {
	t.Helper()
	for _, want := range want {
		select {
		case got := <-w.sent:
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("nothing was sent, want %s", want)
		}
	}
}

// any expects frames in whatever order.
func (w *wire) any(t testing.TB, want ...string) {
	t.Helper()
	left := map[string]int{}
	for _, one := range want {
		left[one]++
	}
	for range want {
		select {
		case got := <-w.sent:
			left[got]--
		case <-time.After(10 * time.Second):
			t.Fatalf("too little was sent, want %s", want)
		}
	}
	for one, n := range left {
		if n != 0 {
			t.Errorf("%s: %d times too few", one, n)
		}
	}
}

func (w *wire) none(t testing.TB) {
	t.Helper()
	select {
	case got := <-w.sent:
		t.Errorf("%s was sent", got)
	default:
	}
}

// provide has a connection declare a type.
func (g *rig) provide(c router.Caller, more string) {
	g.t.Helper()
	f, err := protocol.Decode([]byte(`{"type":"registertriggertype","id":"tick","description":"d"` + more + `}`))
	if err != nil {
		g.t.Fatal(err)
	}
	g.attached(c)
	if err := g.RegisterType(c, f.(*protocol.RegisterTriggerType)); err != nil {
		g.t.Fatal(err)
	}
}

// bound is what a provider hears of a binding of tick.
func bound(connection, id string, more string) string {
	return fmt.Sprintf(`%s {"type":"registertrigger","id":"%s","trigger_type":"tick","function_id":"f::g"%s}`, connection, id, more)
}

func unbound(connection, id string) string {
	return fmt.Sprintf(`%s {"type":"unregistertrigger","id":"%s","trigger_type":"tick"}`, connection, id)
}

// mine binds a function to tick.
func (g *rig) mine(c router.Caller, id, more string) {
	g.t.Helper()
	if err := g.bind(c, `{"type":"registertrigger","id":"`+id+`","trigger_type":"tick","function_id":"f::g"`+more+`}`); err != nil {
		g.t.Fatal(err)
	}
}

// answer is a provider's to a binding.
func (g *rig) answer(c router.Caller, id string, err *bus.Error) {
	g.Result(c, &protocol.TriggerRegistrationResult{ID: id, TriggerType: "tick", FunctionID: "f::g", Error: err})
}
