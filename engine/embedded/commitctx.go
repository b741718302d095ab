package embedded

import (
	"fmt"
	"time"

	"go.etcd.io/bbolt"
)

// fillPercent is how full a page is left that is split. Most keys are written
// in their order, session by session, and never grow into what is left free.
const fillPercent = 0.9

// commitCtx is what an operation changes its transaction with.
type commitCtx struct {
	db    *DB
	tx    *bbolt.Tx
	dirty bool
	bytes int64
	hooks []func()
	undos []func()
}

// now is the wall clock.
func (c *commitCtx) now() time.Time { return c.db.clock.Now() }

// bucket is a top-level bucket, made if there is none.
func (c *commitCtx) bucket(name []byte) *bbolt.Bucket {
	b := c.tx.Bucket(name)
	if b == nil {
		var err error
		if b, err = c.tx.CreateBucket(name); err != nil {
			panic(fmt.Errorf("make bucket %s: %w", name, err)) // contained by the committer
		}
	}
	b.FillPercent = fillPercent
	return b
}

// put stores a value. bbolt keeps value until the commit: do not change it.
func (c *commitCtx) put(bucket, key, value []byte) error {
	c.dirty = true
	c.bytes += int64(len(key) + len(value))
	return storageError("put", c.bucket(bucket).Put(key, value))
}

// putIndex stores a key whose presence is all that it says.
func (c *commitCtx) putIndex(bucket, key []byte) error { return c.put(bucket, key, seal(key, nil)) }

// delete removes a key; an absent one is no error and no change.
func (c *commitCtx) delete(bucket, key []byte) error {
	b := c.bucket(bucket)
	if b.Get(key) == nil {
		return nil
	}
	c.dirty = true
	return storageError("delete", b.Delete(key))
}

// afterCommit runs fn once the operation is durable, just before its ticket
// ends, on the committer's goroutine: it must not block.
func (c *commitCtx) afterCommit(fn func()) { c.hooks = append(c.hooks, fn) }

// onUndo runs fn if this run of the operation was certainly not applied.
func (c *commitCtx) onUndo(fn func()) { c.undos = append(c.undos, fn) }

func (c *commitCtx) undo() {
	for _, fn := range c.undos {
		fn()
	}
	c.undos = nil
}
