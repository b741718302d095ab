package strict

import (
	"fmt"
	"strings"
)

// Error is one mistake in a file.
type Error struct {
	File string
	// Line is 0 if the mistake has no place.
	Line int
	// Field is the path of the key, such as "turn.shards"; empty for the
	// document.
	Field string
	// Problem says what is wrong, Allowed what would be right.
	Problem string
	Allowed string
	Err     error
}

// Error is one line: "file:line: field: problem; allowed: what is".
func (e *Error) Error() string {
	s := e.File
	if e.Line > 0 {
		s = fmt.Sprintf("%s:%d", s, e.Line)
	}
	if e.Field != "" {
		s += ": " + e.Field
	}
	s += ": " + e.Problem
	if e.Allowed != "" {
		s += "; allowed: " + e.Allowed
	}
	return oneLine.Replace(s)
}

// oneLine keeps an error a line, whatever it quotes.
var oneLine = strings.NewReplacer("\n", `\n`, "\r", `\r`)

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }

// ErrorCode is invalid_config.
func (e *Error) ErrorCode() string { return "invalid_config" }

// Retryable is false: a person has to correct the file.
func (e *Error) Retryable() bool { return false }

// Checker is implemented by values that check themselves. Problem and allowed
// are both empty if the value is good.
type Checker interface {
	Check() (problem, allowed string)
}
