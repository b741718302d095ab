package session

import (
	"errors"
	"fmt"

	"github.com/iii-aws/harness/engine/state"
)

// Kind is the stable code of an Error.
type Kind string

// The kinds.
const (
	NotFound      Kind = "not_found"
	EntryNotFound Kind = "entry_not_found"
	OrphanResult  Kind = "orphan_result"
	DuplicateCall Kind = "duplicate_call"
	Busy          Kind = "session_busy"
	Full          Kind = "inbox_full"
	Storage       Kind = "storage"
	// TooLarge is for good: the store does not take a value of that size.
	TooLarge Kind = "VALUE_TOO_LARGE"
)

// Error is a refused request, or a store that failed.
type Error struct {
	Kind    Kind
	Session string
	Detail  string
	Err     error
}

// Error is the text of the error.
func (e *Error) Error() string {
	s := fmt.Sprintf("session %s: %s", e.Session, e.Kind)
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }

// ErrorCode is the kind.
func (e *Error) ErrorCode() string { return string(e.Kind) }

// Retryable reports whether the same call may succeed later.
func (e *Error) Retryable() bool {
	return e.Kind == Storage || e.Kind == Busy || e.Kind == Full
}

func notFound(session string) *Error { return &Error{Kind: NotFound, Session: session} }

func storage(session, what string, err error) *Error {
	kind := Storage
	var large *state.TooLargeError
	if errors.As(err, &large) {
		kind = TooLarge
	}
	return &Error{Kind: kind, Session: session, Detail: what, Err: err}
}

// unsettled reports whether a write has to be looked at again: another writer
// was first, or the answer of the store was lost.
func unsettled(err error) bool {
	var f *state.StorageError
	return isConflict(err) || (errors.As(err, &f) && f.Ambiguous)
}

func isConflict(err error) bool {
	var c *state.ConflictError
	return errors.As(err, &c)
}
