package sdk

import (
	"fmt"
	"testing"
)

// TestNoResultIsLost makes many calls of a callee that answers at once. The
// engine of the recording lost one in a few hundred results so.
func TestNoResultIsLost(t *testing.T) {
	repeats(t, "34-lost-result", "31-nagle")
	pair(t, func(t *testing.T, l Language, s *Server) {
		const calls = 2000
		callee := attach(t, l, s, "callee")
		callee.function("fast::echo", "echo")
		served(t, dial(t, s), "fast::echo", true)
		caller := attach(t, l, s, "caller")
		same(t, "right answers", caller.do("many", args{"function_id": "fast::echo", "count": calls}), fmt.Sprint(calls))
	})
}
