package protocol

import (
	"slices"
	"strings"
)

// DefaultNamespace is the namespace of whatever names none.
const DefaultNamespace = "default"

// Error is the error body of a frame, and the error a call ends with.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	// Stacktrace is the worker's own. It names files of the worker's machine: redact it before storing.
	Stacktrace string `json:"stacktrace,omitempty"`
}

// Error returns "code: message", as the SDKs do.
func (e *Error) Error() string {
	if e == nil {
		return "unknown failure"
	}
	return e.Code + ": " + e.Message
}

// Retryable reports whether the very same call may succeed when it is made again. It does not say that the first attempt
// had no effect: after invocation_stopped and a timeout the handler may have run. Codes not known here are not retryable;
// neither are function_not_found, which needs a registration, nor CONFLICT, which needs a fresh read.
func (e *Error) Retryable() bool {
	if e == nil {
		return false
	}
	switch e.Code {
	case CodeChannelSendFailed, CodeInvocationStopped, CodeInvocationError, CodeTimeout, CodeTimeoutClient,
		CodeHTTPRequestFailed, CodeHTTPResponseFailed, CodeMiddlewareTimeout:
		return true
	}
	return false
}

// FunctionNotFound is the answer to a call of an id that namespace does not have. alsoIn lists the namespaces that do.
func FunctionNotFound(id, namespace string, alsoIn []string) *Error {
	if namespace == "" {
		namespace = DefaultNamespace
	}
	message := "Function " + id + " not found in namespace " + namespace + "."
	if len(alsoIn) > 0 {
		message += " It is registered in namespace(s): " + strings.Join(slices.Sorted(slices.Values(alsoIn)), ", ") + "."
	}
	return &Error{Code: CodeFunctionNotFound, Message: message}
}

// BadInput is the answer of a built-in to input it cannot read. detail says what is wrong, such as
// "invalid type: null, expected a string".
func BadInput(function, detail string) *Error {
	return &Error{Code: CodeDeserialization, Message: "Failed to deserialize input for " + function + ": " + detail}
}

// MissingField is BadInput for a required member that is absent.
func MissingField(function, member string) *Error {
	return BadInput(function, "missing field `"+member+"`")
}

// BlankNamespace is the answer to a namespace that was named and left blank. member is the member of the frame, namespace
// or trigger_namespace.
func BlankNamespace(member string) *Error {
	return &Error{
		Code: CodeInvalidNamespace,
		Message: "`" + member + "` is empty: it was named and left blank. Give it a name, or omit it to use `" +
			DefaultNamespace + "`.",
	}
}

// IsBlankNamespace reports whether a namespace was named and left blank: empty or nothing but space.
func IsBlankNamespace(namespace *string) bool {
	return namespace != nil && strings.TrimSpace(*namespace) == ""
}

// InvocationStopped is how a call ends whose worker is gone for good.
func InvocationStopped() *Error {
	return &Error{Code: CodeInvocationStopped, Message: "Invocation stopped"}
}
