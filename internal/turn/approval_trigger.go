package turn

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
	"github.com/iii-aws/harness/internal/turn/step"
)

// ChangeEvent is what a state trigger delivers.
type ChangeEvent struct {
	EventType string          `json:"event_type"`
	Key       string          `json:"key"`
	NewValue  json.RawMessage `json:"new_value"`
}

// OK is the result of functions that only do something.
type OK struct {
	OK bool `json:"ok"`
}

// split is the session and the call of a row's key.
func (e ChangeEvent) split() (session, call string, ok bool) {
	session, call, ok = strings.Cut(e.Key, "/")
	return session, call, ok && session != "" && call != "" && !strings.Contains(call, "/")
}

// isApprovalDecision serves turn::is_approval_decision: whether a change of
// scope approvals is a decision on a call.
func (t *Turn) isApprovalDecision(_ context.Context, _ *bus.Call, e ChangeEvent) (bool, error) {
	if e.EventType != string(state.Created) && e.EventType != string(state.Updated) {
		return false, nil
	}
	if _, _, ok := e.split(); !ok {
		return false, nil
	}
	var row struct {
		Decision string `json:"decision"`
	}
	if json.Unmarshal(e.NewValue, &row) != nil {
		return false, nil
	}
	switch row.Decision {
	case agent.DecisionAllow, agent.DecisionDeny, agent.DecisionAborted:
		return true, nil
	}
	return false, nil
}

// onApproval serves turn::on_approval: it wakes the turn of a decision. A
// decision on a session without a turn is dropped.
func (t *Turn) onApproval(ctx context.Context, call *bus.Call, e ChangeEvent) (OK, error) {
	if decision, err := t.isApprovalDecision(ctx, call, e); err != nil || !decision {
		return OK{OK: true}, err
	}
	return t.wakeFor(ctx, e, "approval")
}

// onCallResult serves turn::on_call_result: it tells a running step of a stored
// result and wakes the turn.
func (t *Turn) onCallResult(ctx context.Context, _ *bus.Call, e ChangeEvent) (OK, error) {
	session, _, ok := e.split()
	if !ok || (e.EventType != string(state.Created) && e.EventType != string(state.Updated)) {
		return OK{OK: true}, nil
	}
	if _, err := state.Do(ctx, t.State, state.Update(agent.ScopeControl, session, rise())); err != nil {
		return OK{}, err
	}
	return t.wakeFor(ctx, e, "result")
}

// wakeFor wakes the turn that a row is for.
func (t *Turn) wakeFor(ctx context.Context, e ChangeEvent, why string) (OK, error) {
	session, callID, _ := e.split()
	var row struct {
		Run string `json:"run"`
	}
	if err := json.Unmarshal(e.NewValue, &row); err != nil {
		return OK{}, bus.Invalid("new_value", "an object with a run")
	}
	rec, err := t.load(ctx, session)
	var newer *step.NewerError
	if err != nil && !errors.As(err, &newer) {
		return OK{}, err
	}
	if rec == nil {
		t.Logger.Warn("row for a session without a turn", "session", session, "call", callID, "cause", why)
		return OK{OK: true}, nil
	}
	cause := why + ":" + callID + repeat(rec.Ledger[callID].Attempt, e.NewValue)
	_, err = t.wake(ctx, rec.Principal, StepRequest{SessionID: session, Run: row.Run, Cause: cause}).Wait(ctx)
	return OK{OK: err == nil}, err
}

// repeat is what the cause of a wake ends with once a call has been repeated:
// the queue would take the wake for the repeat's row for that of the first row,
// and the turn would sleep until the sweep. The row is in it, since the trigger
// of an earlier row may run late.
func repeat(attempt int64, row json.RawMessage) string {
	if attempt <= 1 {
		return ""
	}
	sum := sha256.Sum256(row)
	return fmt.Sprintf(":%d:%x", attempt, sum[:8])
}
