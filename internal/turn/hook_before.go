package turn

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/redact"
	"github.com/iii-aws/harness/internal/turn/step"
)

// routing is the envelope that hooks get: the arguments, and who calls what.
func (c checker) routing(call step.Call) json.RawMessage {
	members := map[string]json.RawMessage{}
	if json.Unmarshal(call.Arguments.Raw, &members) != nil || members == nil {
		members = map[string]json.RawMessage{"arguments": call.Arguments.Raw}
	}
	members["session_id"] = encode(c.session)
	members["function_call_id"] = encode(call.ID)
	members["function_id"] = encode(call.FunctionID)
	members["function_call"] = encode(map[string]any{
		"id": call.ID, "function_id": call.FunctionID, "arguments": call.Arguments.Raw,
	})
	return encode(members)
}

type hookReply struct {
	Replies       []json.RawMessage `json:"replies"`
	PublishFailed bool              `json:"publish_failed"`
}

// before asks the before-hook. It answers with new arguments, nil for none, or
// with a denial; what is no clear answer is one.
func (c checker) before(ctx context.Context, call step.Call) (json.RawMessage, *step.Outcome) {
	n := c.t.subscribers(ctx, TopicBefore)
	if n == 0 {
		if slices.Contains(c.t.cfg.RequiredHooks, TopicBefore) {
			return nil, c.unreachable("hook unreachable: nobody subscribes to the required topic "+TopicBefore, call).denied
		}
		return nil, nil
	}
	payload := map[string]any{
		"topic": TopicBefore, "merge_rule": "first_block_wins", "payload": c.routing(call),
		"timeout_ms": c.t.cfg.HookTimeout.Milliseconds(),
	}
	if n > 0 {
		// All of them are asked: a slow one must not be cut off by a quick one.
		payload["expected_replies"], payload["quiescence_ms"] = n, 0
	}
	raw, err := c.t.within(ctx, bus.Invocation{
		FunctionID: "hook-fanout::publish_collect", Data: encode(payload), Principal: &c.principal,
		Timeout: c.t.cfg.HookTimeout + c.t.cfg.HookTimeout/5,
	})
	if err != nil {
		code, message := describe(err)
		return nil, c.unreachable("hook unreachable: "+code+": "+message, call).denied
	}
	var r hookReply
	if json.Unmarshal(raw, &r) != nil || r.PublishFailed {
		return nil, c.unreachable("hook unreachable: the topic could not be published", call).denied
	}
	if len(r.Replies) == 0 || len(r.Replies) < n {
		c.t.forget(TopicBefore)
		return nil, c.unreachable("hook unreachable: not every subscriber answered in time", call).denied
	}
	return c.judge(r.Replies, call)
}

// judge reads the replies of a before-hook.
func (c checker) judge(replies []json.RawMessage, call step.Call) (json.RawMessage, *step.Outcome) {
	var args json.RawMessage
	var blocked *step.Outcome
	for _, raw := range replies {
		var r struct {
			Block     *bool           `json:"block"`
			Reason    string          `json:"reason"`
			Arguments json.RawMessage `json:"arguments"`
		}
		err := json.Unmarshal(raw, &r)
		changes := len(r.Arguments) > 0 && r.Arguments[0] == '{'
		switch {
		case err != nil, r.Block == nil && !changes, len(r.Arguments) > 0 && !changes:
			return nil, c.unreachable("hook unreachable: a reply cannot be read", call).denied
		case r.Block != nil && *r.Block && blocked == nil:
			blocked = c.blocked(r.Reason, call)
		case changes:
			args = r.Arguments
		}
	}
	if blocked != nil {
		return nil, blocked
	}
	return args, nil
}

func (c checker) blocked(reason string, call step.Call) *step.Outcome {
	if reason == "" {
		reason = "blocked by a hook"
	}
	o := step.Denial{
		By: step.DeniedByHook, FunctionID: call.FunctionID, Excerpt: redact.Excerpt(call.Arguments.Raw), Reason: redact.Text(reason),
	}.Outcome()
	return &o
}
