package step

import (
	"encoding/json"
	"slices"

	"github.com/iii-aws/harness/internal/agent"
)

// Announce emits the start of a call, once.
func (r *Record) Announce(id string) {
	p := r.Call(id)
	if p == nil || p.Announced {
		return
	}
	p.Announced = true
	r.emit(Event{
		Type: agent.EventExecutionStart, CallID: id, Function: p.Call.FunctionID,
		Assistant: "a:" + r.LastAssistantID, Block: p.Block,
	})
}

// Rewrite replaces the arguments of a call that was not shown to anybody yet.
func (r *Record) Rewrite(id string, args json.RawMessage) {
	if p := r.Call(id); p != nil {
		p.Call.Arguments = Value{Raw: args}
	}
}

// Ask makes a call wait for a person. ExpiresAt 0 waits for ever. The caller
// tells of it with Tell when it has asked for all it can.
func (r *Record) Ask(id string, excerpt json.RawMessage, expiresAt, now int64) {
	p := r.Call(id)
	if p == nil || r.Done(id) || r.Approval(id) != nil {
		return
	}
	r.AwaitingApproval = append(r.AwaitingApproval, ApprovalWait{
		FunctionCallID: id, FunctionID: p.Call.FunctionID, Args: p.Call.Arguments, RequestedAt: now, ExpiresAt: expiresAt,
	})
	slices.SortStableFunc(r.AwaitingApproval, func(a, b ApprovalWait) int {
		return r.position(a.FunctionCallID) - r.position(b.FunctionCallID)
	})
	r.setRow(agent.ScopeApprovalReqs, r.SessionID+"/"+id, agent.ApprovalRequest{
		SessionID: r.SessionID, FunctionCallID: id, FunctionID: p.Call.FunctionID, ArgsExcerpt: excerpt,
		RequestedAt: now, RequestedBy: r.Principal.Actor(), ExpiresAt: expiresAt,
	})
	if expiresAt > 0 {
		r.setTimer(TimerID(r.SessionID, r.Run, "approval", id), expiresAt)
	}
}

// position is where a call stands in its batch.
func (r *Record) position(id string) int {
	return slices.IndexFunc(r.Work.Prepared, func(p Prepared) bool { return p.Call.ID == id })
}

// Tell emits the view as it is now.
func (r *Record) Tell(now int64) { r.tell(now) }

// Approve takes a call that a person allowed out of its wait.
func (r *Record) Approve(id string) {
	if p := r.Call(id); p != nil && r.answered(id) {
		p.Route = PreApproved
	}
}

// answered takes a call out of awaiting_approval; false if it was not there.
func (r *Record) answered(id string) bool {
	w := r.Approval(id)
	if w == nil {
		return false
	}
	if w.ExpiresAt > 0 {
		r.cancelTimer(TimerID(r.SessionID, r.Run, "approval", id))
	}
	rest := r.AwaitingApproval[:0:0]
	for _, o := range r.AwaitingApproval {
		if o.FunctionCallID != id {
			rest = append(rest, o)
		}
	}
	r.AwaitingApproval = rest
	r.deleteRow(agent.ScopeApprovalReqs, r.SessionID+"/"+id)
	return true
}

// MarkStarted writes into the ledger that a call is about to be dispatched.
// Its idempotency key is the call's id.
func (r *Record) MarkStarted(id string, now int64) {
	old := r.Ledger[id]
	if r.Ledger == nil {
		r.Ledger = map[string]Mark{}
	}
	r.Ledger[id] = Mark{State: MarkStarted, Attempt: old.Attempt + 1, At: now, IdempotencyKey: id}
}

// Await makes a call that was dispatched wait for its stored result.
func (r *Record) Await(id string, deadline int64) {
	p := r.Call(id)
	if p == nil || r.Done(id) || r.Waited(id) != nil {
		return
	}
	r.AwaitingResult = append(r.AwaitingResult, ResultWait{
		FunctionCallID: id, FunctionID: p.Call.FunctionID, DeadlineMS: deadline,
	})
	slices.SortStableFunc(r.AwaitingResult, func(a, b ResultWait) int {
		return r.position(a.FunctionCallID) - r.position(b.FunctionCallID)
	})
	r.setTimer(TimerID(r.SessionID, r.Run, "result", id), deadline)
}

// Unwait takes a call out of awaiting_result.
func (r *Record) Unwait(id string) {
	if r.Waited(id) == nil {
		return
	}
	r.cancelTimer(TimerID(r.SessionID, r.Run, "result", id))
	rest := r.AwaitingResult[:0:0]
	for _, o := range r.AwaitingResult {
		if o.FunctionCallID != id {
			rest = append(rest, o)
		}
	}
	r.AwaitingResult = rest
}

// Resolve gives a call its result. A second result changes nothing.
func (r *Record) Resolved(id string, o Outcome, durationMS, now int64) {
	p := r.Call(id)
	if p == nil || r.Done(id) {
		return
	}
	r.Announce(id)
	r.answered(id)
	r.Unwait(id)
	r.Work.Executed[id] = Executed{
		Call: CallRef{ID: id, FunctionID: p.Call.FunctionID}, Result: Of(o.Result), IsError: o.IsError,
		Terminate: o.Result.Terminate, DurationMS: durationMS, AtMS: now,
	}
	r.UpdatedAtMS = now
	r.emit(Event{
		Type: agent.EventExecutionEnd, CallID: id, Function: p.Call.FunctionID, Result: "r:" + id,
		IsError: o.IsError, Terminate: o.Result.Terminate, DurationMS: durationMS,
	})
}

// ResolveSynthetic gives a call that cannot be dispatched the result that it
// was planned with.
func (r *Record) ResolveSynthetic(id string, now int64) {
	p := r.Call(id)
	if p == nil || p.Result == nil {
		return
	}
	var res agent.FunctionResult
	if json.Unmarshal(p.Result.Raw, &res) != nil {
		res = Failure{Code: CodeInvalidArguments, Function: p.Call.FunctionID}.Outcome().Result
	}
	r.Resolved(id, Outcome{Result: res, IsError: true}, 0, now)
}
