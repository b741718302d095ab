package shell

import "encoding/json"

// Error is what went wrong, in a form that a model can act on.
type Error struct {
	Code    string `json:"code"`
	Type    string `json:"type"`
	Message string `json:"message"`
	Fix     string `json:"fix,omitempty"`
	Err     error  `json:"-"`
}

// Error is the error as JSON.
func (e *Error) Error() string {
	b, err := json.Marshal(e)
	if err != nil { // texts always encode
		return e.Code + ": " + e.Message
	}
	return string(b)
}

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }

// Retryable is false: the same call gives the same error unless somebody
// changes something.
func (e *Error) Retryable() bool { return false }

// The codes of an Error.
const (
	CodeInvalid  = "S001" // request shape
	CodeTarget   = "S002" // a target that does not serve
	CodeRefused  = "S003" // a command that config refuses
	CodeOutside  = "S201" // outside the working folder, or protected
	CodeNotFound = "S202"
	CodeKind     = "S203" // a folder where a file is needed, or the reverse
	CodeIO       = "S204"
	CodeStart    = "S300" // the command could not be started
	CodeStopped  = "S301" // the call was given up
)

func invalid(message, fix string) *Error {
	return &Error{Code: CodeInvalid, Type: "invalid_request", Message: message, Fix: fix}
}

func stopped(message string, err error) *Error {
	return &Error{Code: CodeStopped, Type: "stopped", Message: message, Err: err}
}

// clip keeps messages short, whatever they quote.
func clip(s string) string {
	const most = 200
	n := 0
	for i := range s {
		if n == most {
			return s[:i] + "…"
		}
		n++
	}
	return s
}
