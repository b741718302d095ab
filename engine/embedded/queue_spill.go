package embedded

import (
	"context"
	"errors"
	"io/fs"

	"go.etcd.io/bbolt"

	"github.com/iii-aws/harness/engine/state"
)

// spill moves the data of a message above the limit into a file of its own,
// which goes with the message wherever it goes; insert notes it. It belongs to the checks of an
// operation: it may fail, and is taken back with it.
func (m *storedMessage) spill(c *commitCtx) error {
	if len(m.Data) <= state.InlineLimit {
		return nil
	}
	r := record{Value: m.Data}
	if err := c.spill(&r); err != nil {
		return err
	}
	m.Data, m.file, m.fileSize, m.fileSum = nil, r.File, r.FileSize, r.FileSum
	return nil
}

// fill reads the data of a message from its file, if it has one.
func (m *storedMessage) fill(db *DB) error {
	if m.file == "" {
		return nil
	}
	b, err := db.readValue("data of a message of queue "+m.Queue, record{File: m.file, FileSize: m.fileSize, FileSum: m.fileSum})
	if err != nil {
		return err
	}
	m.Data, m.file = b, ""
	return nil
}

// dropData removes the file of the message at key, if it has one, for an
// operation that removes the message. That of a damaged one stays.
func (c *commitCtx) dropData(bucket, key []byte) error {
	v := c.bucket(bucket).Get(key)
	if len(v) < 2 || v[1]&hasSpill == 0 {
		return nil
	}
	m, err := decodeMessage("", key, v)
	if err != nil {
		c.db.logger.Warn("the data of a damaged message stays in its file", "key", string(key), "error", err)
		return nil
	}
	return c.dropFile(&record{File: m.file})
}

// fillDead is fill for a dead letter that was read by an ended transaction. It
// answers false if it has left meanwhile.
func (q *Queue) fillDead(ctx context.Context, name string, key []byte, m *storedMessage) (bool, error) {
	err := m.fill(q.db)
	if !errors.Is(err, fs.ErrNotExist) {
		return err == nil, err
	}
	there := false
	viewErr := q.db.view(ctx, "queue.dead_letters", func(tx *bbolt.Tx) error {
		b := tx.Bucket(deadBucket)
		there = b != nil && b.Get(key) != nil
		return nil
	})
	if viewErr != nil || !there {
		return false, viewErr
	}
	return false, err
}
