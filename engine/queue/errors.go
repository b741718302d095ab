package queue

import (
	"errors"
	"fmt"
)

// ErrStale: the receipt was replaced by a later receive, or the message is
// gone. Nothing was changed.
var ErrStale = errors.New("queue: receipt is stale")

// UnknownError: no such queue.
type UnknownError struct{ Queue string }

// Error is the text of the error.
func (e *UnknownError) Error() string { return fmt.Sprintf("queue: unknown queue %q", e.Queue) }

// ErrorCode is enqueue_error.
func (e *UnknownError) ErrorCode() string { return "enqueue_error" }

// InvalidError: a message or config that the queue cannot take.
type InvalidError struct{ Queue, Field, Allowed string }

// Error is the text of the error.
func (e *InvalidError) Error() string {
	return fmt.Sprintf("queue %q: invalid %s: must be %s", e.Queue, e.Field, e.Allowed)
}

// ErrorCode is enqueue_error.
func (e *InvalidError) ErrorCode() string { return "enqueue_error" }
