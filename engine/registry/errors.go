package registry

import (
	"fmt"

	"github.com/iii-aws/harness/engine/protocol"
)

// ReservedError is a registration of an id that belongs to the bus.
type ReservedError struct{ FunctionID string }

// Error is the text of the error.
func (e *ReservedError) Error() string {
	return fmt.Sprintf("registry: %s cannot be registered: ids that start with engine:: belong to the bus", e.FunctionID)
}

// ErrorCode is FORBIDDEN.
func (e *ReservedError) ErrorCode() string { return protocol.CodeForbidden }

// UnknownConnectionError is a registration of a connection that has gone.
type UnknownConnectionError struct{ Connection string }

// Error is the text of the error.
func (e *UnknownConnectionError) Error() string {
	return fmt.Sprintf("registry: connection %q is gone", e.Connection)
}

// ErrorCode is invocation_stopped.
func (e *UnknownConnectionError) ErrorCode() string { return protocol.CodeInvocationStopped }
