package router_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/registry"
	"github.com/iii-aws/harness/engine/router"
)

func TestPost(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	a, thief := g.connect("a"), g.connect("thief")
	g.FixNamespace(a, "shop")
	g.register(a, "ui::session::event::b1")
	g.register(thief, "ui::session::event::b1") // on top of the id, but not of the connection
	push := bus.Push{Connection: "a", FunctionID: "ui::session::event::b1", Data: json.RawMessage(`{"seq":1}`)}
	if err := g.Post(t.Context(), push); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(`{"type":"invokefunction","function_id":"ui::session::event::b1","data":{"seq":1}}`, a.text(t)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	thief.silent(t)
	other := push
	other.FunctionID = "ui::session::event::b2"
	if err := g.Post(t.Context(), other); !errors.Is(err, bus.ErrNotRegistered) {
		t.Errorf("got %v, want ErrNotRegistered", err)
	}
	for _, want := range []error{bus.ErrTooLarge, context.Canceled} {
		a.failWith(want)
		if err := g.Post(t.Context(), push); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	g.Detach(a)
	if err := g.Post(t.Context(), push); !errors.Is(err, bus.ErrGone) {
		t.Errorf("got %v, want ErrGone", err)
	}
}

func TestSuspects(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	b := g.connect("b")
	g.register(b, "f::g")
	status := func() string {
		w, _ := g.registry.Worker("b")
		return w.Status
	}
	var last *protocol.InvokeFunction
	miss := func() {
		done := g.later(t.Context(), bus.Invocation{FunctionID: "f::g", Timeout: time.Second})
		last = b.call(t)
		g.clock.BlockUntil(1)
		g.clock.Advance(time.Second)
		if err := <-done; bus.Code(err) != "TIMEOUT" {
			t.Fatalf("got %v", err)
		}
	}
	miss()
	if got := status(); got != registry.StatusConnected {
		t.Errorf("after one timeout the worker is %s", got)
	}
	miss()
	if got := status(); got != registry.StatusSuspect || !g.log.has("alarm=worker_suspect") {
		t.Errorf("after two timeouts the worker is %s", got)
	}
	g.answer(b, last, "1")
	if got := status(); got != registry.StatusConnected {
		t.Errorf("after an answer the worker is %s", got)
	}
}

func TestSweep(t *testing.T) {
	t.Parallel()
	g := newRig(t, func(c *router.Config) { c.MaxAge = time.Hour })
	a, b := g.connect("a"), g.connect("b")
	g.register(b, "f::g")
	g.send(a, `{"type":"invokefunction","invocation_id":"`+id1+`","function_id":"f::g","traceparent":"`+traceparent+`"}`)
	old := b.call(t)
	g.clock.Advance(time.Hour)
	g.Sweep()
	a.silent(t)
	g.send(a, `{"type":"invokefunction","invocation_id":"`+id1[:35]+`b","function_id":"f::g","traceparent":"`+traceparent+`"}`)
	young := b.call(t)
	g.clock.Advance(time.Second)
	g.Sweep()
	if diff := cmp.Diff(&bus.Error{Code: "TIMEOUT", Message: "Timeout: f::g did not answer within 1h0m0s"}, a.next(t).(*protocol.InvocationResult).Error); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	g.answer(b, old, "1")
	a.silent(t)
	g.answer(b, young, "2")
	if got := a.next(t).(*protocol.InvocationResult); string(got.Result) != "2" {
		t.Errorf("got %+v", got)
	}
}

func TestDetachOfAnotherConnectionOfTheSameName(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	a := g.connect("a")
	g.register(a, "f::g")
	g.Detach(&conn{id: "a"})
	if _, ok := g.registry.Lookup("default", "f::g"); !ok {
		t.Error("the functions of a are gone")
	}
}
