package turn

import (
	"context"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/internal/turn/step"
)

// Endpoints is the functions of the worker, by id.
func (t *Turn) Endpoints() map[string]bus.Endpoint {
	abort := bus.Unwrapped(bus.Typed(t.abort))
	out := map[string]bus.Endpoint{
		"run::start":                 bus.Unwrapped(bus.Typed(t.start)),
		"run::abort":                 abort,
		"router::abort":              abort,
		"turn::get_state":            bus.Unwrapped(bus.Typed(t.getState)),
		FunctionStep:                 bus.Typed(t.step),
		"turn::on_approval":          bus.Typed(t.onApproval),
		"turn::is_approval_decision": bus.Typed(t.isApprovalDecision),
		"turn::on_call_result":       bus.Typed(t.onCallResult),
		"turn::pending_call":         bus.Typed(t.pendingCall),
		"turn::on_dead_letter":       bus.Typed(t.onDeadLetter),
		"turn::sweep":                bus.Typed(t.sweep),
	}
	for _, s := range []step.State{step.Provisioning, step.Streaming, step.Executing, step.Awaiting, step.Steering} {
		out["turn::"+string(s)] = bus.Typed(func(ctx context.Context, call *bus.Call, req SessionRequest) (StepResponse, error) {
			return t.byName(ctx, call, s, req)
		})
	}
	return out
}

// SessionRequest names a session.
type SessionRequest struct {
	SessionID string `json:"session_id"`
}

// Validate names a missing field.
func (r SessionRequest) Validate() error {
	if r.SessionID == "" {
		return bus.Missing("session_id")
	}
	return nil
}
