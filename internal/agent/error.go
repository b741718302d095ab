package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
)

// MessageError is a message that cannot be read or written.
type MessageError struct {
	// Field is the path of the member, such as "content[1].text"; "message" for
	// the whole.
	Field string
	// Allowed says what may stand there, Got what did.
	Allowed, Got string
	Err          error
}

// Error is the text of the error.
func (e *MessageError) Error() string {
	return fmt.Sprintf("agent: invalid message: %s is %q, must be %s", e.Field, e.Got, e.Allowed)
}

// Unwrap is the cause.
func (e *MessageError) Unwrap() error { return e.Err }

// ErrorCode is invalid_payload.
func (e *MessageError) ErrorCode() string { return "invalid_payload" }

// Retryable is false: the same message stays wrong.
func (e *MessageError) Retryable() bool { return false }

// decode reads the members of an object at a path. Errors: *MessageError.
func decode(data []byte, v any, path string) error {
	err := json.Unmarshal(data, v)
	if err == nil {
		return nil
	}
	var t *json.UnmarshalTypeError
	if !errors.As(err, &t) {
		return &MessageError{Field: or(path, "message"), Allowed: "valid JSON", Got: clip(string(data)), Err: err}
	}
	// The cause says no more, and its field is that of a part.
	return &MessageError{Field: or(join(path, t.Field), "message"), Allowed: allowed(t.Type), Got: t.Value}
}

func allowed(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	case reflect.Int64, reflect.Float64:
		return "a number"
	default:
		return "an object"
	}
}

func join(path, field string) string {
	if path == "" || field == "" {
		return path + field
	}
	return path + "." + field
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// clip keeps errors short, whatever they quote.
func clip(s string) string {
	const most = 40
	n := 0
	for i := range s {
		if n == most {
			return s[:i] + "…"
		}
		n++
	}
	return s
}
