package queue_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/commit"
	"github.com/iii-aws/harness/engine/queue"
)

// patience bounds waits that never last that long.
const patience = 20 * time.Second

// fakeQueue hands out what it is given, notes what is asked of it and fails as
// told. What it does not do panics, by the nil interface.
type fakeQueue struct {
	queue.Queue
	deliveries chan queue.Delivery
	// calls gets a line per call that ends or prolongs a receive.
	calls chan string

	mu     sync.Mutex
	config queue.Config
	// errs are the errors of the next calls, by name.
	errs map[string][]error
}

// fakeReleaser is a fakeQueue with Release.
type fakeReleaser struct{ *fakeQueue }

func newFakeQueue() *fakeQueue {
	return &fakeQueue{
		deliveries: make(chan queue.Delivery, 100),
		calls:      make(chan string, 100),
		config:     queue.Config{Name: "q", Concurrency: 2, Visibility: time.Minute}.WithDefaults(),
		errs:       map[string][]error{},
	}
}

func (f *fakeQueue) failNext(name string, errs ...error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errs[name] = append(f.errs[name], errs...)
}

func (f *fakeQueue) called(name, format string, args ...any) error {
	f.mu.Lock()
	var err error
	if errs := f.errs[name]; len(errs) > 0 {
		err, f.errs[name] = errs[0], errs[1:]
	}
	f.mu.Unlock()
	f.calls <- name + fmt.Sprintf(format, args...)
	return err
}

func (f *fakeQueue) Config(name string) (queue.Config, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.config, name == f.config.Name
}

func (f *fakeQueue) Receive(ctx context.Context, _ string, n int) ([]queue.Delivery, error) {
	f.mu.Lock()
	if errs := f.errs["receive"]; len(errs) > 0 {
		f.errs["receive"] = errs[1:]
		f.mu.Unlock()
		return nil, errs[0]
	}
	f.mu.Unlock()
	select {
	case d := <-f.deliveries:
		ds := []queue.Delivery{d}
		for len(ds) < n {
			select {
			case d := <-f.deliveries:
				ds = append(ds, d)
			default:
				return ds, nil
			}
		}
		return ds, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (f *fakeQueue) Ack(_ context.Context, _, receipt string, after ...commit.Ticket) *commit.Promise[struct{}] {
	err := f.called("ack ", "%s after %d", receipt, len(after))
	return commit.Resolved(struct{}{}, err)
}

func (f *fakeQueue) Extend(_ context.Context, _, receipt string, d time.Duration) error {
	return f.called("extend ", "%s %s", receipt, d)
}

func (f *fakeQueue) Fail(_ context.Context, _, receipt string, cause error) (bool, error) {
	err := f.called("fail ", "%s: %v", receipt, cause)
	return receipt == "last", err
}

func (f fakeReleaser) Release(_ context.Context, _, receipt string, d time.Duration, counted bool) error {
	return f.called("release ", "%s %s counted=%v", receipt, d, counted)
}

// bench is a consumer at work on a fake queue.
type bench struct {
	*testing.T
	q     *fakeQueue
	clock *clock.Fake
	log   *logBuffer
	stop  context.CancelFunc
	done  chan error
}

// start runs a consumer with a handler.
func start(t *testing.T, release bool, serve func(ctx context.Context, d queue.Delivery) error, change ...func(*queue.ConsumerConfig)) *bench {
	t.Helper()
	b := &bench{
		T: t, q: newFakeQueue(), clock: clock.NewFake(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)),
		log: &logBuffer{}, done: make(chan error, 1),
	}
	ctx, cancel := context.WithCancel(context.Background())
	b.stop = cancel
	cfg := queue.ConsumerConfig{Queue: "q", Clock: b.clock, Logger: b.log.logger(), Serve: serve}
	for _, c := range change {
		c(&cfg)
	}
	var q queue.Queue = b.q
	if release {
		q = fakeReleaser{b.q}
	}
	c := queue.NewConsumer(q, cfg)
	go func() { b.done <- c.Run(ctx) }()
	t.Cleanup(cancel)
	return b
}

func (b *bench) deliver(receipt string, receives int) {
	b.q.deliveries <- queue.Delivery{
		Message: queue.Message{Queue: "q", FunctionID: "t::f"}, ID: "id-" + receipt, Receipt: receipt, Receives: receives,
	}
}

// want waits for the next call.
func (b *bench) want(call string) {
	b.Helper()
	if got := recv(b.T, b.q.calls); got != call {
		b.Fatalf("call %q, want %q", got, call)
	}
}

// end stops the consumer and checks that it made no further call.
func (b *bench) end() {
	b.Helper()
	b.stop()
	if err := recv(b.T, b.done); err != nil {
		b.Errorf("Run: %v", err)
	}
	b.quiet()
}

func (b *bench) quiet() {
	b.Helper()
	select {
	case call := <-b.q.calls:
		b.Errorf("unexpected call %q", call)
	default:
	}
}

func recv[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatal("waited in vain")
		panic("unreachable")
	}
}
