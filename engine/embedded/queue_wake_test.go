package embedded

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/queue"
)

// waker is a queue with receivers that wait.
type waker struct {
	*testing.T
	q     *Queue
	clock *clock.Fake
	got   chan queue.Delivery
}

func newWaker(t *testing.T, c queue.Config) *waker {
	t.Helper()
	w := &waker{T: t, clock: clock.NewFake(time.Unix(1000, 0)), got: make(chan queue.Delivery, 10)}
	db, err := Open(context.Background(), Options{Dir: t.TempDir(), Clock: w.clock, NoSync: true, Strict: true})
	w.ok(err)
	t.Cleanup(func() { w.ok(db.Close()) })
	w.q, err = OpenQueue(context.Background(), db)
	w.ok(err)
	w.define(c)
	return w
}

func (w *waker) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *waker) define(c queue.Config) {
	w.Helper()
	_, err := w.q.Define(context.Background(), c)
	w.ok(err)
}

func (w *waker) send(group string) {
	w.Helper()
	_, err := w.q.Submit(context.Background(), queue.Message{Queue: "q", Group: group, FunctionID: "f", Data: json.RawMessage(strconv.Quote(group))}).Wait(context.Background())
	w.ok(err)
}

// wait has n more receivers wait.
func (w *waker) wait(ctx context.Context, n int) {
	w.Helper()
	before := w.waiting()
	for range n {
		go func() {
			if ds, err := w.q.Receive(ctx, "q", 1); err == nil {
				w.got <- ds[0]
			}
		}()
	}
	for w.waiting() < before+n {
		runtime.Gosched()
	}
}

func (w *waker) waiting() int {
	w.q.mu.Lock()
	defer w.q.mu.Unlock()
	return w.q.lanes["q"].waiters.Len()
}

func (w *waker) receive() queue.Delivery {
	w.Helper()
	select {
	case d := <-w.got:
		return d
	case <-time.After(20 * time.Second):
		w.Fatal("a receiver was not woken")
		return queue.Delivery{}
	}
}

func TestWakeOfAll(t *testing.T) {
	t.Parallel()
	c := queue.Config{Name: "q", Concurrency: queue.Paused}
	w := newWaker(t, c)
	w.send("a")
	w.send("b")
	w.wait(t.Context(), 2)
	c.Concurrency = 2
	w.define(c)
	w.receive()
	w.receive()
}

// TestWakeByRoom has a receiver wait for room, which each end of a receive
// makes.
func TestWakeByRoom(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(w *waker, receipt string) error{
		"ack": func(w *waker, receipt string) error {
			_, err := w.q.Ack(context.Background(), "q", receipt).Wait(context.Background())
			return err
		},
		"fail": func(w *waker, receipt string) error {
			_, err := w.q.Fail(context.Background(), "q", receipt, errors.New("x"))
			return err
		},
		"release": func(w *waker, receipt string) error {
			return w.q.Release(context.Background(), "q", receipt, time.Hour, true)
		},
		"visible": func(w *waker, receipt string) error {
			return w.q.Extend(context.Background(), "q", receipt, 0)
		},
		"visibility": func(w *waker, _ string) error {
			w.clock.Advance(time.Minute)
			return nil
		},
		"shorter visibility": func(w *waker, receipt string) error {
			err := w.q.Extend(context.Background(), "q", receipt, time.Second)
			w.clock.Advance(time.Second)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWaker(t, queue.Config{Name: "q", Type: queue.FIFO, Concurrency: 1, Visibility: time.Minute})
			w.send("a")
			w.send("b")
			ds, err := w.q.Receive(t.Context(), "q", 1)
			w.ok(err)
			w.wait(t.Context(), 1)
			w.ok(end(w, ds[0].Receipt))
			if d := w.receive(); d.Group != "b" {
				t.Errorf("received group %s, want b", d.Group)
			}
		})
	}
}

// TestWakeIsHandedOn has a receiver give up in the moment it is woken: another
// one gets the message.
func TestWakeIsHandedOn(t *testing.T) {
	t.Parallel()
	w := newWaker(t, queue.Config{Name: "q", Type: queue.FIFO})
	w.q.lock()
	l := w.q.lanes["q"]
	gone := l.wait()
	w.q.unlock()
	w.wait(t.Context(), 1)
	w.send("a")
	<-gone.wake
	w.q.lock()
	l.leave(gone)
	w.q.unlock()
	if d := w.receive(); d.Group != "a" {
		t.Errorf("received group %s, want a", d.Group)
	}
	if n := w.waiting(); n != 0 {
		t.Errorf("%d receivers wait, want none", n)
	}
}
