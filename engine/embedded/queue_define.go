package embedded

import (
	"bytes"
	"context"

	"go.etcd.io/bbolt"

	"github.com/iii-aws/harness/engine/queue"
)

// Define creates or changes a queue and stores its config.
func (q *Queue) Define(ctx context.Context, c queue.Config) (bool, error) {
	c = c.WithDefaults()
	if err := c.Validate(); err != nil {
		return false, err
	}
	return submit(q.db, "queue.define", nil, func(tx *bbolt.Tx, cc *commitCtx) (bool, error) {
		key := []byte(c.Name)
		var old queue.Config
		var known bool
		if v := cc.bucket(queueBucket).Get(key); v != nil {
			var err error
			if old, err = decodeConfig(key, v); err != nil {
				return false, &CorruptError{Path: q.db.path(), What: "queue " + c.Name, Err: err}
			}
			known = true
		} else {
			old, known = builtinQueue(c.Name) // what is in memory may be about to be removed
		}
		if known && old == c {
			return false, nil
		}
		if known && old.Type != c.Type && (holds(tx, messageBucket, c.Name) || holds(tx, deadBucket, c.Name)) {
			return false, &queue.InvalidError{Queue: c.Name, Field: "type", Allowed: string(old.Type) + " as long as it holds messages"}
		}
		value, err := encodeConfig(key, c)
		if err != nil {
			return false, err
		}
		cc.afterCommit(func() { q.defined(c) })
		return true, cc.put(queueBucket, key, value)
	}).Wait(ctx)
}

func (q *Queue) defined(c queue.Config) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lanes[c.Name]
	if l == nil {
		q.lanes[c.Name] = newQueueLane(c)
		return
	}
	l.config = c
	l.wake()
}

// Remove deletes a queue that holds nothing.
func (q *Queue) Remove(ctx context.Context, name string) (bool, error) {
	if _, ok := builtinQueue(name); ok {
		return false, &queue.InvalidError{Queue: name, Field: "name", Allowed: "that of a queue that was defined"}
	}
	return submit(q.db, "queue.remove", nil, func(tx *bbolt.Tx, c *commitCtx) (bool, error) {
		key := []byte(name)
		if c.bucket(queueBucket).Get(key) == nil || holds(tx, messageBucket, name) || holds(tx, deadBucket, name) {
			return false, nil
		}
		c.afterCommit(func() { q.removed(name) })
		return true, c.delete(queueBucket, key)
	}).Wait(ctx)
}

func (q *Queue) removed(name string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lanes[name]
	delete(q.lanes, name)
	l.wakeAll()
}

// exists reports whether a queue is there for an operation. What is in memory
// may be about to be removed, by an operation of the same commit.
func (q *Queue) exists(c *commitCtx, name string) bool {
	if _, ok := builtinQueue(name); ok {
		return true
	}
	return c.bucket(queueBucket).Get([]byte(name)) != nil
}

// holds reports whether a queue has anything in a bucket.
func holds(tx *bbolt.Tx, bucket []byte, name string) bool {
	b := tx.Bucket(bucket)
	if b == nil {
		return false
	}
	p := prefix(name)
	k, _ := b.Cursor().Seek(p)
	return bytes.HasPrefix(k, p)
}
