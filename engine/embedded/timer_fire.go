package embedded

import (
	"bytes"
	"context"
	"errors"
	"math"
	"time"

	"go.etcd.io/bbolt"

	"github.com/iii-aws/harness/engine/queue"
)

const (
	// timerTick is the longest wait before the wall clock is looked at again:
	// it may have been set.
	timerTick = 30 * time.Second
	// timerRetry is the pause after timers could not be fired.
	timerRetry = time.Second
	// timerBatch is the most timers that one commit fires.
	timerBatch = 256
	// noTimer as Timer.next.
	noTimer = int64(math.MaxInt64)
)

// setTo wakes the goroutine if a timer set to at comes before what it waits
// for.
func (t *Timer) setTo(at int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at >= t.next {
		return
	}
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

// watch fires timers until the DB closes.
func (t *Timer) watch() {
	for {
		at, err := t.fireDue()
		if err == nil {
			if !t.await(at) {
				return
			}
			continue
		}
		if t.closing() {
			return
		}
		t.db.logger.Error("timers could not be fired", "alarm", "timer_failed", "error", err)
		tick := t.db.clock.NewTimer(timerRetry)
		select {
		case <-tick.C():
		case <-t.db.closing:
		}
		tick.Stop()
	}
}

// await waits for a time on the wall clock, for a change or for a look at the
// clock. It is false when the DB closes.
func (t *Timer) await(at int64) bool {
	var c <-chan time.Time
	if at != noTimer {
		tick := t.db.clock.NewTimer(min(t.left(at), timerTick))
		defer tick.Stop()
		c = tick.C()
		if t.left(at) <= 0 {
			return true // The clock has moved before the tick was set.
		}
	}
	select {
	case <-c:
	case <-t.changed:
	case <-t.db.closing:
	}
	return !t.closing()
}

func (t *Timer) left(at int64) time.Duration { return time.UnixMilli(at).Sub(t.db.clock.Now()) }

func (t *Timer) closing() bool {
	select {
	case <-t.db.closing:
		return true
	default:
		return false
	}
}

// fireDue fires what is due by the wall clock and answers when the next one is,
// noTimer if there is none.
func (t *Timer) fireDue() (int64, error) {
	for {
		at, err := t.first()
		if err != nil || at == noTimer || t.left(at) > 0 {
			return at, err
		}
		p := submit(t.db, "timer.fire", nil, t.fire)
		<-p.Done()
		if err := p.Err(); err != nil {
			return 0, err
		}
	}
}

// first is the time of the first timer. From then on setTo wakes the goroutine
// for an earlier one.
func (t *Timer) first() (int64, error) {
	// Until the view was taken, any new timer wakes.
	t.expect(noTimer)
	at := noTimer
	err := t.db.view(context.Background(), "timer.first", func(tx *bbolt.Tx) error {
		b := tx.Bucket(timerDueBucket)
		if b == nil {
			return nil
		}
		key, _ := b.Cursor().First()
		if key == nil {
			return nil
		}
		var ok bool
		if at, _, ok = takeTime(key); !ok {
			return &CorruptError{Path: t.db.path(), What: "index of timers", Err: errRecord}
		}
		return nil
	})
	if err == nil {
		t.expect(at)
	}
	return at, err
}

func (t *Timer) expect(at int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next = at
}

// fire moves due timers to their queues, as one operation.
func (t *Timer) fire(tx *bbolt.Tx, c *commitCtx) (struct{}, error) {
	due, bad := t.due(c)
	for _, key := range bad {
		if err := c.delete(timerDueBucket, key); err != nil {
			return struct{}{}, err
		}
	}
	for _, s := range due {
		if _, err := t.q.put(c, s.message); err != nil {
			return struct{}{}, err
		}
		if err := c.delete(timerDueBucket, s.dueKey()); err != nil {
			return struct{}{}, err
		}
		if err := c.delete(timerBucket, s.id); err != nil {
			return struct{}{}, err
		}
	}
	return struct{}{}, nil
}

// due is the timers whose time has come by the wall clock, the first of them
// first, and the index keys of those that cannot be read: they stay in the file
// and are not tried again.
func (t *Timer) due(c *commitCtx) (due []*storedTimer, bad [][]byte) {
	now := c.now()
	cur := c.bucket(timerDueBucket).Cursor()
	for key, _ := cur.First(); key != nil && len(due)+len(bad) < timerBatch; key, _ = cur.Next() {
		at, id, ok := takeTime(key)
		if ok && time.UnixMilli(at).After(now) {
			break
		}
		s, err := t.read(c, bytes.Clone(id), at)
		if err != nil {
			t.db.logger.Error("damaged timer set aside", "alarm", "corrupt_timer", "timer", string(id), "error", err)
			bad = append(bad, bytes.Clone(key))
			continue
		}
		due = append(due, s)
	}
	return due, bad
}

// read is the timer of an index key.
func (t *Timer) read(c *commitCtx, id []byte, at int64) (*storedTimer, error) {
	s, err := decodeTimer(id, c.bucket(timerBucket).Get(id))
	if err != nil {
		return nil, err
	}
	if s.at != at {
		return nil, errors.New("index and timer differ")
	}
	if _, ok := t.q.Config(s.queue); !ok {
		return nil, &queue.UnknownError{Queue: s.queue}
	}
	return s, nil
}
