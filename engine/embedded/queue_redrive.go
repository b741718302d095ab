package embedded

import (
	"bytes"
	"context"
	"errors"

	"go.etcd.io/bbolt"

	"github.com/iii-aws/harness/engine/queue"
)

// deadRow is a dead letter that is about to leave.
type deadRow struct {
	key []byte
	m   storedMessage
}

// Redrive puts dead letters back, those that were there when it began.
func (q *Queue) Redrive(ctx context.Context, name, id string) (int, error) {
	if _, ok := q.Config(name); !ok {
		return 0, &queue.UnknownError{Queue: name}
	}
	if err := q.flush(ctx); err != nil {
		return 0, err
	}
	var last []byte
	err := q.db.view(ctx, "queue.redrive", func(tx *bbolt.Tx) error {
		return q.eachDead(tx, name, nil, func(key, _ []byte) (bool, error) {
			last = bytes.Clone(key)
			return true, nil
		})
	})
	total := 0
	for last != nil && err == nil {
		var n int
		n, err = q.redriveSome(ctx, name, id, last)
		total += n
		if n < redriveBatch {
			break
		}
	}
	return total, err
}

func (q *Queue) redriveSome(ctx context.Context, name, id string, last []byte) (int, error) {
	return submit(q.db, "queue.redrive", nil, func(tx *bbolt.Tx, c *commitCtx) (int, error) {
		rows, err := q.pick(tx, name, id, last)
		for _, row := range rows {
			row.m.Error, row.m.FailedAt, row.m.Receives = "", 0, 0
			err = errors.Join(err, c.delete(deadBucket, row.key), q.insert(c, &row.m))
		}
		c.afterCommit(func() { q.lessDead(name, len(rows)) })
		return len(rows), err
	}).Wait(ctx)
}

// pick is the dead letters up to last, at most redriveBatch, or the one with
// that id.
func (q *Queue) pick(tx *bbolt.Tx, name, id string, last []byte) ([]deadRow, error) {
	var rows []deadRow
	err := q.eachDead(tx, name, nil, func(key, value []byte) (bool, error) {
		if bytes.Compare(key, last) > 0 {
			return false, nil
		}
		m, err := q.decodeDead(name, key, value)
		if err != nil {
			return false, err
		}
		if id == "" || m.ID == id {
			rows = append(rows, deadRow{key: bytes.Clone(key), m: m})
		}
		return len(rows) < redriveBatch && (id == "" || len(rows) == 0), nil
	})
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// Discard deletes a dead letter.
func (q *Queue) Discard(ctx context.Context, name, id string) (bool, error) {
	if _, ok := q.Config(name); !ok {
		return false, &queue.UnknownError{Queue: name}
	}
	if id == "" {
		return false, &queue.InvalidError{Queue: name, Field: "message id", Allowed: "given"}
	}
	if err := q.flush(ctx); err != nil {
		return false, err
	}
	return submit(q.db, "queue.discard", nil, func(tx *bbolt.Tx, c *commitCtx) (bool, error) {
		rows, err := q.pick(tx, name, id, behind(prefix(name)))
		if err != nil || len(rows) == 0 {
			return false, err
		}
		c.afterCommit(func() { q.lessDead(name, 1) })
		return true, errors.Join(c.dropData(deadBucket, rows[0].key), c.delete(deadBucket, rows[0].key))
	}).Wait(ctx)
}

func (q *Queue) lessDead(name string, n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lanes[name].dead -= n
}
