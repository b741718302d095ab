package timer

import "fmt"

// InvalidError is a timer that cannot be set.
type InvalidError struct{ Field, Allowed string }

// Error is the text of the error.
func (e *InvalidError) Error() string {
	return fmt.Sprintf("timer: invalid %s: must be %s", e.Field, e.Allowed)
}

// ErrorCode is invalid_payload.
func (e *InvalidError) ErrorCode() string { return "invalid_payload" }
