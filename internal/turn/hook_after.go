package turn

import (
	"bytes"
	"encoding/json"
	"sync"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/internal/agent"
)

// after asks the after-hook about the results of a finished batch and gives
// those that it replaced. A hook that fails changes nothing.
func (d *driver) after() map[string]agent.FunctionResult {
	if d.t.subscribers(d.work, TopicAfter) == 0 {
		return nil
	}
	var mu sync.Mutex
	var all group
	changed := map[string]agent.FunctionResult{}
	for id, res := range d.rec.Results() {
		p := d.rec.Call(id)
		payload := encode(map[string]any{
			"function_call": agent.FunctionCall{ID: id, FunctionID: p.Call.FunctionID, Arguments: p.Call.Arguments.Raw},
			"result":        res,
		})
		principal := d.rec.Principal
		all.run(func() {
			own, ok := d.t.merged(d, principal, payload)
			if !ok {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			changed[id] = keepUnset(own, res)
		})
	}
	if err := all.wait(); err != nil {
		d.t.Logger.Error("after-hook panicked, results stay", "session", d.rec.SessionID, "error", err)
	}
	return changed
}

// merged asks the after-hook about one result.
func (t *Turn) merged(d *driver, p bus.Principal, payload json.RawMessage) (json.RawMessage, bool) {
	raw, err := t.within(d.ctx, bus.Invocation{
		FunctionID: "hook-fanout::publish_collect", Principal: &p, Timeout: t.cfg.AfterHookTimeout + 500*time.Millisecond,
		Data: encode(map[string]any{
			"topic": TopicAfter, "payload": payload, "merge_rule": "field_merge", "timeout_ms": t.cfg.AfterHookTimeout.Milliseconds(),
		}),
	})
	if err != nil {
		t.Logger.Warn("after-hook failed, the result stays", "error", clean(err))
		return nil, false
	}
	var r struct {
		Merged json.RawMessage `json:"merged"`
	}
	var m struct {
		Content []agent.Block `json:"content"`
	}
	if json.Unmarshal(raw, &r) != nil || json.Unmarshal(r.Merged, &m) != nil || m.Content == nil {
		return nil, false
	}
	return r.Merged, true
}

// keepUnset is the merged result; what the hook did not say stays.
func keepUnset(merged json.RawMessage, old agent.FunctionResult) agent.FunctionResult {
	var m struct {
		Content   []agent.Block   `json:"content"`
		Details   json.RawMessage `json:"details"`
		Terminate *bool           `json:"terminate"`
	}
	if json.Unmarshal(merged, &m) != nil {
		return old
	}
	old.Content = m.Content
	if len(m.Details) > 0 && !bytes.Equal(m.Details, []byte("null")) {
		old.Details = m.Details
	}
	if m.Terminate != nil {
		old.Terminate = *m.Terminate
	}
	return old
}
