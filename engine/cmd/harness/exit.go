package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/client"
	"github.com/iii-aws/harness/engine/redact"
)

// The exit codes.
const (
	exitDone         = 0
	exitFailed       = 1
	exitUsage        = 2
	exitParked       = 3
	exitTurnError    = 4
	exitAborted      = 5
	exitLimit        = 6
	exitBusy         = 7
	exitUnreachable  = 10
	exitUnauthorized = 11
	exitInterrupted  = 130
)

// exitError ends the command with a code and says nothing more.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit %d", int(e)) }

// usageError is wrong usage.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// failure is an error with its stable code and a line that says what to do.
type failure struct {
	code, message, hint string
	exit                int
	err                 error
}

func (e *failure) Error() string { return e.code + ": " + e.message }
func (e *failure) Unwrap() error { return e.err }

// report prints an error as people and scripts expect it and gives the exit
// code.
func (e environment) report(ctx context.Context, err error) int {
	var quiet exitError
	if err == nil {
		return exitDone
	}
	if errors.As(err, &quiet) {
		return int(quiet)
	}
	var usage *usageError
	if errors.As(err, &usage) {
		fmt.Fprintf(e.stderr, "error: usage: %s\n", usage.text)
		return exitUsage
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return exitInterrupted
	}
	f := explain(err)
	fmt.Fprintf(e.stderr, "error: %s: %s\n", f.code, oneLine(redact.Text(f.message)))
	if f.hint != "" {
		// Hints are written with the plain name of the program.
		fmt.Fprintf(e.stderr, "hint: %s\n", strings.ReplaceAll(f.hint, "harness ", e.name()+" "))
	}
	return f.exit
}

// explain finds the code, the text and the advice for an error.
func explain(err error) *failure {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	var connect *client.ConnectError
	if errors.As(err, &connect) {
		if connect.Unauthorized() {
			return &failure{code: "unauthorized", message: "the server refused the token", exit: exitUnauthorized,
				hint: "pass --token or set HARNESS_TOKEN; harness token create makes one"}
		}
		return &failure{code: "unreachable", message: connect.Error(), exit: exitUnreachable,
			hint: "start the server with: harness dev; or name it with --url"}
	}
	e := bus.AsError(err)
	out := &failure{code: e.Code, message: e.Message, exit: exitFailed}
	switch e.Code {
	case "FORBIDDEN", "UNAUTHORIZED":
		out.exit = exitUnauthorized
	case "function_not_found":
		out.hint = "harness functions lists what the bus serves now"
	}
	return out
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
