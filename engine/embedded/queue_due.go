package embedded

import (
	"container/heap"
	"context"
	"fmt"
	"math"
	"time"

	"go.etcd.io/bbolt"

	"github.com/iii-aws/harness/engine/clock"
)

const never = time.Duration(math.MaxInt64)

// buryRetry is the pause after a message could not be made a dead letter.
const buryRetry = time.Second

// lock takes q.mu and lets what is due happen, so that nobody sees a visibility
// that has ended.
func (q *Queue) lock() {
	q.mu.Lock()
	now := q.now()
	for len(q.due) > 0 && q.due[0].until <= now {
		e := heap.Pop(&q.due).(*queueEntry)
		if !e.claimed {
			q.surface(e)
		}
	}
}

// unlock gives q.mu back and starts to store what happened meanwhile.
func (q *Queue) unlock() {
	dying := q.dying
	q.dying = nil
	texts := make([]string, len(dying))
	for i, e := range dying {
		texts[i] = e.obituary()
	}
	if len(q.ended) > 0 {
		// Under the lock, so that whoever sees the end writes after it.
		q.storeEnded(q.ended)
		q.ended = nil
	}
	q.mu.Unlock()
	for i, e := range dying {
		q.bury(e, texts[i], false)
	}
}

// surface makes a message visible, or lets it die after its last receive.
func (q *Queue) surface(e *queueEntry) {
	q.due.drop(e)
	held := e.phase == inFlight
	e.deaths = 0
	if e.exhausted() {
		q.doom(e)
		q.dying = append(q.dying, e)
		return
	}
	if held {
		q.note(e)
	}
	e.home.move(e, waiting)
	e.home.show(e)
	e.home.wake()
}

// endedReceive is a receive that ended without a word from its receiver.
type endedReceive struct {
	queue  string
	number uint64
	stored storedReceives
}

// note has the end of a receive stored, without anybody waiting for it.
func (q *Queue) note(e *queueEntry) {
	if e.receives == 0 && !e.kept {
		return // Nothing was ever stored.
	}
	q.ended = append(q.ended, endedReceive{e.home.name, e.number, storedReceives{Count: e.receives, Error: e.lastErr}})
}

func (q *Queue) storeEnded(ended []endedReceive) {
	submitLazy(q.db, "queue.ended", nil, func(_ *bbolt.Tx, c *commitCtx) (struct{}, error) {
		for _, r := range ended {
			if err := putReceives(c, r.queue, r.number, r.stored); err != nil {
				return struct{}{}, err
			}
		}
		return struct{}{}, nil
	})
}

// doom claims a message that becomes a dead letter.
func (q *Queue) doom(e *queueEntry) {
	e.home.hide(e)
	e.claimed = true
	e.buried = make(chan struct{})
	q.burying[e] = struct{}{}
}

// obituary is the error of a message that nobody failed.
func (e *queueEntry) obituary() string {
	text := fmt.Sprintf("timeout: received %d times without an acknowledgement", e.receives)
	if e.receives < e.home.config.MaxReceives {
		text = fmt.Sprintf("invocation_stopped: %d processes ended while they held the message", e.deaths)
	}
	if e.lastErr != "" {
		text += "; last error: " + e.lastErr
	}
	return text
}

// hold keeps a message from being visible for d.
func (q *Queue) hold(e *queueEntry, p phase, d time.Duration) {
	e.home.move(e, p)
	now := q.now()
	e.until = now + min(d, never-now)
	q.due.set(e)
	if p == delayed {
		e.home.wake() // It may have made room.
	}
	if e.until < q.wakeAt {
		q.wakeAt = e.until
		select {
		case q.earlier <- struct{}{}:
		default:
		}
	}
}

// watchDue ends visibilities and delays when nobody else looks.
func (q *Queue) watchDue() {
	for {
		t, moved := q.armDue()
		var c <-chan time.Time
		if t != nil {
			c = t.C()
		}
		if !moved {
			select {
			case <-c:
			case <-q.earlier:
			case <-q.db.closing:
			}
		}
		if t != nil {
			t.Stop()
		}
		select {
		case <-q.db.closing:
			return
		default:
		}
	}
}

// armDue sets a timer for the next end, if there is one. moved: the clock went
// on to it before the timer was set.
func (q *Queue) armDue() (t clock.Timer, moved bool) {
	q.lock()
	defer q.unlock()
	q.wakeAt = never
	if len(q.due) == 0 {
		return nil, false
	}
	q.wakeAt = q.due[0].until
	t = q.db.clock.NewTimer(q.wakeAt - q.now())
	return t, q.now() >= q.wakeAt
}

// flush waits until what is dying is dead, or could not be made so.
func (q *Queue) flush(ctx context.Context) error {
	q.lock()
	var wait []chan struct{}
	for e := range q.burying {
		wait = append(wait, e.buried)
	}
	q.unlock()
	for _, c := range wait {
		select {
		case <-c:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// release ends a claim of doom.
func (q *Queue) release(e *queueEntry) {
	e.claimed = false
	if e.buried != nil {
		close(e.buried)
		e.buried = nil
		delete(q.burying, e)
	}
}
