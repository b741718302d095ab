package turn

import (
	"errors"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/redact"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
	"github.com/iii-aws/harness/internal/turn/step"
)

// resume settles what an earlier delivery left: calls that were started and
// lost, waits that are over, rows that have come.
func (b *batch) resume() error {
	d := b.d
	for _, id := range d.rec.Open() {
		if !d.rec.Started(id) || d.rec.Approval(id) != nil || d.rec.Waited(id) != nil {
			continue
		}
		call := d.rec.Call(id).Call
		row, ok, err := d.t.readResult(d.ctx, d.rec.SessionID, d.rec.Run, id)
		if err != nil {
			return transient(CodeStorage, err)
		}
		_, meta := b.c.deadline(call.FunctionID)
		switch {
		case ok:
			if err := b.arrived(id, row); err != nil {
				return err
			}
		case meta.Idempotent:
			b.ready = append(b.ready, id)
		default:
			d.rec.Resolved(id, step.Unknown(call), 0, d.t.nowMS())
		}
	}
	if len(d.rec.AwaitingApproval)+len(d.rec.AwaitingResult) == 0 {
		return nil
	}
	return b.overdue()
}

// look reads the control item and the rows of calls that wait.
func (b *batch) look() error {
	d := b.d
	if err := d.readControl(); err != nil {
		return transient(CodeStorage, err)
	}
	if err := d.holds(); err != nil {
		return err
	}
	b.seen = d.control.Rev
	come, err := d.readArrivals()
	if err != nil {
		return transient(CodeStorage, err)
	}
	for id, row := range come.results {
		if err := b.arrived(id, row); err != nil {
			return err
		}
	}
	for id, dec := range come.decisions {
		b.decided(id, dec)
	}
	return nil
}

// decided acts on a decision. A call that was allowed is checked once more
// before it runs.
func (b *batch) decided(id string, dec agent.Decision) {
	d := b.d
	if b.checking[id] || d.rec.Approval(id) == nil {
		return
	}
	if dec.Decision == agent.DecisionAllow {
		b.check(id, true)
		return
	}
	reason := "denied"
	if dec.Decision == agent.DecisionAborted {
		reason = step.ReasonAborted
	}
	if dec.Reason != nil && *dec.Reason != "" {
		reason = redact.Text(*dec.Reason)
	}
	call := d.rec.Call(id).Call
	b.changed = true
	d.rec.Resolved(id, step.Denial{
		By: step.DeniedByUser, FunctionID: call.FunctionID, Excerpt: redact.Excerpt(call.Arguments.Raw),
		Reason: reason, Decision: dec.Decision,
	}.Outcome(), 0, d.t.nowMS())
}

// arrived takes the stored result of a call.
func (b *batch) arrived(id string, row agent.CallResult) error {
	d := b.d
	call := d.rec.Call(id).Call
	_, meta := b.c.deadline(call.FunctionID)
	var err error
	if row.Error != nil {
		err = &bus.Error{Code: row.Error.Code, Message: row.Error.Message}
	}
	if err != nil && step.Ambiguous(row.Error.Code) && meta.Idempotent && d.rec.Ledger[id].Attempt <= repeats {
		return b.again(id)
	}
	took := max(row.AtMS-d.rec.Ledger[id].At, 0)
	b.changed = true
	d.rec.Resolved(id, b.c.result(b.ctx, call, meta, row.Result, err), took, d.t.nowMS())
	return nil
}

// again dispatches a call to an idempotent target once more, because the
// connection was lost. Its row goes, so that the repeat can write one.
func (b *batch) again(id string) error {
	d := b.d
	if _, err := state.Do(d.ctx, d.t.State, state.Delete(agent.ScopeCallResults, d.rec.SessionID+"/"+id)); err != nil {
		return transient(CodeStorage, err)
	}
	d.rec.Unwait(id)
	b.ready = append(b.ready, id)
	return nil
}

// overdue ends the waits whose time is up, unless somebody was quicker, and
// takes what has come.
func (b *batch) overdue() error {
	d, now := b.d, b.d.t.nowMS()
	for _, w := range d.rec.AwaitingResult {
		if w.DeadlineMS > now {
			continue
		}
		err := b.first(agent.ScopeCallResults, w.FunctionCallID, agent.CallResult{
			Run: d.rec.Run, Source: "deadline", AtMS: now,
			Error: &agent.CallError{Code: protocol.CodeTimeout, Message: "Timeout: no result came before the deadline"},
		})
		if err != nil {
			return err
		}
	}
	for _, w := range d.rec.AwaitingApproval {
		if w.ExpiresAt == 0 || w.ExpiresAt > now {
			continue
		}
		reason := "expired"
		err := b.first(agent.ScopeApprovals, w.FunctionCallID, agent.Decision{
			Decision: agent.DecisionDeny, Reason: &reason, DecidedBy: "harness", DecidedAt: now, Run: d.rec.Run,
			ArgsHash: step.ArgsHash(w.FunctionID, w.Args.Raw),
		})
		if err != nil {
			return err
		}
	}
	return b.look()
}

// first writes a row unless there is one.
func (b *batch) first(scope, call string, row any) error {
	d := b.d
	w := state.Set(scope, d.rec.SessionID+"/"+call, encode(row)).IfAbsent()
	w.Origin = origin(d.ctx, d.rec.Principal)
	_, err := state.Do(d.ctx, d.t.State, w)
	var conflict *state.ConflictError
	if err != nil && !errors.As(err, &conflict) {
		return transient(CodeStorage, err)
	}
	d.t.Stats.Waited(d.rec.SessionID, scope)
	return nil
}

// servedHere reports whether a function is served by a built-in worker.
func (t *Turn) servedHere(functionID string) bool {
	e, ok := t.Directory.Lookup(bus.DefaultNamespace, functionID)
	return ok && e.Kind == bus.KindBuiltin
}
