package embedded

import (
	"reflect"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	"github.com/iii-aws/harness/engine/commit"
)

// maxBatch bounds how many operations share one commit, and so how long the
// first of them waits.
const maxBatch = 1024

// lazyDelay is how long a lazy operation waits for another to share its
// commit.
const lazyDelay = 20 * time.Millisecond

// op is one submitted operation.
type op struct {
	name   string
	ticket commit.Ticket
	// after are the operations of the same line that must have been applied.
	after  []*op
	run    func(tx *bbolt.Tx, c *commitCtx) error
	settle func(err error)
	// undo takes back what was prepared outside of the transaction; run if
	// the operation was certainly not applied.
	undo func()
	lazy bool
	// err belongs to the committer: the result so far, final once settled.
	err error
}

// line is the operations that wait for the committer, in submit order.
type line struct {
	mu     sync.Mutex
	queue  []*op
	spare  []*op
	byTick map[commit.Ticket]*op
	urgent bool
	timer  *time.Timer
	closed bool
	wake   chan struct{}
	done   chan struct{}
}

func (l *line) init() {
	l.byTick = make(map[commit.Ticket]*op)
	l.wake = make(chan struct{}, 1)
	l.done = make(chan struct{})
}

// add puts o at the end; false if the line is closed.
func (l *line) add(o *op) bool {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return false
	}
	l.queue = append(l.queue, o)
	l.byTick[o.ticket] = o
	signal := !o.lazy
	if signal {
		l.urgent = true
	} else if l.timer == nil {
		l.timer = time.AfterFunc(lazyDelay, l.hurry)
	}
	l.mu.Unlock()
	if signal {
		l.signal()
	}
	return true
}

// hurry lets lazy operations go without company.
func (l *line) hurry() {
	l.mu.Lock()
	l.urgent = l.urgent || len(l.queue) > 0
	l.mu.Unlock()
	l.signal()
}

func (l *line) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// find is the operation of a ticket that has not been settled yet, or nil.
func (l *line) find(t commit.Ticket) *op {
	if reflect.ValueOf(t).Kind() != reflect.Pointer {
		return nil // not ours, and perhaps no key of a map
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byTick[t]
}

// take waits for operations; nil once the line is closed and empty. The slice
// is valid until the next take.
func (l *line) take() []*op {
	for {
		l.mu.Lock()
		if len(l.queue) > 0 && (l.urgent || l.closed) {
			batch := l.queue
			rest := batch[min(len(batch), maxBatch):]
			batch = batch[:len(batch)-len(rest)]
			l.queue = append(l.spare[:0], rest...)
			l.spare = batch
			l.urgent = len(rest) > 0
			if l.timer != nil {
				l.timer.Stop()
				l.timer = nil
			}
			l.mu.Unlock()
			return batch
		}
		closed := l.closed
		l.mu.Unlock()
		if closed {
			return nil
		}
		<-l.wake
	}
}

// forget drops settled operations.
func (l *line) forget(batch []*op) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, o := range batch {
		delete(l.byTick, o.ticket)
		o.after = nil
		batch[i] = nil
	}
}

func (l *line) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.signal()
}
