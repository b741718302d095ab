package web

import (
	"context"
	"net/http"
	"regexp"
	"strings"

	"github.com/iii-aws/harness/engine/bus"
)

// maxBaggage is the most that https://www.w3.org/TR/baggage/ has a system take, in bytes.
const maxBaggage = 8192

var traceparentForm = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// traced puts the trace of a request where calls of the bus find it. What is malformed counts as absent.
func traced(ctx context.Context, h http.Header) context.Context {
	parent, baggage := h.Get("Traceparent"), strings.Join(h.Values("Baggage"), ",")
	if len(h.Values("Traceparent")) != 1 || !traceparentForm.MatchString(parent) || strings.HasPrefix(parent, "ff") ||
		strings.Trim(parent[3:35], "0") == "" || strings.Trim(parent[36:52], "0") == "" {
		parent = ""
	}
	if len(baggage) > maxBaggage || strings.ContainsFunc(baggage, func(r rune) bool { return r < ' ' && r != '\t' || r > '~' }) {
		baggage = ""
	}
	if parent == "" && baggage == "" {
		return ctx
	}
	return bus.WithCall(ctx, &bus.Call{Traceparent: parent, Baggage: baggage})
}
