package embedded_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/embedded"
	"github.com/iii-aws/harness/engine/enginetest"
	"github.com/iii-aws/harness/engine/queue"
	"github.com/iii-aws/harness/engine/timer"
)

var testStart = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// ring is an embedded ring whose process can be replaced.
type ring struct {
	t     *testing.T
	dir   string
	clock *clock.Fake
	fault embedded.FaultHook
	log   *logBuffer

	db    *embedded.DB
	queue *embedded.Queue
	timer *embedded.Timer
}

func newRing(t *testing.T, fault embedded.FaultHook) *ring {
	r := &ring{t: t, dir: t.TempDir(), clock: clock.NewFake(testStart), fault: fault, log: &logBuffer{}}
	r.open()
	t.Cleanup(func() { r.close() })
	return r
}

func (r *ring) open() {
	r.t.Helper()
	ctx := context.Background()
	var err error
	r.db, err = embedded.Open(ctx, embedded.Options{
		Dir: r.dir, Clock: r.clock, NoSync: true, Strict: true, Fault: r.fault, Logger: slog.New(slog.NewTextHandler(r.log, nil)),
	})
	if err == nil {
		r.queue, err = embedded.OpenQueue(ctx, r.db)
	}
	if err == nil {
		r.timer, err = embedded.OpenTimer(ctx, r.db, r.queue)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *ring) close() {
	r.t.Helper()
	if err := r.db.Close(); err != nil {
		r.t.Error(err)
	}
}

func (r *ring) reopen() {
	r.t.Helper()
	r.close()
	r.open()
}

// rings finds the ring of a port.
type rings struct{ byQueue sync.Map }

func (rs *rings) harness() enginetest.QueueHarness {
	return enginetest.QueueHarness{
		New: func(t *testing.T) (queue.Queue, func(time.Duration)) {
			r := newRing(t, nil)
			rs.byQueue.Store(r.queue, r)
			return r.queue, r.clock.Advance
		},
		Reopen: func(_ *testing.T, q queue.Queue) queue.Queue {
			v, _ := rs.byQueue.Load(q.(*embedded.Queue))
			r := v.(*ring)
			r.reopen()
			rs.byQueue.Store(r.queue, r)
			return r.queue
		},
		Duplicates: true,
	}
}

func TestQueue(t *testing.T) {
	t.Parallel()
	var rs rings
	enginetest.RunQueue(t, rs.harness())
}

func TestTimer(t *testing.T) {
	t.Parallel()
	enginetest.RunTimer(t, enginetest.TimerHarness{New: func(t *testing.T) enginetest.Timers {
		r := newRing(t, nil)
		return enginetest.Timers{
			Port: r.timer, Queue: r.queue, Now: r.clock.Now, Advance: r.clock.Advance, Jump: r.clock.Jump,
			Reopen: func(down time.Duration) (timer.Port, queue.Queue) {
				r.close()
				r.clock.Advance(down)
				r.open()
				return r.timer, r.queue
			},
		}
	}})
}

func FuzzQueue(f *testing.F) {
	f.Add([]byte{0, 1, 4, 0, 8, 0})
	f.Add([]byte{0, 1, 0, 1, 4, 0, 10, 0, 13, 3, 4, 0, 8, 0, 12, 0})
	f.Add([]byte{0, 0, 0, 1, 0, 2, 4, 3, 13, 7, 13, 7, 13, 7, 12, 1, 15, 0, 4, 3, 9, 1, 11, 0})
	f.Fuzz(func(t *testing.T, ops []byte) {
		var rs rings
		enginetest.RunQueueOps(t, rs.harness(), ops[:min(len(ops), 400)])
	})
}

// logBuffer keeps what was logged.
type logBuffer struct {
	mu      sync.Mutex
	text    []byte
	written chan struct{} // closed by the next write
}

// await waits until the log has the text.
func (b *logBuffer) await(t *testing.T, text string) {
	t.Helper()
	for {
		b.mu.Lock()
		found := strings.Contains(string(b.text), text)
		if b.written == nil {
			b.written = make(chan struct{})
		}
		written := b.written
		b.mu.Unlock()
		if found {
			return
		}
		select {
		case <-written:
		case <-testContext(t).Done():
			t.Fatalf("the log lacks %q:\n%s", text, b.String())
		}
	}
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text = append(b.text, p...)
	if b.written != nil {
		close(b.written)
		b.written = nil
	}
	return len(p), nil
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.text)
}
