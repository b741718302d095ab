package embedded

import (
	"bytes"
	"context"
	"errors"
	"time"

	"go.etcd.io/bbolt"

	"github.com/iii-aws/harness/engine/commit"
	"github.com/iii-aws/harness/engine/queue"
)

// redriveBatch is the most dead letters that one operation puts back.
const redriveBatch = 256

// bury makes a doomed message a dead letter. With a dead-letter function the
// message to it is stored in the same commit. Unless somebody failed the message
// and hears of it, the log gets an alarm.
func (q *Queue) bury(e *queueEntry, text string, failed bool) *commit.Promise[struct{}] {
	name, receives := e.home.name, e.receives
	key := numbered(name, e.number)
	id := q.db.ids.UUID()
	p := submitPrepared(q.db, "queue.bury", nil, nil, func() { q.unbury(e) }, func(_ *bbolt.Tx, c *commitCtx) (struct{}, error) {
		m, err := decodeMessage(name, key, c.bucket(messageBucket).Get(key))
		if err != nil {
			return struct{}{}, &CorruptError{Path: q.db.path(), What: "message of queue " + name, Err: err}
		}
		notice, err := q.notice(c, id, m)
		if err != nil {
			return struct{}{}, err
		}
		n, err := c.next(deadBucket)
		if err != nil {
			return struct{}{}, err
		}
		m.Error, m.FailedAt, m.Receives = text, max(c.now().UnixMilli(), 1), receives
		deadKey := numbered(name, n)
		value, err := m.encode(deadKey)
		if err != nil {
			return struct{}{}, err
		}
		c.afterCommit(func() {
			if !failed {
				q.db.logger.Error("message given up", "alarm", "dead_letter", "queue", name, "message", m.ID, "function", m.FunctionID, "error", text)
			}
			q.buried(e)
		})
		if notice != nil {
			if err := q.insert(c, notice); err != nil {
				return struct{}{}, err
			}
		}
		return struct{}{}, errors.Join(
			c.put(deadBucket, deadKey, value), c.delete(messageBucket, key), c.delete(receiveBucket, key))
	})
	go q.afterBury(e, p)
	return p
}

// notice is the message that tells the dead-letter function of a message that
// dies; nil without such a function. Its data is a copy of its own.
func (q *Queue) notice(c *commitCtx, id string, m storedMessage) (*storedMessage, error) {
	conf, _ := q.Config(m.Queue)
	if conf.DeadLetterFunction == "" {
		return nil, nil
	}
	n := &storedMessage{ID: id, SentAt: max(c.now().UnixMilli(), 1), Message: m.Message, file: m.file, fileSize: m.fileSize, fileSum: m.fileSum}
	n.Queue, n.FunctionID = queue.DeadLetterQueue, conf.DeadLetterFunction
	n.Group, n.DedupID = "", ""
	if err := n.fill(q.db); err != nil {
		return nil, err
	}
	return n, n.spill(c)
}

// afterBury sees to a message that could not be made a dead letter.
func (q *Queue) afterBury(e *queueEntry, p *commit.Promise[struct{}]) {
	<-p.Done()
	err := p.Err()
	var corrupt *CorruptError
	switch {
	case errors.As(err, &corrupt):
		q.setAside(e, err)
	case err != nil:
		q.db.logger.Error("message could not be made a dead letter", "queue", e.home.name, "number", e.number, "error", err)
	}
}

// buried drops the entry and counts the dead letter.
func (q *Queue) buried(e *queueEntry) {
	q.forget(e)
	q.mu.Lock()
	defer q.mu.Unlock()
	e.home.dead++
}

// unbury lets a message wait whose burial was not applied.
func (q *Queue) unbury(e *queueEntry) {
	q.lock()
	defer q.unlock()
	q.release(e)
	q.hold(e, delayed, buryRetry)
}

// DeadLetters is a page of the given-up messages, oldest first.
func (q *Queue) DeadLetters(ctx context.Context, name string, offset, limit int) ([]queue.DeadLetter, error) {
	if _, ok := q.Config(name); !ok {
		return nil, &queue.UnknownError{Queue: name}
	}
	if err := q.flush(ctx); err != nil {
		return nil, err
	}
	var rows []deadRow
	err := q.db.view(ctx, "queue.dead_letters", func(tx *bbolt.Tx) error {
		return q.eachDead(tx, name, nil, func(key, value []byte) (bool, error) {
			if offset > 0 {
				offset--
				return true, nil
			}
			if len(rows) >= limit {
				return false, nil
			}
			m, err := q.decodeDead(name, key, value)
			if err == nil {
				rows = append(rows, deadRow{bytes.Clone(key), m})
			}
			return true, err
		})
	})
	if err != nil {
		return nil, err
	}
	var out []queue.DeadLetter
	for _, row := range rows {
		m := row.m
		there, err := q.fillDead(ctx, name, row.key, &m)
		if err != nil {
			return nil, err
		}
		if there {
			out = append(out, queue.DeadLetter{
				Message: m.Message, ID: m.ID, Error: m.Error, Receives: m.Receives, FailedAt: time.UnixMilli(m.FailedAt).UTC(),
			})
		}
	}
	return out, nil
}

// eachDead visits the dead letters of a queue from a key on, until f is false.
func (q *Queue) eachDead(tx *bbolt.Tx, name string, from []byte, f func(key, value []byte) (bool, error)) error {
	b := tx.Bucket(deadBucket)
	if b == nil {
		return nil
	}
	p := prefix(name)
	if from == nil {
		from = p
	}
	cur := b.Cursor()
	for k, v := cur.Seek(from); bytes.HasPrefix(k, p); k, v = cur.Next() {
		if more, err := f(k, v); err != nil || !more {
			return err
		}
	}
	return nil
}

func (q *Queue) decodeDead(name string, key, value []byte) (storedMessage, error) {
	m, err := decodeMessage(name, key, value)
	if err != nil {
		return m, &CorruptError{Path: q.db.path(), What: "dead letter of queue " + name, Err: err}
	}
	return m, nil
}
