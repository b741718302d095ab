package trigger_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/registry"
	"github.com/iii-aws/harness/engine/trigger"
)

// available starts the types that tell of the bus.
func (g *rig) available() *trigger.Available {
	g.t.Helper()
	a, err := trigger.NewAvailable(g.Dispatcher, g.registry)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := a.Close(ctx); err != nil {
			g.t.Error(err)
		}
	})
	return a
}

func TestWorkerEvents(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	a := g.available()
	a.WorkerEvent("worker_connected", "nobody hears")
	if err := g.bind(socket("a", bus.RoleWorker), `{"type":"registertrigger","id":"t","trigger_type":"engine::workers-available","function_id":"f::on","config":{"any":1},"metadata":{"why":"w"}}`); err != nil {
		t.Fatal(err)
	}
	release := make(chan struct{})
	var once sync.Once
	g.calls.on("f::on", func(context.Context, *bus.Call) (json.RawMessage, error) {
		once.Do(func() { <-release })
		return nil, nil
	})
	const n = 50
	for i := range n { // it does not wait for the function
		a.WorkerEvent("worker_connected", fmt.Sprint(i))
		a.WorkerEvent("worker_disconnected", fmt.Sprint(i))
	}
	close(release)
	for i := range n {
		for _, event := range []string{"worker_connected", "worker_disconnected"} {
			in := g.calls.next(t)
			if diff := cmp.Diff(fmt.Sprintf(`{"event":"%s","worker_id":"%d"}`, event, i), string(in.Data)); diff != "" || string(in.Metadata) != `{"why":"w"}` {
				t.Errorf("%s (-want +got):\n%s", in.Metadata, diff)
			}
		}
	}
	if err := a.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.WorkerEvent("worker_connected", "after the end")
	g.Unregister(socket("a", bus.RoleWorker), "t")
	a.WorkerEvent("worker_connected", "late")
	g.calls.none(t)
}

func TestTooManyWorkerEvents(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	a := g.available()
	g.declare(trigger.TypeWorkers, "slow::f", `{}`)
	started, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	g.calls.on("slow::f", func(context.Context, *bus.Call) (json.RawMessage, error) {
		once.Do(func() { close(started) })
		<-release
		return nil, nil
	})
	a.WorkerEvent("worker_connected", "first")
	<-started
	for range trigger.MaxWaiting {
		a.WorkerEvent("worker_connected", "w")
	}
	if g.log.has("trigger_dropped") {
		t.Error("an event within the bound was dropped")
	}
	a.WorkerEvent("worker_connected", "w")
	if !g.log.has("alarm=trigger_dropped") {
		t.Error("an event beyond the bound was kept")
	}
	close(release)
}

func TestFunctionsChanged(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	a := g.available()
	g.declare(trigger.TypeFunctions, "f::on", `{}`)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	serve := func(id string) {
		t.Helper()
		if err := g.registry.Register(t.Context(), "w", "default", id, registry.Function{Description: "d", Metadata: json.RawMessage(`{"internal":true}`), Meta: bus.Meta{Internal: true}}); err != nil {
			t.Fatal(err)
		}
	}
	g.registry.Connect("w", "W", "", bus.Principal{})
	serve("x::there")
	go func() {
		a.Run(ctx)
		close(ended)
	}()
	// Run takes stock before it waits; a change of a worker is waited for, but none of functions.
	waitFor := func() {
		t.Helper()
		for g.clock.Waiting() == 0 {
			g.registry.SetStatus("w", registry.StatusConnected)
		}
		g.clock.Advance(trigger.ChangeWindow)
	}
	waitFor()
	waitFor()
	g.calls.none(t)

	row := func(id string) string {
		return `{"function_id":"` + id + `","namespace":"default","worker_name":"x","description":"d","metadata":{"internal":true}}`
	}
	told := func(ids ...string) string {
		rows := make([]string, len(ids))
		for i, id := range ids {
			rows[i] = row(id)
		}
		return `{"event":"functions_changed","functions":[` + strings.Join(rows, ",") + `]}`
	}
	serve("x::new")
	serve("x::newer")
	waitFor()
	if diff := cmp.Diff(told("x::new", "x::newer", "x::there"), string(g.calls.next(t).Data)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// What goes and comes back within the window is no change.
	g.registry.Unregister("w", "default", "x::new")
	serve("x::new")
	waitFor()
	waitFor()
	g.calls.none(t)
	// A slow function hears the latest only.
	started, release := make(chan struct{}, 8), make(chan struct{})
	g.calls.on("f::on", func(context.Context, *bus.Call) (json.RawMessage, error) {
		started <- struct{}{}
		<-release
		return nil, nil
	})
	g.registry.Unregister("w", "default", "x::new")
	waitFor()
	<-started
	for _, id := range []string{"x::1", "x::2", "x::3"} {
		serve(id)
		waitFor()
	}
	waitFor()
	close(release)
	if diff := cmp.Diff(told("x::newer", "x::there"), string(g.calls.next(t).Data)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(told("x::1", "x::2", "x::3", "x::newer", "x::there"), string(g.calls.next(t).Data)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	g.calls.none(t)
	cancel()
	<-ended
}

func TestAvailableTypesAreInternal(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.available()
	for data, want := range map[string]bool{`{}`: false, `{"include_internal":true}`: true} {
		got, err := g.ask(bus.Call{}, trigger.FunctionTypesList, data)
		if err != nil || strings.Contains(got, trigger.TypeFunctions) != want || strings.Contains(got, trigger.TypeWorkers) != want || !strings.Contains(got, `"state"`) {
			t.Errorf("%s: got %s, %v", data, got, err)
		}
	}
	if _, err := trigger.NewAvailable(g.Dispatcher, g.registry); err == nil {
		t.Error("provided twice")
	}
}
