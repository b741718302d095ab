package embedded

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	"github.com/iii-aws/harness/engine/commit"
	"github.com/iii-aws/harness/engine/timer"
)

var (
	// id -> storedTimer
	timerBucket = []byte("timer")
	// time id -> nothing: the index of what is due
	timerDueBucket = []byte("timer_index")
)

// maxTimerID is the longest id of a timer in bytes.
const maxTimerID = 1024

// Timer is the timer port. A timer fires by storing its message and forgetting
// itself in one commit, so that it is lost in no crash and repeated in none.
type Timer struct {
	db *DB
	q  *Queue
	// changed is signalled when a timer was set that may be the first.
	changed chan struct{}

	mu sync.Mutex
	// next is what the goroutine waits for, epoch ms.
	next int64
}

var _ timer.Port = (*Timer)(nil)

// OpenTimer makes the timer port of db; there may be one. Its messages go to q.
// Timers that became due meanwhile fire at once. It ends with db. Errors:
// *CorruptError, *state.StorageError.
func OpenTimer(ctx context.Context, db *DB, q *Queue) (*Timer, error) {
	t := &Timer{db: db, q: q, changed: make(chan struct{}, 1)}
	if err := db.view(ctx, "timer.load", t.check); err != nil {
		return nil, err
	}
	db.background.Add(1)
	go func() {
		defer db.background.Done()
		t.watch()
	}()
	return t, nil
}

// check reads every timer once, so that a damaged one shows at the start.
func (t *Timer) check(tx *bbolt.Tx) error {
	b := tx.Bucket(timerBucket)
	if b == nil {
		return nil
	}
	return b.ForEach(func(k, v []byte) error {
		if _, err := decodeTimer(k, v); err != nil {
			return &CorruptError{Path: t.db.path(), What: fmt.Sprintf("timer %q", k), Err: err}
		}
		return nil
	})
}

// Submit sets a timer, after the given tickets. One of the same id is replaced.
func (t *Timer) Submit(_ context.Context, tm timer.Timer, after ...commit.Ticket) *commit.Promise[struct{}] {
	s, err := t.prepare(tm)
	if err != nil {
		return commit.Resolved(struct{}{}, err)
	}
	value, err := s.encode()
	if err != nil {
		return commit.Resolved(struct{}{}, err)
	}
	return submit(t.db, "timer.submit", after, func(_ *bbolt.Tx, c *commitCtx) (struct{}, error) {
		if err := t.forget(c, s.id); err != nil {
			return struct{}{}, err
		}
		c.afterCommit(func() { t.setTo(s.at) })
		if err := c.put(timerBucket, s.id, value); err != nil {
			return struct{}{}, err
		}
		return struct{}{}, c.putIndex(timerDueBucket, s.dueKey())
	})
}

func (t *Timer) prepare(tm timer.Timer) (*storedTimer, error) {
	switch {
	case tm.ID == "" || len(tm.ID) > maxTimerID:
		return nil, &timer.InvalidError{Field: "id", Allowed: fmt.Sprintf("1 to %d bytes", maxTimerID)}
	case tm.At.IsZero():
		return nil, &timer.InvalidError{Field: "at", Allowed: "a time"}
	}
	m, err := t.q.prepare(tm.Message)
	if err != nil {
		return nil, err
	}
	// The next whole millisecond, so that it is never early.
	at := tm.At.UnixMilli()
	if tm.At.Sub(time.UnixMilli(at)) > 0 {
		at++
	}
	return &storedTimer{id: []byte(tm.ID), at: at, queue: m.Queue, message: m}, nil
}

// Cancel forgets a timer, after the given tickets.
func (t *Timer) Cancel(_ context.Context, id string, after ...commit.Ticket) *commit.Promise[struct{}] {
	return submit(t.db, "timer.cancel", after, func(_ *bbolt.Tx, c *commitCtx) (struct{}, error) {
		if id == "" {
			return struct{}{}, nil
		}
		return struct{}{}, t.forget(c, []byte(id))
	})
}

// forget removes a timer if it is there. A damaged one is removed too.
func (t *Timer) forget(c *commitCtx, id []byte) error {
	v := c.bucket(timerBucket).Get(id)
	if v == nil {
		return nil
	}
	if s, err := decodeTimer(id, v); err == nil {
		if err := c.delete(timerDueBucket, s.dueKey()); err != nil {
			return err
		}
	}
	return c.delete(timerBucket, id)
}

// storedTimer is a timer as it lies in timerBucket.
type storedTimer struct {
	id      []byte
	at      int64 // epoch ms
	queue   string
	message *storedMessage
}

func (s *storedTimer) encode() ([]byte, error) {
	m, err := s.message.encode(s.id)
	if err != nil {
		return nil, err
	}
	b := binary.AppendVarint([]byte{messageFormat}, s.at)
	b = appendText(b, s.queue)
	return sealMessage(s.id, append(b, m...)), nil
}

func decodeTimer(id, data []byte) (*storedTimer, error) {
	in, err := unsealMessage(id, data)
	if err != nil {
		return nil, err
	}
	s := &storedTimer{id: id, at: in.varint(), queue: in.text()}
	if in.bad {
		return nil, errRecord
	}
	m, err := decodeMessage(s.queue, id, in.b)
	if err != nil {
		return nil, err
	}
	s.message = &m
	return s, nil
}

// dueKey is the timer's key in timerDueBucket: time, then id.
func (s *storedTimer) dueKey() []byte {
	return append(appendTime(make([]byte, 0, 8+len(s.id)), s.at), s.id...)
}
