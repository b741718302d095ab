package bus

import (
	"context"
	"errors"

	"github.com/iii-aws/harness/engine/protocol"
)

// Error is an error as it travels on the bus.
type Error = protocol.Error

// Coded is implemented by errors that know their stable code.
type Coded interface {
	error
	ErrorCode() string
}

// Errors of Invoker and Poster.
var (
	// ErrAwaiting: the result will be written as a row of call_results.
	ErrAwaiting = errors.New("bus: the call goes on, its result will be stored")
	// ErrGone: the connection is gone for good.
	ErrGone = errors.New("bus: connection gone")
	// ErrNotRegistered: the connection does not serve the function id.
	ErrNotRegistered = errors.New("bus: connection has not registered the function")
	// ErrTooLarge: the frame is above the connection's limit.
	ErrTooLarge = errors.New("bus: frame too large for the connection")
)

// Code is the stable code of err: that of the first *Error or Coded in its
// chain, timeout for an ended context, else invocation_failed.
func Code(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	var c Coded
	if errors.As(err, &c) {
		return c.ErrorCode()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return protocol.CodeTimeout
	}
	return protocol.CodeInvocationFailed
}

// AsError is err as it travels: an *Error of the chain, else code and text.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Code: Code(err), Message: err.Error()}
}

// Retryable reports whether the same call may succeed later.
func Retryable(err error) bool {
	var r interface{ Retryable() bool }
	return errors.As(err, &r) && r.Retryable()
}
