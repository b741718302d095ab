package queue

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/redact"
	"github.com/iii-aws/harness/engine/state"
)

// ErrStale says that the receipt was replaced by a later receive, that the
// message is gone, or, in a FIFO queue, that its visibility has ended. Nothing
// was changed.
var ErrStale = errors.New("queue: receipt is stale")

// ErrNoTarget as a handler's error says that nobody serves the function now.
// The message waits and the receive does not count.
var ErrNoTarget = errors.New("queue: nobody serves the target")

// ErrDrained is the cause of a handler's ended context when its consumer stops
// and the time to finish is over. The message becomes visible again.
var ErrDrained = errors.New("queue: the consumer stopped")

// Delayed is implemented by errors of handlers that choose when the message
// comes back. It still counts as a receive; the last one ends as a dead letter.
type Delayed interface {
	error
	RetryAfter() time.Duration
}

// UnknownError is the name of a queue that does not exist.
type UnknownError struct{ Queue string }

// Error is the text of the error.
func (e *UnknownError) Error() string { return fmt.Sprintf("queue: unknown queue %q", e.Queue) }

// ErrorCode is enqueue_error.
func (e *UnknownError) ErrorCode() string { return "enqueue_error" }

// InvalidError is a message or config that the queue cannot take.
type InvalidError struct{ Queue, Field, Allowed string }

// Error is the text of the error.
func (e *InvalidError) Error() string {
	return fmt.Sprintf("queue %q: invalid %s: must be %s", e.Queue, e.Field, e.Allowed)
}

// ErrorCode is enqueue_error.
func (e *InvalidError) ErrorCode() string { return "enqueue_error" }

// TooLargeError is a message whose data is above state.MaxValue. It is permanent.
type TooLargeError struct {
	Queue string
	// Size is in bytes.
	Size int
}

// Error is the text of the error.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("queue %q: data of %d bytes, at most %d are allowed", e.Queue, e.Size, state.MaxValue)
}

// ErrorCode is VALUE_TOO_LARGE.
func (e *TooLargeError) ErrorCode() string { return protocol.CodeValueTooLarge }

// maxErrorText bounds the stored text of an error in bytes.
const maxErrorText = 4096

// ErrorText is what backends store of an error that ended a receive: "code:
// message" without secrets, at most 4 KB of valid UTF-8.
func ErrorText(err error) string {
	if err == nil {
		return "unknown: no error was given"
	}
	e := bus.AsError(err)
	text := redact.Text(e.Code + ": " + e.Message) // before it is cut: half a secret is not recognised
	if len(text) > maxErrorText {
		text = strings.ToValidUTF8(text[:maxErrorText], "")
	}
	return text
}

// TimeoutError is a handler that took longer than the queue allows.
type TimeoutError struct {
	Queue, FunctionID string
	After             time.Duration
}

// Error is the text of the error.
func (e *TimeoutError) Error() string {
	return fmt.Sprintf("queue %q: %s took longer than %s", e.Queue, e.FunctionID, e.After)
}

// ErrorCode is timeout.
func (e *TimeoutError) ErrorCode() string { return "timeout" }

// Retryable reports that the same call may succeed later.
func (e *TimeoutError) Retryable() bool { return true }

// PanicError is a panic of a handler.
type PanicError struct {
	FunctionID string
	Value      any
}

// Error is the text of the error.
func (e *PanicError) Error() string { return fmt.Sprintf("%s panicked: %v", e.FunctionID, e.Value) }

// ErrorCode is invocation_failed.
func (e *PanicError) ErrorCode() string { return "invocation_failed" }

// DrainError is a consumer that stopped while handlers still ran. Their messages are
// visible again.
type DrainError struct {
	Queue      string
	Unfinished int
}

// Error is the text of the error.
func (e *DrainError) Error() string {
	return fmt.Sprintf("queue %q: %d handlers did not finish in time", e.Queue, e.Unfinished)
}
