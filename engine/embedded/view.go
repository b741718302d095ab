package embedded

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/iii-aws/harness/engine/state"
)

// view runs a read transaction. It sees every commit whose tickets have ended.
// fn must not wait for a write: the committer may be waiting for readers. What
// it takes from tx is valid only until it returns.
func (db *DB) view(ctx context.Context, op string, fn func(tx *bbolt.Tx) error) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	defer db.contain(op, &err)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	tx, err := db.bolt.Begin(false)
	if err != nil {
		if errors.Is(err, berrors.ErrDatabaseNotOpen) {
			err = ErrClosed
		}
		return &state.StorageError{Op: op, Err: err}
	}
	defer func() { err = errors.Join(err, tx.Rollback()) }()
	return fn(tx)
}

// contain turns a panic into the error of the call. bbolt panics when a page
// is not what it should be, and a page that points into nowhere is a fault.
func (db *DB) contain(op string, err *error) {
	if r := recover(); r != nil {
		*err = db.panicked(op, r)
	}
}

func (db *DB) panicked(op string, r any) error {
	db.logger.Error("storage operation panicked", "alarm", "storage_panic", "op", op, "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
	cause, isError := r.(error)
	if !isError {
		cause = fmt.Errorf("%v", r)
	}
	// A fault has the address; bbolt's own assertions are strings.
	if _, fault := r.(interface{ Addr() uintptr }); fault || !isError {
		return &CorruptError{Path: db.path(), What: op, Err: cause}
	}
	return &state.StorageError{Op: op, Err: fmt.Errorf("panic: %w", cause)}
}
