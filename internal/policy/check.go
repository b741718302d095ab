package policy

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/iii-aws/harness/engine/bus"
)

// Request is policy::check_permissions.
type Request struct {
	FunctionID string          `json:"function_id"`
	Args       json.RawMessage `json:"args,omitempty"`
}

// Validate names the first wrong field.
func (r Request) Validate() error {
	if r.FunctionID == "" {
		return bus.Missing("function_id")
	}
	if a := bytes.TrimSpace(r.Args); len(a) > 0 && a[0] != '{' {
		return bus.Invalid("args", "an object")
	}
	return nil
}

// Endpoint is policy::check_permissions over the rules that are current now.
// Meta tells what a function's registration says; nil means nothing.
func Endpoint(current func() *Rules, meta func(functionID string) bus.Meta) bus.Endpoint {
	if meta == nil {
		meta = func(string) bus.Meta { return bus.Meta{} }
	}
	return bus.Typed(func(_ context.Context, _ *bus.Call, r Request) (Decision, error) {
		return current().Decide(r.FunctionID, r.Args, meta(r.FunctionID)).answer(), nil
	})
}
