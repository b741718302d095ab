package trigger_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/trigger"
)

func TestASlowConnectionHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	release := make(chan struct{})
	g.calls.on("slow::f", func(context.Context, *bus.Call) (json.RawMessage, error) { <-release; return nil, nil })
	if err := g.bind(socket("a", bus.RoleWorker), `{"type":"registertrigger","id":"t","function_id":"slow::f","trigger_type":"state","config":{"scope":"s"}}`); err != nil {
		t.Fatal(err)
	}
	g.declare("state", "quick::f", `{"scope":"s"}`)
	const n = 100
	for i := range n {
		if err := g.State(t.Context(), change("s", "k", "", fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	close(release)
	next := map[string]int{}
	for range 2 * n {
		in := g.calls.next(t)
		var p struct {
			New int `json:"new_value"`
		}
		if err := json.Unmarshal(in.Data, &p); err != nil || p.New != next[in.FunctionID] {
			t.Fatalf("%s got %d, want %d: out of order", in.FunctionID, p.New, next[in.FunctionID])
		}
		next[in.FunctionID]++
	}
}

func TestTooManyChangesForAConnection(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	started, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	g.calls.on("slow::f", func(context.Context, *bus.Call) (json.RawMessage, error) {
		once.Do(func() { close(started) })
		<-release
		return nil, nil
	})
	if err := g.bind(socket("a", bus.RoleWorker), `{"type":"registertrigger","id":"t","function_id":"slow::f","trigger_type":"state","config":{"scope":"s"}}`); err != nil {
		t.Fatal(err)
	}
	fire := func() {
		t.Helper()
		if err := g.State(t.Context(), change("s", "k", "", "1")); err != nil {
			t.Fatal(err)
		}
	}
	fire()
	<-started
	for range trigger.MaxWaiting {
		fire()
	}
	if g.log.has("trigger_dropped") {
		t.Error("a change within the bound was dropped")
	}
	fire()
	if !g.log.has("alarm=trigger_dropped") {
		t.Error("a change beyond the bound was kept")
	}
	g.Drop("a")
	close(release)
}

func TestAConnectionThatGoesStopsItsRetries(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.calls.on("f::on", returns("", errors.New("busy")))
	if err := g.bind(socket("a", bus.RoleWorker), `{"type":"registertrigger","id":"t","function_id":"f::on","trigger_type":"state","config":{"scope":"s"}}`); err != nil {
		t.Fatal(err)
	}
	if err := g.State(t.Context(), change("s", "k", "", "1")); err != nil {
		t.Fatal(err)
	}
	g.clock.BlockUntil(1)
	g.Drop("a")
	for g.clock.Waiting() > 0 {
		runtime.Gosched()
	}
	g.calls.next(t)
	g.calls.none(t)
	if g.log.has("given_up") {
		t.Error("a connection that goes is no alarm")
	}
}
