package turn

import (
	"fmt"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/redact"
)

// clean is the text of an error without secrets.
func clean(err error) string { return redact.Text(err.Error()) }

// panicError is a recovered panic as an error without secrets.
func panicError(v any) error {
	return &bus.Error{Code: "panic", Message: redact.Panic(v)}
}

// describe is code and message of a call's error, without secrets and without
// the prefixes that hops put in front.
func describe(err error) (code, message string) {
	e := bus.AsError(err)
	return e.Code, redact.Text(stripHops(e.Message))
}

// notFound reports whether nobody serves a function.
func notFound(err error) bool {
	return err != nil && bus.Code(err) == protocol.CodeFunctionNotFound
}

var hops = []string{"IIIInvocationError: ", "IIIInvocationError:", "invocation_failed: ", "invocation_failed:"}

func stripHops(s string) string {
	for again := true; again; {
		again = false
		for _, h := range hops {
			if len(s) > len(h) && s[:len(h)] == h {
				s, again = s[len(h):], true
			}
		}
	}
	return s
}

func quote(s string) string { return fmt.Sprintf("%q", redact.Name(s)) }
