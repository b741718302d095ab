package turn

import (
	"context"
	"encoding/json"

	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
	"github.com/iii-aws/harness/internal/turn/step"
)

// arrivals are the rows that came for calls that wait.
type arrivals struct {
	decisions map[string]agent.Decision
	results   map[string]agent.CallResult
}

// readArrivals reads the rows that the waiting calls of the record have,
// strongly consistent. Rows of another run, and decisions on other arguments,
// do not count.
func (d *driver) readArrivals() (arrivals, error) {
	a := arrivals{decisions: map[string]agent.Decision{}, results: map[string]agent.CallResult{}}
	for i := range d.rec.AwaitingApproval {
		w := &d.rec.AwaitingApproval[i]
		dec, ok, err := readDecision(d.ctx, d.t, d.rec, w)
		if err != nil {
			return a, err
		}
		if ok {
			a.decisions[w.FunctionCallID] = dec
		}
	}
	for _, w := range d.rec.AwaitingResult {
		res, ok, err := d.t.readResult(d.ctx, d.rec.SessionID, d.rec.Run, w.FunctionCallID)
		if err != nil {
			return a, err
		}
		if ok {
			a.results[w.FunctionCallID] = res
		}
	}
	return a, nil
}

// readDecision reads the decision on a call, if it is one on this call as it
// was shown.
func readDecision(ctx context.Context, t *Turn, rec *step.Record, w *step.ApprovalWait) (agent.Decision, bool, error) {
	var dec agent.Decision
	ok, err := t.readRow(ctx, agent.ScopeApprovals, rec.SessionID+"/"+w.FunctionCallID, &dec)
	if err != nil || !ok {
		return dec, false, err
	}
	args, err := t.text(ctx, w.Args)
	if err != nil {
		return dec, false, err
	}
	if dec.Run != rec.Run || dec.ArgsHash != step.ArgsHash(w.FunctionID, args) {
		t.Logger.Warn("decision on another call ignored", "session", rec.SessionID, "call", w.FunctionCallID)
		return dec, false, nil
	}
	switch dec.Decision {
	case agent.DecisionAllow, agent.DecisionDeny, agent.DecisionAborted:
		return dec, true, nil
	}
	return dec, false, nil
}

// readResult reads the stored result of a call of a run.
func (t *Turn) readResult(ctx context.Context, session, run, call string) (agent.CallResult, bool, error) {
	var res agent.CallResult
	ok, err := t.readRow(ctx, agent.ScopeCallResults, session+"/"+call, &res)
	return res, ok && res.Run == run, err
}

// readRow reads a row; one that cannot be read counts as absent, and is told.
func (t *Turn) readRow(ctx context.Context, scope, key string, dst any) (bool, error) {
	item, ok, err := t.State.Get(ctx, state.Key{Scope: scope, Key: key})
	if err != nil || !ok {
		return false, err
	}
	if err := json.Unmarshal(item.Value, dst); err != nil {
		t.Logger.Error("row cannot be read", "scope", scope, "key", key, "error", err)
		return false, nil
	}
	return true, nil
}

// text is a value's text, wherever it is kept.
func (t *Turn) text(ctx context.Context, v step.Value) (json.RawMessage, error) {
	if v.Loaded() {
		return v.Raw, nil
	}
	return t.readBlob(ctx, v.Ref.ID)
}
