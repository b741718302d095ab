package client

import (
	"errors"
	"fmt"
)

// ErrClosed: the client was closed.
var ErrClosed = errors.New("client: closed")

// ConnectError: the server cannot be reached, or refuses the token.
type ConnectError struct {
	URL string
	// Status is the HTTP status of a refused upgrade, 0 if there was none.
	Status int
	Err    error
}

// Error is the text of the error.
func (e *ConnectError) Error() string {
	if e.Unauthorized() {
		return fmt.Sprintf("client: %s refused the token (status %d)", e.URL, e.Status)
	}
	if e.Status != 0 {
		return fmt.Sprintf("client: %s answered status %d instead of a WebSocket", e.URL, e.Status)
	}
	return fmt.Sprintf("client: cannot reach %s: %v", e.URL, e.Err)
}

// Unwrap is the cause.
func (e *ConnectError) Unwrap() error { return e.Err }

// Unauthorized reports whether the token was refused.
func (e *ConnectError) Unauthorized() bool { return e.Status == 401 || e.Status == 403 }

// ErrorCode is UNAUTHORIZED or unreachable.
func (e *ConnectError) ErrorCode() string {
	if e.Unauthorized() {
		return "UNAUTHORIZED"
	}
	return "unreachable"
}

// Retryable reports whether the same call may succeed later.
func (e *ConnectError) Retryable() bool { return !e.Unauthorized() }

// LostError: the connection was lost while the call waited.
type LostError struct {
	FunctionID string
	// Sent: the frame had been handed to the connection, so the function may
	// have run.
	Sent bool
}

// Error is the text of the error.
func (e *LostError) Error() string {
	return fmt.Sprintf("client: connection lost while %s was called", e.FunctionID)
}

// ErrorCode is connection_lost.
func (e *LostError) ErrorCode() string { return "connection_lost" }

// Retryable reports whether the call is known not to have run.
func (e *LostError) Retryable() bool { return !e.Sent }

// TimeoutError: no answer in time. The function may still run.
type TimeoutError struct{ FunctionID string }

// Error is the text of the error.
func (e *TimeoutError) Error() string { return fmt.Sprintf("client: %s timed out", e.FunctionID) }

// ErrorCode is TIMEOUT.
func (e *TimeoutError) ErrorCode() string { return "TIMEOUT" }
