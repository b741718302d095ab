package embedded

import (
	"context"
	"time"

	"go.etcd.io/bbolt"

	"github.com/iii-aws/harness/engine/commit"
	"github.com/iii-aws/harness/engine/queue"
)

// Ack removes a message, after the given tickets. The message is not handed out
// again while the write waits.
func (q *Queue) Ack(_ context.Context, name, receipt string, after ...commit.Ticket) *commit.Promise[struct{}] {
	e, err := q.claim(name, receipt)
	if err != nil {
		return commit.Resolved(struct{}{}, err)
	}
	key := numbered(name, e.number)
	return submitPrepared(q.db, "queue.ack", after, nil, func() { q.unclaim(e) },
		func(_ *bbolt.Tx, c *commitCtx) (struct{}, error) {
			c.afterCommit(func() { q.forget(e) })
			if err := c.dropData(messageBucket, key); err != nil {
				return struct{}{}, err
			}
			if err := c.delete(messageBucket, key); err != nil {
				return struct{}{}, err
			}
			return struct{}{}, c.delete(receiveBucket, key)
		})
}

// claim keeps a message for its acknowledgement. A standard queue accepts the
// last receipt also after its visibility has ended.
func (q *Queue) claim(name, receipt string) (*queueEntry, error) {
	q.lock()
	defer q.unlock()
	l, err := q.lane(name)
	if err != nil {
		return nil, err
	}
	e := q.find(l, receipt)
	if e == nil || e.claimed || l.fifo() && e.phase != inFlight {
		return nil, queue.ErrStale
	}
	if e.phase == waiting {
		l.hide(e)
	}
	e.claimed = true
	return e, nil
}

// unclaim takes a claim back whose write was not applied.
func (q *Queue) unclaim(e *queueEntry) {
	q.lock()
	defer q.unlock()
	if q.entries[e.number] != e {
		return
	}
	q.release(e)
	if e.phase != inFlight || e.slot < 0 {
		q.surface(e)
	}
}

// current is the entry that a receipt has in flight; q.mu is held.
func (q *Queue) current(name, receipt string) (*queueEntry, error) {
	l, err := q.lane(name)
	if err != nil {
		return nil, err
	}
	e := q.find(l, receipt)
	if e == nil || e.phase != inFlight {
		return nil, queue.ErrStale
	}
	return e, nil
}

// Extend hides a received message for d from now.
func (q *Queue) Extend(_ context.Context, name, receipt string, d time.Duration) error {
	if d < 0 {
		return &queue.InvalidError{Queue: name, Field: "visibility", Allowed: "0 or more"}
	}
	q.lock()
	defer q.unlock()
	e, err := q.current(name, receipt)
	switch {
	case err != nil:
		return err
	case d == 0 && !e.claimed:
		q.surface(e)
	default:
		q.hold(e, inFlight, min(d, queue.MaxVisibility))
	}
	return nil
}

// Fail ends a receive: a backoff, or a dead letter after the last one.
func (q *Queue) Fail(ctx context.Context, name, receipt string, cause error) (bool, error) {
	text := queue.ErrorText(cause)
	q.lock()
	e, err := q.current(name, receipt)
	if err == nil && e.claimed {
		err = queue.ErrStale
	}
	if err != nil {
		q.unlock()
		return false, err
	}
	e.lastErr, e.receipt = text, 0
	if e.exhausted() {
		q.due.drop(e)
		q.doom(e)
		q.unlock()
		_, err := q.bury(e, text, true).Wait(ctx)
		return err == nil, err
	}
	backoff := e.home.config.BackoffAfter(e.receives)
	number, r := e.number, storedReceives{Count: e.receives, Error: text}
	if backoff > 0 {
		r.VisibleAt = max(q.db.clock.Now().Add(backoff).UnixMilli(), 1)
		q.hold(e, delayed, backoff)
	} else {
		q.surface(e)
	}
	q.unlock()
	_, err = submit(q.db, "queue.fail", nil, func(_ *bbolt.Tx, c *commitCtx) (struct{}, error) {
		return struct{}{}, putReceives(c, name, number, r)
	}).Wait(ctx)
	return false, err
}

// Release makes a received message visible after d.
func (q *Queue) Release(_ context.Context, name, receipt string, d time.Duration, counted bool) error {
	if d < 0 {
		return &queue.InvalidError{Queue: name, Field: "delay", Allowed: "0 or more"}
	}
	q.lock()
	e, err := q.current(name, receipt)
	if err == nil && e.claimed {
		err = queue.ErrStale
	}
	if err != nil {
		q.unlock()
		return err
	}
	if !counted {
		e.receives--
	}
	e.receipt = 0
	if d > 0 && !e.exhausted() {
		q.hold(e, delayed, min(d, queue.MaxVisibility))
		q.note(e)
	} else {
		q.surface(e)
	}
	q.unlock()
	return nil
}
