package web

import (
	"encoding/json"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/internal/input"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/trigger"
)

// verdict is what middleware answers.
type verdict struct {
	Action   string          `json:"action"`
	Response json.RawMessage `json:"response,omitempty"`
}

// middleware asks functions in their order and reports whether the request goes on. Otherwise it has been answered: a
// middleware that cannot say that it may go on ends it.
func (e *exchange) middleware(ids []string, global bool) bool {
	if len(ids) == 0 {
		return true
	}
	data, err := bus.Encode(e.preHandler())
	if err != nil {
		e.fail(err, true)
		return false
	}
	b := e.route.binding
	if global {
		// The configuration names it, for all routes: whose they are does not matter.
		b.External, b.Namespace = false, bus.DefaultNamespace
	}
	for _, id := range ids {
		result, err := e.call(id, trigger.Firing{Payload: data}, b)
		if err != nil {
			e.fail(err, true)
			return false
		}
		var v verdict
		if detail := input.Read(result, &v); detail != "" || v.Action != "continue" && v.Action != "respond" {
			e.fail(&bus.Error{Code: protocol.CodeInvalidResponse, Message: "The middleware " + id + " must answer with the action continue or respond"}, true)
			return false
		}
		if v.Action == "respond" {
			e.answer(v.Response)
			return false
		}
	}
	return true
}
