package queue_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/iii-aws/harness/engine/queue"
)

// handler is a handler that runs until it is told to end, or its context ends.
type handler struct {
	started chan *queue.Handle
	end     chan error
	// cause is why the context ended.
	cause chan error
	// deaf handlers do not look at their context.
	deaf bool
}

func newHandler() *handler {
	return &handler{started: make(chan *queue.Handle, 1), end: make(chan error, 1), cause: make(chan error, 1)}
}

func (h *handler) serve(ctx context.Context, _ queue.Delivery) error {
	h.started <- queue.DeliveryFrom(ctx)
	if h.deaf {
		return <-h.end
	}
	select {
	case err := <-h.end:
		return err
	case <-ctx.Done():
		h.cause <- context.Cause(ctx)
		return ctx.Err()
	}
}

func TestRenewal(t *testing.T) {
	t.Parallel()
	h := newHandler()
	b := start(t, false, h.serve)
	b.deliver("r", 1)
	handle := recv(t, h.started)
	if handle.Receives != 1 || handle.ID != "id-r" {
		t.Errorf("handle of %+v", handle.Delivery)
	}
	if want := b.clock.Now().Add(queue.DefaultTimeout); !handle.Deadline.Equal(want) {
		t.Errorf("deadline %v, want %v", handle.Deadline, want)
	}
	for range 5 {
		b.clock.BlockUntil(1)
		b.clock.Advance(19 * time.Second)
		b.quiet()
		if age := handle.RenewalAge(); age != 19*time.Second {
			t.Errorf("age before the renewal = %v, want 19s", age)
		}
		b.clock.BlockUntil(1)
		b.clock.Advance(time.Second)
		b.want("extend r 1m0s")
		b.clock.BlockUntil(1) // It is noted once the next one is waited for.
		if age := handle.RenewalAge(); age != 0 {
			t.Errorf("age after the renewal = %v, want 0", age)
		}
	}
	h.end <- nil
	b.want("ack r after 0")
	b.end()
}

func TestRenewalStale(t *testing.T) {
	t.Parallel()
	h := newHandler()
	b := start(t, false, h.serve)
	b.q.failNext("extend ", queue.ErrStale)
	b.deliver("r", 1)
	recv(t, h.started)
	b.clock.BlockUntil(1)
	b.clock.Advance(20 * time.Second)
	b.want("extend r 1m0s")
	if cause := recv(t, h.cause); !errors.Is(cause, queue.ErrStale) {
		t.Errorf("the handler's context ended by %v, want ErrStale", cause)
	}
	b.end() // Neither acknowledged nor failed.
	b.log.want(t, "lost to a later receive")
}

// TestRenewalAfterAck has a handler that works on after its acknowledgement.
func TestRenewalAfterAck(t *testing.T) {
	t.Parallel()
	h := newHandler()
	b := start(t, false, h.serve)
	b.q.failNext("extend ", queue.ErrStale)
	b.deliver("r", 1)
	recv(t, h.started).Ack()
	b.want("ack r after 0")
	b.clock.BlockUntil(1)
	b.clock.Advance(20 * time.Second)
	b.want("extend r 1m0s")
	b.clock.BlockUntil(1)
	select {
	case cause := <-h.cause:
		t.Errorf("the handler's context ended by %v", cause)
	default:
	}
	h.end <- nil
	b.end()
}

// TestRenewalFails has a queue that cannot be reached: the consumer tries more
// often, and gives the message up when its visibility must have ended.
func TestRenewalFails(t *testing.T) {
	t.Parallel()
	network := errors.New("network")
	h := newHandler()
	b := start(t, false, h.serve)
	b.q.failNext("extend ", network, nil)
	b.deliver("r", 1)
	handle := recv(t, h.started)
	b.clock.BlockUntil(1)
	b.clock.Advance(20 * time.Second)
	b.want("extend r 1m0s")
	b.clock.BlockUntil(1)
	if age := handle.RenewalAge(); age != 20*time.Second {
		t.Errorf("age after a failed renewal = %v, want 20s", age)
	}
	b.clock.Advance(5 * time.Second)
	b.want("extend r 1m0s") // This one works.
	b.clock.BlockUntil(1)
	if age := handle.RenewalAge(); age != 0 {
		t.Errorf("age after the renewal = %v, want 0", age)
	}
	for range 9 {
		b.q.failNext("extend ", network)
	}
	b.clock.Advance(20 * time.Second)
	b.want("extend r 1m0s")
	for range 8 {
		b.clock.BlockUntil(1)
		b.clock.Advance(5 * time.Second)
		b.want("extend r 1m0s")
	}
	if cause := recv(t, h.cause); !errors.Is(cause, network) {
		t.Errorf("the handler's context ended by %v, want the error of the renewal", cause)
	}
	b.want("fail r: network")
	b.end()
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	h := newHandler()
	b := start(t, false, h.serve, func(c *queue.ConsumerConfig) { c.RenewEvery = time.Hour })
	b.deliver("r", 1)
	recv(t, h.started)
	b.clock.BlockUntil(1)
	b.clock.Advance(queue.DefaultTimeout)
	var timeout *queue.TimeoutError
	if cause := recv(t, h.cause); !errors.As(cause, &timeout) {
		t.Errorf("the handler's context ended by %v, want a TimeoutError", cause)
	}
	b.want(`fail r: queue "q": t::f took longer than 30m0s`)
	b.end()
}

func TestDrain(t *testing.T) {
	t.Parallel()
	h := newHandler()
	b := start(t, true, h.serve)
	b.deliver("r", 1)
	recv(t, h.started)
	b.clock.BlockUntil(1)
	b.stop()
	b.clock.BlockUntil(2) // The renewal and the drain.
	b.deliver("late", 1)
	b.clock.Advance(9 * time.Second)
	h.end <- nil
	b.want("ack r after 0")
	b.end()
	if len(b.q.deliveries) != 1 {
		t.Error("a message was received while the consumer drained")
	}
}

func TestDrainCancels(t *testing.T) {
	t.Parallel()
	for _, release := range []bool{true, false} {
		h := newHandler()
		b := start(t, release, h.serve)
		b.deliver("r", 1)
		recv(t, h.started)
		b.clock.BlockUntil(1)
		b.stop()
		b.clock.BlockUntil(2)
		b.clock.Advance(10 * time.Second)
		if cause := recv(t, h.cause); !errors.Is(cause, queue.ErrDrained) {
			t.Errorf("the handler's context ended by %v, want ErrDrained", cause)
		}
		if release {
			b.want("release r 0s counted=false")
		} else {
			b.want("extend r 0s")
		}
		b.end()
	}
}

// TestDrainAbandons has handlers that do not listen: their messages are given
// back without them, unless they acknowledged.
func TestDrainAbandons(t *testing.T) {
	t.Parallel()
	h := newHandler()
	h.deaf = true
	b := start(t, false, h.serve)
	b.q.failNext("extend ", errors.New("network"))
	b.deliver("1", 1)
	recv(t, h.started)
	b.deliver("2", 1)
	recv(t, h.started).Ack()
	b.want("ack 2 after 0")
	b.clock.BlockUntil(2)
	b.stop()
	b.clock.BlockUntil(3)
	b.clock.Advance(10 * time.Second)
	b.clock.BlockUntil(3) // The drain's second wait.
	b.clock.Advance(time.Second)
	b.want("extend 1 0s")
	var unfinished *queue.DrainError
	if err := recv(t, b.done); !errors.As(err, &unfinished) || unfinished.Unfinished != 2 {
		t.Errorf("Run: %v, want a DrainError of 2", err)
	}
	b.log.want(t, "could not be given back")
	h.end <- nil
	h.end <- nil
	b.quiet() // What they return later changes nothing.
}
