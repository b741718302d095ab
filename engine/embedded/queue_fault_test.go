package embedded_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/queue"
	"github.com/iii-aws/harness/engine/timer"
)

var errDisk = errors.New("the disk is on fire")

// faults makes operations fail or wait, by name.
type faults struct {
	mu   sync.Mutex
	fail map[string]int
	// stop, if set, is called before an operation.
	stop map[string]func()
}

func newFaults() *faults { return &faults{fail: map[string]int{}, stop: map[string]func(){}} }

func (f *faults) hook(op, when string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := op + " " + when
	if stop := f.stop[key]; stop != nil {
		delete(f.stop, key)
		stop()
	}
	if f.fail[key] == 0 {
		return nil
	}
	f.fail[key]--
	return errDisk
}

func (f *faults) failNext(op, when string, times int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail[op+" "+when] = times
}

func (f *faults) onNext(op, when string, do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stop[op+" "+when] = do
}

func TestQueueFaultSubmit(t *testing.T) {
	t.Parallel()
	f := newFaults()
	r := newRing(t, f.hook)
	r.define(queue.Config{Name: "q", Type: queue.FIFO})
	m := queue.Message{Queue: "q", Group: "g", FunctionID: "t::f", DedupID: "d", Data: json.RawMessage(`1`)}
	for _, op := range []string{"queue.submit", "commit"} {
		f.failNext(op, "before", 1)
		if _, err := r.queue.Submit(testContext(t), m).Wait(testContext(t)); !errors.Is(err, errDisk) {
			t.Errorf("Submit with a fault in %s: %v", op, err)
		}
	}
	if diff := cmp.Diff(queue.Stats{}, r.stats("q")); diff != "" {
		t.Errorf("after failed sends (-want +got):\n%s", diff)
	}
	// A lost answer: it was stored, and the repeat is a duplicate.
	f.failNext("commit", "after", 1)
	if _, err := r.queue.Submit(testContext(t), m).Wait(testContext(t)); !errors.Is(err, errDisk) {
		t.Errorf("Submit with a lost answer: %v", err)
	}
	if sent := r.send(m); !sent.Duplicate {
		t.Error("the repeat after a lost answer is no duplicate")
	}
	r.ack(r.one("q"))
	if diff := cmp.Diff(queue.Stats{}, r.stats("q")); diff != "" {
		t.Errorf("at the end (-want +got):\n%s", diff)
	}
}

func TestQueueFaultAck(t *testing.T) {
	t.Parallel()
	for _, kind := range []queue.Type{queue.Standard, queue.FIFO} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			f := newFaults()
			r := newRing(t, f.hook)
			r.define(queue.Config{Name: "q", Type: kind, MaxReceives: 10})
			r.send(queue.Message{Queue: "q", Group: "g"})
			ack := func(d queue.Delivery) error {
				_, err := r.queue.Ack(testContext(t), "q", d.Receipt).Wait(testContext(t))
				return err
			}
			// Not applied: it is still in flight, and can be acknowledged.
			d := r.one("q")
			f.failNext("commit", "before", 1)
			if err := ack(d); !errors.Is(err, errDisk) {
				t.Errorf("Ack with a fault: %v", err)
			}
			if diff := cmp.Diff(queue.Stats{InFlight: 1}, r.stats("q")); diff != "" {
				t.Errorf("after a failed Ack (-want +got):\n%s", diff)
			}
			// Its visibility ends while the write fails: it is visible again.
			f.failNext("queue.ack", "before", 1)
			f.onNext("queue.ack", "before", func() { r.clock.Advance(time.Minute) })
			if err := ack(d); !errors.Is(err, errDisk) {
				t.Errorf("Ack with a fault after the visibility: %v", err)
			}
			// Its visibility ends while the write works: it is not handed out.
			d = r.one("q")
			got := make(chan queue.Delivery, 1)
			f.onNext("queue.ack", "before", func() {
				r.clock.Advance(time.Minute)
				ctx, cancel := context.WithCancel(context.Background())
				cancel()
				if ds, err := r.queue.Receive(ctx, "q", 1); err == nil {
					got <- ds[0]
				}
			})
			if err := ack(d); err != nil {
				t.Errorf("Ack: %v", err)
			}
			if len(got) > 0 {
				t.Error("a message was handed out while it was acknowledged")
			}
			if diff := cmp.Diff(queue.Stats{}, r.stats("q")); diff != "" {
				t.Errorf("at the end (-want +got):\n%s", diff)
			}
			// A standard queue takes the receipt of an ended visibility, and
			// shows the message again if that fails.
			if kind == queue.Standard {
				r.send(queue.Message{Queue: "q"})
				d = r.one("q")
				r.clock.Advance(time.Minute)
				f.failNext("commit", "before", 1)
				if err := ack(d); !errors.Is(err, errDisk) {
					t.Errorf("late Ack with a fault: %v", err)
				}
				r.ack(r.one("q"))
			}
		})
	}
}

func TestQueueFaultReceive(t *testing.T) {
	t.Parallel()
	f := newFaults()
	r := newRing(t, f.hook)
	r.define(queue.Config{Name: "q", Type: queue.FIFO})
	r.send(queue.Message{Queue: "q", Group: "g"})
	r.reopen() // From now on each receive is stored first.
	f.failNext("queue.receive", "before", 1)
	if _, err := r.queue.Receive(testContext(t), "q", 1); !errors.Is(err, errDisk) {
		t.Errorf("Receive with a fault: %v", err)
	}
	// The context ends while the count is written.
	ctx, cancel := context.WithCancel(testContext(t))
	f.onNext("queue.receive", "before", func() {
		cancel()
		<-ctx.Done()
	})
	if ds, err := r.queue.Receive(ctx, "q", 1); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("Receive that was given up: %v, %v", ds, err)
	} else if err == nil { // The write was quicker.
		if err := r.queue.Release(testContext(t), "q", ds[0].Receipt, 0, false); err != nil {
			t.Fatal(err)
		}
	}
	if d := r.one("q"); d.Receives != 1 {
		t.Errorf("receives = %d after two that handed out nothing, want 1", d.Receives)
	}
}

func TestQueueFaultBury(t *testing.T) {
	t.Parallel()
	f := newFaults()
	r := newRing(t, f.hook)
	r.define(queue.Config{Name: "q", Type: queue.FIFO, MaxReceives: 1})
	r.send(queue.Message{Queue: "q", Group: "g"})
	f.failNext("queue.bury", "before", 1)
	if dead, err := r.queue.Fail(testContext(t), "q", r.one("q").Receipt, errors.New("x")); dead || !errors.Is(err, errDisk) {
		t.Errorf("Fail with a fault: %v, %v", dead, err)
	}
	if diff := cmp.Diff(queue.Stats{Depth: 1}, r.stats("q")); diff != "" {
		t.Errorf("after a failed burial (-want +got):\n%s", diff)
	}
	// It is tried again, by itself.
	f.failNext("queue.bury", "before", 1)
	r.clock.Advance(time.Second)
	r.stats("q")
	r.clock.Advance(time.Second)
	dead := r.dead("q")
	if len(dead) != 1 || !strings.Contains(dead[0].Error, "last error: invocation_failed: x") {
		t.Errorf("dead letters %+v, want one with the last error", dead)
	}
	r.log.await(t, "could not be made a dead letter")
}

func TestQueueFaultFail(t *testing.T) {
	t.Parallel()
	f := newFaults()
	r := newRing(t, f.hook)
	r.send(queue.Message{Queue: "default"})
	f.failNext("queue.fail", "before", 1)
	if _, err := r.queue.Fail(testContext(t), "default", r.one("default").Receipt, nil); !errors.Is(err, errDisk) {
		t.Errorf("Fail with a fault: %v", err)
	}
	// The backoff holds all the same.
	r.clock.Advance(time.Second)
	if d := r.one("default"); d.Receives != 2 {
		t.Errorf("receives = %d, want 2", d.Receives)
	}
}

func TestTimerFault(t *testing.T) {
	t.Parallel()
	f := newFaults()
	r := newRing(t, f.hook)
	set := func(id string) {
		t.Helper()
		tm := timer.Timer{ID: id, At: r.clock.Now().Add(time.Minute), Message: queue.Message{Queue: "default", FunctionID: "t::f", ReceiptID: id}}
		if _, err := r.timer.Submit(testContext(t), tm).Wait(testContext(t)); err != nil {
			t.Fatal(err)
		}
	}
	set("a")
	tried := make(chan struct{})
	f.failNext("timer.fire", "before", 1)
	f.onNext("timer.fire", "before", func() { close(tried) })
	r.clock.Advance(time.Minute)
	<-tried
	fire := func() queue.Delivery {
		t.Helper()
		for { // Again, as a timer may start to wait just behind an advance.
			st, err := r.queue.Stats(testContext(t), "default")
			if err != nil {
				t.Fatal(err)
			}
			if st.Depth > 0 {
				return r.one("default")
			}
			r.clock.Advance(10 * time.Second)
		}
	}
	r.ack(fire())
	// A lost answer: it has fired, and does not again.
	set("b")
	f.failNext("commit", "after", 1)
	r.ack(fire())
	set("c")
	if d := fire(); d.ReceiptID != "c" {
		t.Errorf("fired %s, want c", d.ReceiptID)
	}
	r.log.await(t, "alarm=timer_failed")
}
