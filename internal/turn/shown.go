package turn

import (
	"context"
	"encoding/json"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/internal/kernel"
	"github.com/iii-aws/harness/internal/turn/step"
)

// shown makes the results of functions that show a model only what it may see:
// the catalogue of functions without those that policy denies. special is
// false for all other functions.
func (c checker) shown(ctx context.Context, call step.Call, reply json.RawMessage) (o step.Outcome, special bool) {
	if call.FunctionID != "engine::functions::list" && call.FunctionID != "engine::functions::info" {
		return o, false
	}
	var m map[string]json.RawMessage
	if json.Unmarshal(reply, &m) != nil {
		return step.FromReply(reply), true
	}
	if raw, ok := m["function_id"]; ok {
		var id string
		if json.Unmarshal(raw, &id) == nil && !c.visible(ctx, id) {
			return step.FromError(call, "NOT_FOUND", "Function "+id+" not found."), true
		}
		return step.FromReply(reply), true
	}
	var rows []json.RawMessage
	if json.Unmarshal(m["functions"], &rows) != nil {
		return step.FromReply(reply), true
	}
	m["functions"] = encode(c.keepVisible(ctx, rows))
	return step.FromReply(encode(m)), true
}

// keepVisible leaves out the rows of functions that are denied.
func (c checker) keepVisible(ctx context.Context, rows []json.RawMessage) []json.RawMessage {
	keep := make([]bool, len(rows))
	slots := make(chan struct{}, c.t.cfg.MaxParallelCalls)
	var all group
	for i, raw := range rows {
		var row struct {
			FunctionID string `json:"function_id"`
		}
		if json.Unmarshal(raw, &row) != nil {
			continue
		}
		slots <- struct{}{}
		all.run(func() {
			defer func() { <-slots }()
			keep[i] = c.visible(ctx, row.FunctionID)
		})
	}
	if err := all.wait(); err != nil {
		c.t.Logger.Error("functions not shown", "error", err)
	}
	out := []json.RawMessage{}
	for i, raw := range rows {
		if keep[i] {
			out = append(out, raw)
		}
	}
	return out
}

// visible reports whether an agent may know a function: neither the kernel nor
// policy denies it whatever its arguments.
func (c checker) visible(ctx context.Context, functionID string) bool {
	entry, _ := c.t.Directory.Lookup(bus.DefaultNamespace, functionID)
	if _, denied := kernel.Deny(functionID, entry.Meta); denied {
		return false
	}
	if c.t.cfg.PolicyNone {
		return true
	}
	v := c.policy(ctx, step.Call{FunctionID: functionID, Arguments: step.Value{Raw: json.RawMessage("{}")}})
	return v.denied == nil
}

// foreignBlob reports whether a call asks for a blob of another session.
func (c checker) foreignBlob(ctx context.Context, call step.Call) bool {
	if call.FunctionID != "blob::read" {
		return false
	}
	var req struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(call.Arguments.Raw, &req) != nil || req.ID == "" {
		return false // blob::read says what is wrong
	}
	_, session, err := c.t.Blobs.Stat(ctx, req.ID)
	return err != nil || session != c.session
}
