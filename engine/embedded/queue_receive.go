package embedded

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/bbolt"

	"github.com/iii-aws/harness/engine/queue"
	"github.com/iii-aws/harness/engine/state"
)

// taken is an entry as it was handed out; the entry itself may move on.
type taken struct {
	e        *queueEntry
	number   uint64
	receipt  uint64
	text     string // the receipt as it is given out
	receives int
	// stored is what has to be on the disk before the hand-out, nil if nothing.
	stored *storedReceives
	// value is filled in from the file.
	value storedMessage
}

// Receive waits for visible messages and hides them. It wakes by signal.
func (q *Queue) Receive(ctx context.Context, name string, n int) ([]queue.Delivery, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		ts, l, w, err := q.take(name, max(n, 1))
		if err != nil {
			return nil, err
		}
		if w == nil {
			ds, err := q.handOut(ctx, name, ts)
			if err != nil || len(ds) > 0 {
				return ds, err
			}
			continue
		}
		select {
		case <-w.wake:
		case <-ctx.Done():
			q.lock()
			l.leave(w)
			q.unlock()
			return nil, ctx.Err()
		case <-q.db.closing:
			return nil, &state.StorageError{Op: "queue.receive", Err: ErrClosed}
		}
	}
}

// take hides up to n visible messages, or gives a waiter if there are none.
func (q *Queue) take(name string, n int) ([]*taken, *queueLane, *laneWaiter, error) {
	q.lock()
	defer q.unlock()
	l, err := q.lane(name)
	if err != nil {
		return nil, nil, nil, err
	}
	var ts []*taken
	for len(ts) < n && l.free() {
		e := l.first()
		if e == nil {
			break
		}
		l.hide(e)
		if e.exhausted() {
			q.doom(e)
			q.dying = append(q.dying, e)
			continue
		}
		q.receipts++
		e.receives++
		e.receipt = q.receipts
		q.hold(e, inFlight, l.config.Visibility)
		t := &taken{e: e, number: e.number, receipt: e.receipt, text: q.receipt(e), receives: e.receives}
		if e.kept || e.receives > 1 {
			t.stored = &storedReceives{Count: e.receives - 1, Held: e.deaths + 1, Error: e.lastErr}
		}
		ts = append(ts, t)
	}
	if len(ts) == 0 {
		return nil, l, l.wait(), nil
	}
	l.wake()
	return ts, l, nil, nil
}

// handOut reads what was taken and stores the counts that have to be stored.
func (q *Queue) handOut(ctx context.Context, name string, ts []*taken) ([]queue.Delivery, error) {
	var bad []*taken
	var badErr error
	err := q.db.view(context.WithoutCancel(ctx), "queue.receive", func(tx *bbolt.Tx) error {
		good := ts[:0:0]
		for _, t := range ts {
			key := numbered(name, t.number)
			m, err := decodeMessage(name, key, tx.Bucket(messageBucket).Get(key))
			if err != nil {
				bad, badErr = append(bad, t), err
				continue
			}
			t.value = m
			good = append(good, t)
		}
		ts = good
		return nil
	})
	if err == nil {
		ts, err = q.fillAll(ts, func(t *taken, err error) { bad, badErr = append(bad, t), err })
	}
	for _, t := range bad {
		q.setAside(t.e, badErr)
	}
	if err == nil {
		err = q.storeCounts(ctx, name, ts)
	}
	if err != nil {
		q.takeBack(ts)
		return nil, err
	}
	ds := make([]queue.Delivery, len(ts))
	for i, t := range ts {
		ds[i] = queue.Delivery{
			Message: t.value.Message, ID: t.value.ID, Receipt: t.text, Receives: t.receives,
			SentAt: time.UnixMilli(t.value.SentAt).UTC(),
		}
	}
	return ds, nil
}

// fillAll reads the data that lies in files. The messages whose data is damaged
// are left out.
func (q *Queue) fillAll(ts []*taken, damaged func(*taken, error)) ([]*taken, error) {
	good := ts[:0:0]
	for _, t := range ts {
		err := t.value.fill(q.db)
		var corrupt *CorruptError
		switch {
		case err == nil:
			good = append(good, t)
		case errors.As(err, &corrupt):
			damaged(t, err)
		default:
			return ts, err
		}
	}
	return good, nil
}

// storeCounts makes durable that messages are held.
func (q *Queue) storeCounts(ctx context.Context, name string, ts []*taken) error {
	var counted []*taken
	for _, t := range ts {
		if t.stored != nil {
			counted = append(counted, t)
		}
	}
	if len(counted) == 0 {
		return nil
	}
	_, err := submit(q.db, "queue.receive", nil, func(_ *bbolt.Tx, c *commitCtx) (struct{}, error) {
		for _, t := range counted {
			if err := putReceives(c, name, t.number, *t.stored); err != nil {
				return struct{}{}, err
			}
		}
		return struct{}{}, nil
	}).Wait(ctx)
	return err
}

// putReceives stores the receives of a message, unless it is gone.
func putReceives(c *commitCtx, name string, number uint64, r storedReceives) error {
	key := numbered(name, number)
	if c.bucket(messageBucket).Get(key) == nil {
		return nil
	}
	return c.put(receiveBucket, key, r.encode(key))
}

// takeBack undoes receives that were not handed out.
func (q *Queue) takeBack(ts []*taken) {
	q.lock()
	defer q.unlock()
	for _, t := range ts {
		if t.e.receipt != t.receipt || t.e.phase != inFlight || t.e.claimed {
			continue
		}
		deaths := t.e.deaths
		t.e.receives--
		t.e.receipt = 0
		q.surface(t.e)
		t.e.deaths = deaths
	}
}

// setAside stops the delivery of a damaged message. It stays in the file.
func (q *Queue) setAside(e *queueEntry, err error) {
	q.db.logger.Error("damaged message set aside", "alarm", "corrupt_message", "queue", e.home.name, "number", e.number, "error", err)
	q.forget(e)
}

// forget drops an entry that left the queue.
func (q *Queue) forget(e *queueEntry) {
	q.lock()
	defer q.unlock()
	if q.entries[e.number] != e {
		return
	}
	q.due.drop(e)
	delete(q.entries, e.number)
	q.release(e)
	e.home.remove(e)
}
