package embedded

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"github.com/iii-aws/harness/engine/queue"
)

// load rebuilds the memory of the queues. Everything that the last process held
// is visible; a backoff goes on.
func (q *Queue) load(tx *bbolt.Tx) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, step := range []struct {
		bucket []byte
		read   func(key, value []byte) error
	}{
		{queueBucket, q.loadConfig},
		{messageBucket, q.loadMessage},
		{receiveBucket, q.loadReceives},
		{deadBucket, q.loadDead},
	} {
		b := tx.Bucket(step.bucket)
		if b == nil {
			continue
		}
		err := b.ForEach(func(k, v []byte) error {
			if err := step.read(k, v); err != nil {
				return &CorruptError{Path: q.db.path(), What: fmt.Sprintf("%s %q", step.bucket, k), Err: err}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (q *Queue) loadConfig(k, v []byte) error {
	c, err := decodeConfig(k, v)
	if err != nil {
		return err
	}
	q.lanes[c.Name] = newQueueLane(c)
	return nil
}

var errNoQueue = errors.New("of no queue")

func (q *Queue) loadMessage(k, v []byte) error {
	name, n, ok := takeNumbered(k)
	if !ok || q.lanes[name] == nil {
		return errNoQueue
	}
	group, err := messageGroup(k, v)
	if err != nil {
		return err
	}
	e := &queueEntry{number: n, kept: true}
	q.entries[n] = e
	q.lanes[name].add(e, group)
	return nil
}

func (q *Queue) loadReceives(k, v []byte) error {
	r, err := decodeReceives(k, v)
	if err != nil {
		return err
	}
	_, n, ok := takeNumbered(k)
	e := q.entries[n]
	if !ok || e == nil {
		return errors.New("of no message")
	}
	e.receives, e.deaths, e.lastErr = r.Count, r.Held, r.Error
	left := time.UnixMilli(r.VisibleAt).Sub(q.db.clock.Now())
	if r.VisibleAt == 0 || left <= 0 {
		return nil
	}
	// A wall clock that was set back meanwhile must not hide it for longer.
	e.home.hide(e)
	q.hold(e, delayed, min(left, e.home.config.BackoffAfter(r.Count)))
	return nil
}

func (q *Queue) loadDead(k, v []byte) error {
	name, _, ok := takeNumbered(k)
	if !ok || q.lanes[name] == nil {
		return errNoQueue
	}
	if _, err := unsealMessage(k, v); err != nil {
		return err
	}
	q.lanes[name].dead++
	return nil
}

func decodeConfig(k, v []byte) (queue.Config, error) {
	in, err := unsealMessage(k, v)
	if err != nil {
		return queue.Config{}, err
	}
	var c queue.Config
	if err := json.Unmarshal(in.b, &c); err != nil {
		return queue.Config{}, err
	}
	return c, nil
}

func encodeConfig(k []byte, c queue.Config) ([]byte, error) {
	b, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encode queue config: %w", err)
	}
	return sealMessage(k, append([]byte{messageFormat}, b...)), nil
}
