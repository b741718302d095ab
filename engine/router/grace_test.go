package router_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/registry"
	"github.com/iii-aws/harness/engine/router"
)

const grace = 5 * time.Second

func withGrace(c *router.Config) { c.Grace = grace }

// back connects under a new name, and comes back as an earlier connection of the same principal.
func (g *rig) back(name string, as *conn) *conn {
	c := g.connectAs(name, as.principal)
	g.reattach(c, as)
	return c
}

func (g *rig) reattach(c, as *conn) {
	g.Reattach(c, &protocol.Reattach{PreviousWorkerID: as.WorkerID(), ReattachToken: as.ReattachToken()})
}

// invoke calls a function as a built-in worker, on a goroutine of its own.
func (g *rig) invoke(id string) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		out, err := g.Worker("x").Invoke(context.Background(), bus.Invocation{FunctionID: id})
		done <- outcome{string(out), err}
	}()
	return done
}

type outcome struct {
	result string
	err    error
}

func (g *rig) want(done <-chan outcome, result, code string) {
	g.t.Helper()
	select {
	case out := <-done:
		got := ""
		if out.err != nil {
			got = bus.Code(out.err)
		}
		if out.result != result || got != code {
			g.t.Errorf("got %s, %v, want %s, %s", out.result, out.err, result, code)
		}
	case <-time.After(10 * time.Second):
		g.t.Fatal("the call does not end")
	}
}

// parked waits until so many calls wait for the worker of a connection.
func (g *rig) parked(c *conn, n int) {
	g.t.Helper()
	for limit := time.Now().Add(10 * time.Second); time.Now().Before(limit); runtime.Gosched() {
		if g.Waiting(c.id) == n {
			return
		}
	}
	g.t.Fatalf("%d calls wait for %s, want %d", g.Waiting(c.id), c.id, n)
}

// TestACutWorkerComesBackWithinTheGrace: calls that it was given, calls that it made and calls that came meanwhile all
// end as if it had not been cut.
func TestACutWorkerComesBackWithinTheGrace(t *testing.T) {
	t.Parallel()
	g := newRig(t, withGrace)
	g.serve("s::f", bus.Meta{}, func(context.Context, *bus.Call) (json.RawMessage, error) { return json.RawMessage(`"base"`), nil })
	release := make(chan struct{})
	g.serve("slow::f", bus.Meta{}, func(context.Context, *bus.Call) (json.RawMessage, error) {
		<-release
		return json.RawMessage(`"late"`), nil
	})
	b := g.connect("b")
	g.register(b, "s::f")
	given := g.invoke("s::f")
	call := b.call(t)
	g.send(b, `{"type":"invokefunction","invocation_id":"`+id1+`","function_id":"slow::f"}`)

	g.Detach(b)
	close(release)
	meanwhile := g.invoke("s::f")
	g.parked(b, 1)
	g.clock.Advance(grace - time.Millisecond)
	b2 := g.back("b2", b)
	g.answer(b2, call, `"first"`)
	g.want(given, `"first"`, "")
	frames := []string{}
	for range 2 { // what was kept comes first, in no promised order beside the call that waited
		f := b2.next(t)
		switch f := f.(type) {
		case *protocol.InvokeFunction:
			frames = append(frames, "call")
			g.answer(b2, f, `"second"`)
		case *protocol.InvocationResult:
			frames = append(frames, "result "+f.InvocationID+" "+string(f.Result))
		}
	}
	if diff := cmp.Diff([]string{"result " + id1 + ` "late"`, "call"}, frames); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	g.want(meanwhile, `"second"`, "")
	g.register(b2, "s::f")
	g.clock.Advance(time.Hour)
	g.answer(b2, g.next(b2, g.invoke("s::f")), "1")
	if n := g.Active("b") + g.Active("b2") + g.Active("x"); n != 0 {
		t.Errorf("%d calls are counted as active", n)
	}
}

// next is the call that a connection is sent while done has not ended.
func (g *rig) next(c *conn, done <-chan outcome) *protocol.InvokeFunction {
	g.t.Helper()
	f := c.call(g.t)
	g.t.Cleanup(func() { <-done })
	return f
}

// TestAWorkerThatStaysAwayIsGone: at the end of the grace, once, everything that it was is undone.
func TestAWorkerThatStaysAwayIsGone(t *testing.T) {
	t.Parallel()
	triggers := &binder{}
	var told []string
	gone := make(chan struct{})
	g := newRig(t, withGrace, func(c *router.Config) {
		c.Triggers = triggers
		c.Gone = func(connection string) { told = append(told, "gone "+connection) }
		c.WorkerEvent = func(event, id string) {
			told = append(told, event+" "+id)
			if event == router.EventDisconnected {
				close(gone)
			}
		}
	})
	g.serve("s::f", bus.Meta{}, func(context.Context, *bus.Call) (json.RawMessage, error) { return json.RawMessage(`"base"`), nil })
	b := g.connect("b")
	g.register(b, "s::f", "b::only")
	given, replaced, lost := g.invoke("s::f"), (<-chan outcome)(nil), (<-chan outcome)(nil)
	b.call(t)
	g.Detach(b)
	if w, _ := g.registry.Worker("b"); w.Status != registry.StatusAway {
		t.Errorf("its status is %s", w.Status)
	}
	replaced, lost = g.invoke("s::f"), g.invoke("b::only")
	g.parked(b, 2)
	if len(told) != 1 || len(triggers.got) != 0 {
		t.Errorf("told %v, triggers %v within the grace", told, triggers.got)
	}
	g.clock.Advance(grace)
	g.want(given, "", "invocation_stopped")
	g.want(replaced, `"base"`, "")
	g.want(lost, "", "function_not_found")
	<-gone
	g.Detach(b)
	g.clock.Advance(grace)
	if diff := cmp.Diff([]string{"worker_connected worker-b", "gone b", "worker_disconnected worker-b"}, told); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"drop b"}, triggers.got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	late := g.back("b2", b)
	if w, ok := g.registry.Worker("b2"); !ok || w.Address != "b2" {
		t.Errorf("a worker that came too late is %+v", w)
	}
	late.silent(t)
	b.silent(t)
}

// TestWhoMayNotComeBack: nothing but the token of the worker, for its own principal, brings it back; anything else is
// ignored, and changes nothing.
func TestWhoMayNotComeBack(t *testing.T) {
	t.Parallel()
	g := newRig(t, withGrace)
	b := g.connect("b")
	g.register(b, "b::f")
	g.Detach(b)
	other := g.connect("other")
	for name, f := range map[string]protocol.Reattach{
		"wrong token":       {PreviousWorkerID: b.WorkerID(), ReattachToken: "token-c"},
		"no token":          {PreviousWorkerID: b.WorkerID()},
		"unknown id":        {PreviousWorkerID: "worker-z", ReattachToken: "token-z"},
		"malformed id":      {PreviousWorkerID: "\x00", ReattachToken: b.ReattachToken()},
		"its own id":        {PreviousWorkerID: other.WorkerID(), ReattachToken: other.ReattachToken()},
		"another principal": {PreviousWorkerID: b.WorkerID(), ReattachToken: b.ReattachToken()},
	} {
		g.Reattach(other, &f)
		if g.registry.Owns("other", "b::f") || !g.registry.Owns("b", "b::f") {
			t.Fatalf("%s: the function has moved", name)
		}
	}
	other.silent(t)
	b2 := g.back("b2", b)
	if !g.registry.Owns("b2", "b::f") {
		t.Error("the worker itself did not come back")
	}
	// Nor does a connection that has come back once do so as another.
	c := g.connectAs("c", b.principal)
	g.register(c, "c::f")
	g.reattach(b2, c)
	if !g.registry.Owns("c", "c::f") {
		t.Error("one connection took two workers")
	}
}

// TestAnOpenConnectionIsRetired: its worker has come back on another; what still arrives on it counts.
func TestAnOpenConnectionIsRetired(t *testing.T) {
	t.Parallel()
	g := newRig(t, withGrace)
	b := g.connect("b")
	g.register(b, "b::f")
	done := g.invoke("b::f")
	call := b.call(t)
	b2 := g.back("b2", b)
	if !b.closed {
		t.Error("the earlier connection stays open")
	}
	g.answer(b, call, "1")
	g.want(done, "1", "")
	g.register(b, "b::late") // the new one registers all anew
	if g.registry.Owns("b", "b::late") || g.registry.Owns("b2", "b::late") {
		t.Error("a retired connection registers")
	}
	b.unsent = []protocol.Frame{&protocol.InvokeFunction{FunctionID: "push", Data: json.RawMessage("7")}, &protocol.Pong{}}
	g.Detach(b)
	if f := b2.call(t); f.FunctionID != "push" {
		t.Errorf("got %+v", f)
	}
	changed := g.registry.Changed()
	g.clock.Advance(grace)
	<-changed
	if g.registry.Owns("b2", "b::f") {
		t.Error("what was not registered again stays")
	}
	b2.silent(t)
}

// TestFramesThatWereNotSentAreSentToTheSuccessor: calls once, if they have not ended; results; not what only the old
// connection was told.
func TestFramesThatWereNotSentAreSentToTheSuccessor(t *testing.T) {
	t.Parallel()
	g := newRig(t, withGrace)
	b := g.connect("b")
	g.register(b, "b::f")
	done := g.invoke("b::f")
	call := b.call(t)
	b.unsent = []protocol.Frame{
		&protocol.WorkerRegistered{WorkerID: "w"}, call,
		&protocol.InvokeFunction{InvocationID: id1, FunctionID: "b::ended", Data: json.RawMessage("1")},
		&protocol.InvocationResult{InvocationID: id1, FunctionID: "a::b", Result: json.RawMessage("2")},
		&protocol.RegistrationRejected{Code: protocol.RejectedFunction, Namespace: "default"},
	}
	g.Detach(b)
	b2 := g.back("b2", b)
	again := b2.call(t)
	if again.InvocationID != call.InvocationID {
		t.Errorf("got %+v", again)
	}
	if f, ok := b2.next(t).(*protocol.InvocationResult); !ok || string(f.Result) != "2" {
		t.Errorf("got %+v", f)
	}
	g.answer(b2, again, `"once"`)
	g.want(done, `"once"`, "")
	b2.silent(t)
}

// TestReattachAfterTheReplay: the order of the frames makes no difference.
func TestReattachAfterTheReplay(t *testing.T) {
	t.Parallel()
	g := newRig(t, withGrace)
	b, c := g.connect("b"), g.connect("c")
	g.register(b, "s::f", "s::g")
	g.register(c, "s::f")
	done := g.invoke("s::g")
	call := b.call(t)
	g.Detach(b)
	b2 := g.connectAs("b2", b.principal)
	g.FixNamespace(b2, bus.DefaultNamespace)
	g.register(b2, "s::f", "s::g")
	g.send(b2, `{"type":"invokefunction","invocation_id":"`+id1+`","function_id":"s::g"}`)
	own := b2.call(t)
	if e, _ := g.registry.Lookup("", "s::f"); e.Connection != "b2" {
		t.Errorf("before the reattach %s serves", e.Connection)
	}
	g.reattach(b2, b)
	if e, _ := g.registry.Lookup("", "s::f"); e.Connection != "c" {
		t.Errorf("after the reattach %s serves, want c as before the cut", e.Connection)
	}
	g.answer(b2, own, "1")
	if f, ok := b2.next(t).(*protocol.InvocationResult); !ok || f.InvocationID != id1 {
		t.Errorf("got %+v", f)
	}
	g.answer(b2, call, "2")
	g.want(done, "2", "")
	g.clock.Advance(time.Hour)
	if !g.registry.Owns("b2", "s::f") || !g.registry.Owns("b2", "s::g") {
		t.Error("what was registered before the reattach is gone")
	}
}

// TestAResultBeforeTheReattach: that of a call which the worker was given before it was cut off counts all the same, and
// only if it is that worker.
func TestAResultBeforeTheReattach(t *testing.T) {
	t.Parallel()
	g := newRig(t, withGrace)
	b := g.connect("b")
	g.register(b, "s::f")
	done := g.invoke("s::f")
	call := b.call(t)
	g.Detach(b)
	stranger := g.connect("stranger")
	g.answer(stranger, call, `"forged"`)
	g.reattach(stranger, b)
	b2 := g.connectAs("b2", b.principal)
	g.answer(b2, call, `"late"`)
	g.reattach(b2, b)
	g.want(done, `"late"`, "")
}

// TestResultsOfNoCallAreForgotten: a new connection cannot have the bus keep much, nor for long.
func TestResultsOfNoCallAreForgotten(t *testing.T) {
	t.Parallel()
	g := newRig(t, withGrace)
	b := g.connect("b")
	g.register(b, "s::f")
	done := g.invoke("s::f")
	call := b.call(t)
	g.Detach(b)
	b2 := g.connectAs("b2", b.principal)
	for i := range 64 {
		g.send(b2, fmt.Sprintf(`{"type":"invocationresult","invocation_id":"0d1f0000-0000-4000-8000-0000000001%02x","function_id":"s::f","result":1}`, i))
	}
	g.answer(b2, call, `"too many"`)
	b3 := g.connectAs("b3", b.principal)
	g.send(b3, `{"type":"invocationresult","invocation_id":"`+call.InvocationID+`","function_id":"s::f","result":"`+strings.Repeat("x", 4<<20)+`"}`)
	b4 := g.connectAs("b4", b.principal)
	for _, c := range []*conn{b2, b3} {
		g.reattach(c, b)
	}
	g.answer(b4, call, `"another connection"`)
	select {
	case out := <-done:
		t.Errorf("got %+v", out)
	default:
	}
	g.answer(b3, call, `"at last"`)
	g.want(done, `"at last"`, "")
}

// TestWhatIsNotRegisteredAgainGoes: after the patience of the bus, or when a call of it tells.
func TestWhatIsNotRegisteredAgainGoes(t *testing.T) {
	t.Parallel()
	triggers := &binder{}
	g := newRig(t, withGrace, func(c *router.Config) { c.Triggers = triggers })
	b := g.connect("b")
	g.register(b, "b::keeps", "b::drops", "b::asked")
	g.Detach(b)
	b2 := g.back("b2", b)
	g.register(b2, "b::keeps")
	done := g.invoke("b::asked")
	g.HandleResult(b2, &protocol.InvocationResult{InvocationID: b2.call(t).InvocationID, FunctionID: "b::asked", Error: &protocol.Error{Code: "function_not_found", Message: "Function not found"}})
	g.want(done, "", "function_not_found")
	if g.registry.Owns("b2", "b::asked") || !g.registry.Owns("b2", "b::drops") {
		t.Error("not only the function that was asked for is gone")
	}
	g.clock.BlockUntil(1)
	changed := g.registry.Changed()
	g.clock.Advance(grace)
	<-changed
	if g.registry.Owns("b2", "b::drops") || !g.registry.Owns("b2", "b::keeps") {
		t.Error("what was not registered again stays")
	}
}

// TestAPushWaitsForItsWorker, and reaches it under the address it had before.
func TestAPushWaitsForItsWorker(t *testing.T) {
	t.Parallel()
	g := newRig(t, withGrace)
	b := g.connect("b")
	g.register(b, "ui::f")
	g.Detach(b)
	push := bus.Push{Connection: "b", FunctionID: "ui::f", Data: json.RawMessage("1")}
	done := make(chan error, 1)
	go func() { done <- g.Post(context.Background(), push) }()
	b2 := g.back("b2", b)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	b2.call(t)
	for i := range 8 { // any number of connections later
		g.Detach(b2)
		b2 = g.back("c"+strconv.Itoa(i), b2)
		if err := g.Post(t.Context(), push); err != nil {
			t.Fatal(err)
		}
		b2.call(t)
	}
	g.Detach(b2)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.Post(ctx, push); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	go func() { done <- g.Post(context.Background(), push) }()
	g.clock.Advance(grace)
	if err := <-done; !errors.Is(err, bus.ErrGone) {
		t.Errorf("got %v, want ErrGone", err)
	}
}
