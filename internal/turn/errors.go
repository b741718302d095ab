package turn

import (
	"errors"
	"fmt"
	"time"

	"github.com/iii-aws/harness/engine/state"
)

// TransientError sends a step back to the queue with nothing marked failed.
type TransientError struct {
	Code string
	Err  error
	// After is when to try again; 0 leaves it to the queue.
	After time.Duration
}

// Error is the text of the error.
func (e *TransientError) Error() string { return "turn: " + e.Code + ": " + e.Err.Error() }

// Unwrap is the cause.
func (e *TransientError) Unwrap() error { return e.Err }

// ErrorCode is the code.
func (e *TransientError) ErrorCode() string { return e.Code }

// Retryable: yes.
func (e *TransientError) Retryable() bool { return true }

// RetryAfter is the pause that the queue makes; see queue.Delayed.
func (e *TransientError) RetryAfter() time.Duration {
	if e.After > 0 {
		return e.After
	}
	return time.Second
}

// The codes of transient errors.
const (
	CodeSuperseded     = "superseded"
	CodeNewerRecord    = "newer_record"
	CodeStorage        = "storage"
	CodeSession        = "session_unavailable"
	CodeInbox          = "inbox_unavailable"
	CodeCompactionBusy = "compaction_busy"
	CodeStopping       = "stopping"
)

func transient(code string, err error) error { return &TransientError{Code: code, Err: err} }

// ContextOverflowError: the conversation does not fit the model, and cannot be
// made to fit. It ends the run.
type ContextOverflowError struct{ Message string }

// Error is the text of the error.
func (e *ContextOverflowError) Error() string { return "context overflow: " + e.Message }

// ErrorCode is context_overflow.
func (e *ContextOverflowError) ErrorCode() string { return "context_overflow" }

// InvariantError: the stored state contradicts itself. It ends the run.
type InvariantError struct{ Text string }

// Error is the text of the error.
func (e *InvariantError) Error() string { return e.Text }

// ErrorCode is turn_state_invariant.
func (e *InvariantError) ErrorCode() string { return "turn_state_invariant" }

func missingSession(state, session string) error {
	return &InvariantError{Text: fmt.Sprintf("turn::%s invariant: missing session %s", state, session)}
}

func isTransient(err error) bool {
	var t *TransientError
	return errors.As(err, &t)
}

// isConflict reports whether a write lost to another writer.
func isConflict(err error) bool {
	var c *state.ConflictError
	return errors.As(err, &c)
}

// isAmbiguous reports whether a write may have been applied although it failed.
func isAmbiguous(err error) bool {
	var s *state.StorageError
	return errors.As(err, &s) && s.Ambiguous
}
