package embedded

import (
	"github.com/iii-aws/harness/engine/commit"
	"github.com/iii-aws/harness/engine/state"

	"go.etcd.io/bbolt"
)

// submit puts an operation into the line and gives its ticket at once.
//
// fn runs on the committer's goroutine. It makes all its checks before its
// first change, so that an error leaves nothing behind; changes go through c.
// It may run more than once, the last run counts. It must not block on
// anything but the disk, nor use db.view, nor submit and wait.
func submit[T any](db *DB, name string, after []commit.Ticket, fn func(tx *bbolt.Tx, c *commitCtx) (T, error)) *commit.Promise[T] {
	return submitOp(db, &op{name: name}, after, nil, fn)
}

// submitLazy is submit for an operation that nobody waits for: it goes with
// the next commit that has another reason, or lazyDelay later.
func submitLazy[T any](db *DB, name string, after []commit.Ticket, fn func(tx *bbolt.Tx, c *commitCtx) (T, error)) *commit.Promise[T] {
	return submitOp(db, &op{name: name, lazy: true}, after, nil, fn)
}

// submitPrepared is submit with slow work that comes first, outside of the
// line. What prepare did is taken back with undo if the operation was
// certainly not applied.
func submitPrepared[T any](db *DB, name string, after []commit.Ticket, prepare func() error, undo func(), fn func(tx *bbolt.Tx, c *commitCtx) (T, error)) *commit.Promise[T] {
	return submitOp(db, &op{name: name, undo: undo}, after, prepare, fn)
}

func submitOp[T any](db *DB, o *op, after []commit.Ticket, prepare func() error, fn func(tx *bbolt.Tx, c *commitCtx) (T, error)) *commit.Promise[T] {
	p := commit.NewPromise[T]()
	var value T
	o.ticket = p
	o.run = func(tx *bbolt.Tx, c *commitCtx) (err error) {
		value, err = fn(tx, c)
		return err
	}
	o.settle = func(err error) {
		if err != nil {
			var zero T
			value = zero
		}
		p.Resolve(value, err)
	}
	db.enter(o, after, prepare)
	return p
}

// enter sorts out the tickets that o comes after and adds it to the line, now
// or when what it waits for has ended.
func (db *DB) enter(o *op, after []commit.Ticket, prepare func() error) {
	var foreign []commit.Ticket
	for _, t := range after {
		if t == nil {
			continue
		}
		if first := db.line.find(t); first != nil {
			o.after = append(o.after, first)
			continue
		}
		select {
		case <-t.Done():
			if t.Err() != nil {
				db.fail(o, commit.ErrSkipped)
				return
			}
		default:
			foreign = append(foreign, t)
		}
	}
	if prepare == nil && len(foreign) == 0 {
		db.add(o)
		return
	}
	running := db.spawn(func() {
		if err := db.waitOutside(foreign, prepare); err != nil {
			db.fail(o, err)
			return
		}
		db.add(o)
	})
	if !running {
		db.fail(o, &state.StorageError{Op: o.name, Err: ErrClosed})
	}
}

// waitOutside makes the preparations and waits for tickets from elsewhere.
func (db *DB) waitOutside(foreign []commit.Ticket, prepare func() error) error {
	if prepare != nil {
		if err := prepare(); err != nil {
			return err
		}
	}
	for _, t := range foreign {
		select {
		case <-t.Done():
		case <-db.closing:
			return &state.StorageError{Op: "wait for an earlier write", Err: ErrClosed}
		}
		if t.Err() != nil {
			return commit.ErrSkipped
		}
	}
	return nil
}

func (db *DB) add(o *op) {
	if !db.line.add(o) {
		db.fail(o, &state.StorageError{Op: o.name, Err: ErrClosed})
	}
}

// fail settles an operation that never reached the committer.
func (db *DB) fail(o *op, err error) {
	if o.undo != nil {
		o.undo()
	}
	o.settle(err)
}
