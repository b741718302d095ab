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
	if err != nil {
		return e.Code + ": " + e.Message
	}
	return string(b)
}

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }

// The codes of an Error.
const (
	CodeInvalid  = "S001" // request shape
	CodeOutside  = "S201" // outside the working folder, or protected
	CodeNotFound = "S202"
	CodeKind     = "S203" // a folder where a file is needed, or the reverse
	CodeIO       = "S204"
	CodeRefused  = "S100" // a command that config refuses
	CodeStart    = "S300" // the command could not be started
	CodeTarget   = "S400" // a target that does not serve
)

func invalid(message, fix string) *Error {
	return &Error{Code: CodeInvalid, Type: "invalid_request", Message: message, Fix: fix}
}
