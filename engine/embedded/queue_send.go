package embedded

import (
	"bytes"
	"context"
	"encoding/json"

	"go.etcd.io/bbolt"

	"github.com/iii-aws/harness/engine/commit"
	"github.com/iii-aws/harness/engine/queue"
	"github.com/iii-aws/harness/engine/state"
)

// Submit sends a message, after the given tickets.
func (q *Queue) Submit(_ context.Context, m queue.Message, after ...commit.Ticket) *commit.Promise[queue.Sent] {
	stored, err := q.prepare(m)
	if err != nil {
		return commit.Resolved(queue.Sent{}, err)
	}
	return submit(q.db, "queue.submit", after, func(_ *bbolt.Tx, c *commitCtx) (queue.Sent, error) {
		return q.put(c, stored)
	})
}

// SubmitAll sends messages, in one commit.
func (q *Queue) SubmitAll(_ context.Context, ms []queue.Message, after ...commit.Ticket) *commit.Promise[[]queue.Sent] {
	stored := make([]*storedMessage, len(ms))
	for i, m := range ms {
		var err error
		if stored[i], err = q.prepare(m); err != nil {
			return commit.Resolved[[]queue.Sent](nil, err)
		}
	}
	return submit(q.db, "queue.submit_all", after, func(_ *bbolt.Tx, c *commitCtx) ([]queue.Sent, error) {
		return q.putAll(c, stored)
	})
}

// prepare checks a message and fills in what it lacks.
func (q *Queue) prepare(m queue.Message) (*storedMessage, error) {
	conf, ok := q.Config(m.Queue)
	if !ok {
		return nil, &queue.UnknownError{Queue: m.Queue}
	}
	invalid := func(field, allowed string) error {
		return &queue.InvalidError{Queue: m.Queue, Field: field, Allowed: allowed}
	}
	if len(bytes.TrimSpace(m.Data)) == 0 {
		m.Data = json.RawMessage("null")
	}
	switch {
	case m.FunctionID == "":
		return nil, invalid("function_id", "given")
	case len(m.Data) > state.MaxValue:
		return nil, &queue.TooLargeError{Queue: m.Queue, Size: len(m.Data)}
	case !json.Valid(m.Data):
		return nil, invalid("data", "JSON")
	}
	var err error
	if m.Group, err = queue.Group(conf, m); err != nil {
		return nil, err
	}
	m.Data = bytes.Clone(m.Data)
	s := &storedMessage{Message: m, ID: q.db.ids.UUID()}
	if s.ReceiptID == "" {
		s.ReceiptID = s.ID
	}
	return s, nil
}

// put stores a message as part of an operation. It makes its checks before its
// first change.
func (q *Queue) put(c *commitCtx, m *storedMessage) (queue.Sent, error) {
	sent, err := q.putAll(c, []*storedMessage{m})
	if err != nil {
		return queue.Sent{}, err
	}
	return sent[0], nil
}

// putAll is put for several messages. It leaves ms as they are, because an
// operation may run again.
func (q *Queue) putAll(c *commitCtx, ms []*storedMessage) ([]queue.Sent, error) {
	now := c.now().UnixMilli()
	sent, news, keys := make([]queue.Sent, len(ms)), make([]*storedMessage, len(ms)), make([]string, len(ms))
	for i, m := range ms {
		conf, ok := q.Config(m.Queue)
		if !ok || !q.exists(c, m.Queue) {
			return nil, &queue.UnknownError{Queue: m.Queue}
		}
		one := *m
		one.SentAt = now
		keys[i] = queue.DedupKey(conf, one.Message)
		if keys[i] != "" {
			if id := q.duplicate(c, one.Queue, keys[i], now); id != "" {
				sent[i] = queue.Sent{ID: id, Duplicate: true}
				continue
			}
		}
		if err := one.spill(c); err != nil {
			return nil, err
		}
		news[i], sent[i] = &one, queue.Sent{ID: one.ID}
	}
	for i, m := range news {
		if m == nil {
			continue
		}
		if err := q.insert(c, m); err != nil {
			return nil, err
		}
		if keys[i] == "" {
			continue
		}
		if err := q.remember(c, m, keys[i]); err != nil {
			return nil, err
		}
	}
	return sent, nil
}

// insert puts a message at the back of its queue.
func (q *Queue) insert(c *commitCtx, m *storedMessage) error {
	n, err := c.next(messageBucket)
	if err != nil {
		return err
	}
	key := numbered(m.Queue, n)
	value, err := m.encode(key)
	if err != nil {
		return err
	}
	if m.file != "" {
		if err := c.putIndex(valueBucket, []byte(m.file)); err != nil {
			return err
		}
	}
	name, group := m.Queue, m.Group
	c.afterCommit(func() { q.added(name, group, n) })
	return c.put(messageBucket, key, value)
}

// added makes a stored message visible.
func (q *Queue) added(name, group string, n uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := &queueEntry{number: n}
	q.entries[n] = e
	q.lanes[name].add(e, group)
}
