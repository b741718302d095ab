package turn

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/redact"
	"github.com/iii-aws/harness/internal/turn/step"
)

// PendingRequest names a call.
type PendingRequest struct {
	SessionID      string `json:"session_id"`
	FunctionCallID string `json:"function_call_id"`
}

// Validate names a missing field.
func (r PendingRequest) Validate() error {
	switch "" {
	case r.SessionID:
		return bus.Missing("session_id")
	case r.FunctionCallID:
		return bus.Missing("function_call_id")
	}
	return nil
}

// Pending is what a decision on a call is bound to.
type Pending struct {
	Run      string `json:"run"`
	ArgsHash string `json:"args_hash"`
	// FunctionID and ArgsExcerpt are what a grant shows.
	FunctionID  string          `json:"function_id"`
	ArgsExcerpt json.RawMessage `json:"args_excerpt"`
}

// pendingCall serves turn::pending_call: a call that waits for a person, or is
// prepared and may come to; null for any other.
func (t *Turn) pendingCall(ctx context.Context, _ *bus.Call, req PendingRequest) (*Pending, error) {
	rec, err := t.load(ctx, req.SessionID)
	var newer *step.NewerError
	if err != nil && !errors.As(err, &newer) {
		return nil, err
	}
	if rec == nil || rec.State.Terminal() {
		return nil, nil
	}
	id := req.FunctionCallID
	functionID, args, ok := "", step.Value{}, false
	if w := rec.Approval(id); w != nil {
		functionID, args, ok = w.FunctionID, w.Args, true
	} else if p := rec.Call(id); p != nil && p.Route == step.Dispatch && !rec.Done(id) && !rec.Started(id) {
		functionID, args, ok = p.Call.FunctionID, p.Call.Arguments, true
	}
	if !ok {
		return nil, nil
	}
	text, err := t.text(ctx, args)
	if err != nil {
		return nil, err
	}
	return &Pending{Run: rec.Run, ArgsHash: step.ArgsHash(functionID, text), FunctionID: functionID, ArgsExcerpt: redact.Excerpt(text)}, nil
}
