package embedded

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"syscall"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/iii-aws/harness/engine/commit"
	"github.com/iii-aws/harness/engine/state"
)

// brokenError is why the DB takes no more writes.
type brokenError struct{ err error }

// panicError is a panic inside an operation.
type panicError struct{ err error }

func (e *panicError) Error() string { return e.err.Error() }

// commitAll is the committer.
func (db *DB) commitAll() {
	defer close(db.line.done)
	debug.SetPanicOnFault(true) // see contain
	for batch := db.line.take(); batch != nil; batch = db.line.take() {
		db.commitBatch(batch)
		db.line.forget(batch)
		// Let those that were just answered submit again: a full batch costs
		// the same sync as an empty one.
		runtime.Gosched()
	}
}

// commitBatch commits a batch together, or one by one if something in it
// cannot share a transaction, and settles its tickets.
func (db *DB) commitBatch(batch []*op) {
	if db.try(batch) {
		db.settle(batch)
		return
	}
	for i := range batch {
		db.try(batch[i : i+1])
		db.settle(batch[i : i+1])
	}
}

func (db *DB) settle(batch []*op) {
	for _, o := range batch {
		if o.err != nil && o.undo != nil && !ambiguous(o.err) {
			o.undo()
		}
		o.settle(o.err)
	}
}

func ambiguous(err error) bool {
	var s *state.StorageError
	return errors.As(err, &s) && s.Ambiguous
}

// try applies and commits a batch and leaves each result in its operation. It
// is false if nothing was applied and the operations must be tried alone.
func (db *DB) try(batch []*op) bool {
	if b := db.broken.Load(); b != nil {
		refuse(batch, b.err, false, false)
		return true
	}
	tx, err := db.begin()
	if err != nil {
		refuse(batch, err, false, false)
		return true
	}
	runs := make([]commitCtx, len(batch))
	dirty := false
	for i, o := range batch {
		c := &runs[i]
		*c = commitCtx{db: db, tx: tx}
		o.err = db.apply(tx, o, c)
		var p *panicError
		if errors.As(o.err, &p) || o.err != nil && c.dirty {
			db.rollback(tx)
			undoAll(runs)
			if len(batch) == 1 && p != nil {
				o.err = p.err
			}
			return len(batch) == 1
		}
		if o.err != nil {
			c.undo()
		}
		dirty = dirty || c.dirty
	}
	if !dirty {
		db.rollback(tx)
	} else if done, single := db.commitTx(tx, batch, runs); !done {
		return single
	}
	db.tell(batch, runs)
	return true
}

// apply runs one operation inside the transaction.
func (db *DB) apply(tx *bbolt.Tx, o *op, c *commitCtx) (err error) {
	for _, first := range o.after {
		if first.err != nil {
			return commit.ErrSkipped
		}
	}
	defer func() {
		if r := recover(); r != nil {
			err = &panicError{db.panicked(o.name, r)}
		}
		if err != nil && c.dirty && db.strict {
			panic(fmt.Sprintf("%s failed after it changed something: %v", o.name, err))
		}
	}()
	if err := db.fault.call(o.name, FaultBefore); err != nil {
		return &state.StorageError{Op: o.name, Retry: true, Err: err}
	}
	return o.run(tx, c)
}

// commitTx makes the batch durable. If done is false nothing more is to be
// done for the batch, unless single is false: then it must be tried alone.
func (db *DB) commitTx(tx *bbolt.Tx, batch []*op, runs []commitCtx) (done, single bool) {
	if err := db.fault.call(FaultCommit, FaultBefore); err != nil {
		db.rollback(tx)
		undoAll(runs)
		refuse(batch, err, false, true)
		return false, true
	}
	id := tx.ID()
	err := db.sync(tx)
	if err == nil {
		db.count(tx, batch, runs)
		if err := db.fault.call(FaultCommit, FaultAfter); err != nil {
			refuse(batch, err, true, true)
		}
		return true, true
	}
	db.rollback(tx)
	if db.visible(id) {
		// The meta page was written and its sync failed: readers see the
		// commit, and it may or may not survive.
		db.breakDown(err)
		refuse(batch, err, true, false)
		return true, true
	}
	undoAll(runs)
	var p *panicError
	if errors.As(err, &p) {
		if len(batch) == 1 {
			batch[0].err = p.err
		}
		return false, len(batch) == 1
	}
	refuse(batch, err, false, errors.Is(err, syscall.ENOSPC))
	return false, true
}

// tell runs what waits for the commit.
func (db *DB) tell(batch []*op, runs []commitCtx) {
	for i, o := range batch {
		if o.err != nil && !ambiguous(o.err) {
			continue
		}
		for _, hook := range runs[i].hooks {
			hook()
		}
		if o.err != nil {
			continue
		}
		if err := db.fault.call(o.name, FaultAfter); err != nil {
			o.err = &state.StorageError{Op: o.name, Ambiguous: true, Retry: true, Err: err}
		}
	}
	db.sweepLater()
}

// refuse fails a batch for a reason that lies outside of it. What an operation
// was told about its neighbours does not hold any more, but that it was
// skipped.
func refuse(batch []*op, err error, committed, retry bool) {
	for _, o := range batch {
		if errors.Is(o.err, commit.ErrSkipped) {
			continue
		}
		o.err = &state.StorageError{Op: o.name, Ambiguous: committed && o.err == nil, Retry: retry, Err: err}
	}
}

func (db *DB) count(tx *bbolt.Tx, batch []*op, runs []commitCtx) {
	var ops, bytes int64
	for i := range batch {
		if batch[i].err == nil {
			ops++
			bytes += runs[i].bytes
		}
	}
	db.counters.commits.Add(1)
	db.counters.ops.Add(ops)
	db.counters.bytes.Add(bytes)
	stats := tx.Stats()
	db.counters.pageBytes.Add(stats.GetPageAlloc())
}

func undoAll(runs []commitCtx) {
	for i := range runs {
		runs[i].undo()
	}
}

func (db *DB) begin() (tx *bbolt.Tx, err error) {
	defer db.contain("begin", &err)
	return db.bolt.Begin(true)
}

func (db *DB) sync(tx *bbolt.Tx) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &panicError{db.panicked(FaultCommit, r)}
		}
	}()
	return db.commitBolt(tx)
}

// rollback ends a transaction, also one whose commit failed.
func (db *DB) rollback(tx *bbolt.Tx) {
	var err error
	func() {
		defer db.contain("rollback", &err)
		err = tx.Rollback()
	}()
	if err != nil && !errors.Is(err, berrors.ErrTxClosed) {
		db.breakDown(err)
	}
}

// visible reports whether readers see the transaction with that id.
func (db *DB) visible(id int) bool {
	var seen bool
	var err error
	func() {
		defer db.contain("read back", &err)
		err = db.bolt.View(func(tx *bbolt.Tx) error {
			seen = tx.ID() >= id
			return nil
		})
	}()
	return seen || err != nil
}

// breakDown stops all further writes.
func (db *DB) breakDown(err error) {
	if db.broken.CompareAndSwap(nil, &brokenError{fmt.Errorf("no more writes until it is opened again, after: %w", err)}) {
		db.logger.Error("data file refused a commit", "alarm", "storage_broken", "path", db.path(), "error", err)
	}
}
