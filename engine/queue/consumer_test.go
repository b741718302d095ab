package queue_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/commit"
	"github.com/iii-aws/harness/engine/queue"
)

// later is an error that chooses its pause.
type later time.Duration

func (l later) Error() string             { return "later" }
func (l later) RetryAfter() time.Duration { return time.Duration(l) }

func TestConsumerOutcome(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, test := range []struct {
		name     string
		release  bool
		receives int
		receipt  string
		serve    func(ctx context.Context, d queue.Delivery) error
		ackErr   error
		want     []string
		log      string
	}{
		{name: "success", serve: result(nil), want: []string{"ack r after 0"}},
		{name: "success, stale", serve: result(nil), ackErr: queue.ErrStale, want: []string{"ack r after 0"}, log: "acknowledgement failed"},
		{name: "error", serve: result(broken), want: []string{"fail r: broken"}, log: "will come again"},
		{name: "dead", receipt: "last", serve: result(broken), want: []string{"fail last: broken"}, log: "alarm=dead_letter"},
		{name: "panic", serve: func(context.Context, queue.Delivery) error { panic("at the disco") }, want: []string{"fail r: t::f panicked: at the disco"}, log: "consumer_test.go"},
		{name: "stale error", serve: result(fmt.Errorf("write: %w", queue.ErrStale)), log: "lost its message"},
		{name: "no target", release: true, serve: result(fmt.Errorf("t::f: %w", queue.ErrNoTarget)), want: []string{"release r 1s counted=false"}},
		{name: "no target, no release", serve: result(queue.ErrNoTarget), want: []string{"extend r 1s"}},
		{name: "later", release: true, receives: 2, serve: result(fmt.Errorf("busy: %w", later(7*time.Second))), want: []string{"release r 7s counted=true"}},
		{name: "later, no release", serve: result(later(7 * time.Second)), want: []string{"extend r 7s"}},
		{name: "later, negative", release: true, serve: result(later(-1)), want: []string{"release r 0s counted=true"}},
		{name: "later, too late", release: true, serve: result(later(99 * time.Hour)), want: []string{"release r 12h0m0s counted=true"}},
		{name: "later, last receive", release: true, receives: 3, serve: result(later(7 * time.Second)), want: []string{"fail r: later"}},
		{name: "handler acknowledges", serve: ackThen(nil), want: []string{"ack r after 1"}},
		{name: "handler acknowledges and fails", serve: ackThen(broken), want: []string{"ack r after 1"}, log: "failed after it acknowledged"},
		{name: "handler's acknowledgement skipped", serve: ackThen(nil), ackErr: commit.ErrSkipped, want: []string{"ack r after 1", "fail r: queue: acknowledge: " + commit.ErrSkipped.Error()}},
		{name: "handler's acknowledgement skipped, own error", serve: ackThen(broken), ackErr: commit.ErrSkipped, want: []string{"ack r after 1", "fail r: broken"}},
		{name: "handler's acknowledgement stale", serve: ackThen(nil), ackErr: queue.ErrStale, want: []string{"ack r after 1"}, log: "lost its message"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := start(t, test.release, test.serve)
			if test.ackErr != nil {
				b.q.failNext("ack ", test.ackErr)
			}
			receipt := "r"
			if test.receipt != "" {
				receipt = test.receipt
			}
			b.deliver(receipt, max(test.receives, 1))
			for _, call := range test.want {
				b.want(call)
			}
			// Another message shows that the first has ended.
			b.deliver("next", 1)
			b.drainNext()
			b.end()
			if test.log != "" {
				b.log.want(t, test.log)
			}
		})
	}
}

// drainNext takes the call that ends the message next, whatever it is.
func (b *bench) drainNext() {
	b.Helper()
	recv(b.T, b.q.calls)
	select {
	case <-b.q.calls:
	default:
	}
}

func result(err error) func(context.Context, queue.Delivery) error {
	return func(_ context.Context, d queue.Delivery) error {
		if d.Receipt == "next" {
			return nil
		}
		return err
	}
}

// ackThen acknowledges twice, after a ticket, and returns err.
func ackThen(err error) func(context.Context, queue.Delivery) error {
	return func(ctx context.Context, d queue.Delivery) error {
		if d.Receipt == "next" {
			return nil
		}
		h := queue.DeliveryFrom(ctx)
		first := h.Ack(commit.Resolved(struct{}{}, nil))
		if h.Ack() != first {
			return errors.New("a second Ack gave another promise")
		}
		return err
	}
}

func TestConsumerFailFails(t *testing.T) {
	t.Parallel()
	b := start(t, false, result(errors.New("broken")))
	b.q.failNext("fail ", errors.New("disk"))
	b.deliver("r", 1)
	b.want("fail r: broken")
	b.end()
	b.log.want(t, "its visibility will end it")
}

func TestConsumerConcurrency(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan string, 10), make(chan struct{})
	b := start(t, false, func(_ context.Context, d queue.Delivery) error {
		entered <- d.Receipt
		<-leave
		return nil
	})
	for _, r := range []string{"1", "2", "3"} {
		b.deliver(r, 1)
	}
	recv(t, entered)
	recv(t, entered)
	b.clock.BlockUntil(2) // Both are renewed; nothing else goes on.
	select {
	case r := <-entered:
		t.Errorf("handler %s runs beside two others, the concurrency is 2", r)
	default:
	}
	leave <- struct{}{}
	recv(t, b.q.calls)
	recv(t, entered)
	close(leave)
	recv(t, b.q.calls)
	recv(t, b.q.calls)
	b.end()
}

func TestConsumerReceiveFails(t *testing.T) {
	t.Parallel()
	b := start(t, false, result(nil))
	b.deliver("1", 1)
	b.want("ack 1 after 0")
	b.q.failNext("receive", errors.New("network"))
	b.deliver("2", 1) // Ends the receive that waits.
	b.want("ack 2 after 0")
	b.deliver("3", 1)
	b.clock.BlockUntil(1)
	b.clock.Advance(time.Second)
	b.want("ack 3 after 0")
	b.end()
	b.log.want(t, "receive failed")
}

func TestConsumerRefusesToRun(t *testing.T) {
	t.Parallel()
	var unknown *queue.UnknownError
	if err := queue.NewConsumer(newFakeQueue(), queue.ConsumerConfig{Queue: "no"}).Run(context.Background()); !errors.As(err, &unknown) {
		t.Errorf("Run on an unknown queue: %v, want an UnknownError", err)
	}
	var invalid *queue.InvalidError
	if err := queue.NewConsumer(newFakeQueue(), queue.ConsumerConfig{Queue: "q"}).Run(context.Background()); !errors.As(err, &invalid) {
		t.Errorf("Run without a handler: %v, want an InvalidError", err)
	}
}

func TestHandleNil(t *testing.T) {
	t.Parallel()
	h := queue.DeliveryFrom(context.Background())
	if h != nil {
		t.Fatalf("a context without a message has %+v", h)
	}
	if age := h.RenewalAge(); age != 0 {
		t.Errorf("RenewalAge = %v, want 0", age)
	}
	if _, err := h.Ack().Wait(context.Background()); err != nil {
		t.Errorf("Ack: %v", err)
	}
	broken := errors.New("broken")
	if _, err := h.Ack(commit.Resolved(0, broken)).Wait(context.Background()); !errors.Is(err, broken) {
		t.Errorf("Ack after a failed write: %v, want its error", err)
	}
}

// TestRenewalAge checks that the larger of both clocks counts.
func TestRenewalAge(t *testing.T) {
	t.Parallel()
	c := clock.NewFake(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	h := queue.NewHandle(newFakeQueue(), queue.Delivery{}, c)
	for _, step := range []struct {
		name string
		do   func()
		want time.Duration
	}{
		{"at first", func() {}, 0},
		{"both clocks", func() { c.Advance(10 * time.Second) }, 10 * time.Second},
		{"the machine slept", func() { c.Jump(time.Hour) }, time.Hour + 10*time.Second},
		{"the clock was set back", func() { c.Jump(-2 * time.Hour) }, 10 * time.Second},
	} {
		step.do()
		if got := h.RenewalAge(); got != step.want {
			t.Errorf("%s: %v, want %v", step.name, got, step.want)
		}
	}
}

func TestErrorCodes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err   error
		code  string
		text  string
		retry bool
	}{
		{&queue.UnknownError{Queue: "q"}, "enqueue_error", `queue: unknown queue "q"`, false},
		{&queue.InvalidError{Queue: "q", Field: "f", Allowed: "x"}, "enqueue_error", `queue "q": invalid f: must be x`, false},
		{&queue.TimeoutError{Queue: "q", FunctionID: "f", After: time.Second}, "timeout", `queue "q": f took longer than 1s`, true},
		{&queue.PanicError{FunctionID: "f", Value: 1}, "invocation_failed", "f panicked: 1", false},
		{&queue.DrainError{Queue: "q", Unfinished: 2}, "invocation_failed", `queue "q": 2 handlers did not finish in time`, false},
	} {
		if bus.Code(test.err) != test.code || test.err.Error() != test.text || bus.Retryable(test.err) != test.retry {
			t.Errorf("%T: code %s, text %s, retryable %v", test.err, bus.Code(test.err), test.err, bus.Retryable(test.err))
		}
	}
}
