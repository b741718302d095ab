package embedded

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"io/fs"

	"go.etcd.io/bbolt"

	"github.com/iii-aws/harness/engine/state"
)

// load gives the value of a record that was read inside of c's transaction.
func (c *commitCtx) load(what string, r record) ([]byte, error) {
	if r.File == "" {
		return bytes.Clone(r.Value), nil
	}
	return c.db.readValue(what, r)
}

func (db *DB) readValue(what string, r record) ([]byte, error) {
	b, err := db.values.read(r.File, r.FileSize, r.FileSum)
	switch {
	case err == nil:
		return b, nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, errChecksum):
		return nil, &CorruptError{Path: db.path(), What: what, Err: err}
	}
	return nil, &state.StorageError{Op: "read value", Err: err}
}

// spill moves a value above the limit into a file of its own. It belongs to
// the checks of an operation: it may fail, and is taken back with it.
func (c *commitCtx) spill(r *record) error {
	if r.File != "" || len(r.Value) <= state.InlineLimit {
		return nil
	}
	if err := c.db.writeValue(r); err != nil {
		return err
	}
	id := r.File
	c.onUndo(func() { c.db.removeValue(id) })
	return nil
}

// writeValue moves the value of r into a new file.
func (db *DB) writeValue(r *record) error {
	var id [16]byte
	if _, err := db.ids.Read(id[:]); err != nil {
		return &state.StorageError{Op: "write value", Err: err}
	}
	r.File, r.FileSize = hex.EncodeToString(id[:]), int64(len(r.Value))
	sum, err := db.values.write(r.File, r.Value)
	if err != nil {
		return &state.StorageError{Op: "write value", Retry: true, Err: err}
	}
	r.Value, r.FileSum = nil, sum
	return nil
}

// removeValue removes the file of a value that nothing refers to. A failure
// costs space only: the next Open tries again.
func (db *DB) removeValue(id string) {
	if err := db.values.remove(id); err != nil {
		db.logger.Warn("cannot remove the file of a value", "id", id, "error", err)
	}
}

// putRecord stores r, which was spilled, in place of old (nil if there was
// none).
func (c *commitCtx) putRecord(bucket, key []byte, r, old *record) error {
	if r.File != "" {
		if err := c.putIndex(valueBucket, []byte(r.File)); err != nil {
			return err
		}
	}
	if err := c.dropFile(old); err != nil {
		return err
	}
	return c.put(bucket, key, r.encode(key))
}

// dropRecord removes old.
func (c *commitCtx) dropRecord(bucket, key []byte, old *record) error {
	if err := c.dropFile(old); err != nil {
		return err
	}
	return c.delete(bucket, key)
}

func (c *commitCtx) dropFile(old *record) error {
	if old == nil || old.File == "" {
		return nil
	}
	c.afterCommit(func() { c.db.removeValue(old.File) })
	return c.delete(valueBucket, []byte(old.File))
}

// found is a record that was read, with a value of its own.
type found struct {
	key []byte
	record
}

// keep copies what points into a transaction.
func keep(key []byte, r record) found {
	r.Value = bytes.Clone(r.Value)
	return found{key: bytes.Clone(key), record: r}
}

// fetch reads the file of a record found by an ended transaction. A write may
// have replaced record and file since: then the new record counts. ok is false
// if there is none any more.
func (db *DB) fetch(ctx context.Context, op string, bucket []byte, f found, what func(key []byte) string) (_ found, ok bool, err error) {
	for f.File != "" {
		b, err := db.values.read(f.File, f.FileSize, f.FileSum)
		if err == nil {
			f.Value = b
			return f, true, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			_, err = db.readValue(what(f.key), f.record)
			return f, false, err
		}
		last := f.File
		ok := false
		err = db.view(ctx, op, func(tx *bbolt.Tx) error {
			v := tx.Bucket(bucket).Get(f.key)
			if v == nil {
				return nil
			}
			r, err := decodeRecord(f.key, v)
			if err != nil {
				return &CorruptError{Path: db.path(), What: what(f.key), Err: err}
			}
			ok = true
			f = keep(f.key, r)
			return nil
		})
		if err != nil || !ok {
			return f, false, err
		}
		if f.File == last {
			return f, false, &CorruptError{Path: db.path(), What: what(f.key), Err: fs.ErrNotExist}
		}
	}
	return f, true, nil
}

// removeOrphans removes files that a killed process wrote and nothing refers
// to.
func (db *DB) removeOrphans() error {
	return db.view(context.Background(), "remove orphans", func(tx *bbolt.Tx) error {
		for _, s := range []struct {
			files  fileStore
			bucket []byte
		}{{db.values, valueBucket}, {db.blobs, blobBucket}} {
			rows := tx.Bucket(s.bucket)
			err := s.files.removeOthers(func(id string) bool { return rows.Get([]byte(id)) != nil })
			if err != nil {
				return &FolderError{Dir: s.files.dir, Err: err}
			}
		}
		return nil
	})
}
