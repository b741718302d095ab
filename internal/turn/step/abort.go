package step

import (
	"encoding/json"

	"github.com/iii-aws/harness/engine/redact"
	"github.com/iii-aws/harness/internal/agent"
)

// ReasonAborted is the reason of calls that an abort ended.
const ReasonAborted = "session_aborted"

// Abort ends a run at once. Reply is what the model had streamed, if it was
// being asked. Every call without a result gets one that says so, and an
// empty message of the harness closes the transcript.
func (r *Record) Abort(partial *Reply, now int64) {
	if partial != nil && len(withoutCalls(partial.Kept)) > 0 {
		r.abortStream(*partial)
	}
	results := r.closeCalls(now, func(p Prepared) Outcome {
		if r.Approval(p.Call.ID) != nil {
			reason := ReasonAborted
			r.createRow(agent.ScopeApprovals, r.SessionID+"/"+p.Call.ID, agent.Decision{
				Decision: agent.DecisionAborted, Reason: &reason, DecidedBy: "harness", DecidedAt: now,
				Run: r.Run, ArgsHash: ArgsHash(p.Call.FunctionID, p.Call.Arguments.Raw),
			})
		}
		return Denial{
			By: DeniedByUser, FunctionID: p.Call.FunctionID, Excerpt: redact.Excerpt(p.Call.Arguments.Raw),
			Reason: ReasonAborted, Decision: agent.DecisionAborted,
		}.Outcome()
	})
	text, kind := "aborted", agent.ErrTransient
	m := agent.EmptyAssistant("harness", "harness", now)
	m.StopReason, m.ErrorMessage, m.ErrorKind = agent.StopAborted, &text, &kind
	id := EntryID(r.SessionID, r.Run, r.TurnCount, string(agent.RoleAssistant), "aborted")
	r.setAssistant(id, m)
	r.append(id, "a:"+id)
	r.emit(Event{Type: agent.EventMessageComplete, Assistant: "a:" + id})
	r.endTurn(results, nil)
	r.finish(now)
}

// abortStream keeps what was streamed of a message.
func (r *Record) abortStream(a Reply) {
	id := r.AssistantEntryID()
	a.Message.StopReason = agent.StopAborted
	a.Message.Content = withoutCalls(a.Kept)
	a.Message.Details = json.RawMessage(`{"interrupted":true}`)
	r.setAssistant(id, a.Message)
	r.AssistantBodyStreamed = a.BodyStreamed
	r.append(id, "a:"+id)
	r.emit(Event{Type: agent.EventMessageComplete, Assistant: "a:" + id, BodyStreamed: a.BodyStreamed})
}

// closeCalls gives every open call of the batch the result that how makes, and
// owes the transcript all of them. It returns their sources.
func (r *Record) closeCalls(now int64, how func(Prepared) Outcome) []string {
	if r.Work == nil {
		return nil
	}
	for _, id := range r.Open() {
		p := r.Call(id)
		o := how(*p)
		if p.Route == Synthetic {
			r.ResolveSynthetic(id, now)
			continue
		}
		r.Resolved(id, o, 0, now)
	}
	var sources []string
	results := []Value{}
	for _, p := range r.Work.Prepared {
		results = append(results, Of(r.Work.Executed[p.Call.ID].message()))
		sources = append(sources, "f:"+p.Call.ID)
		id := EntryID(r.SessionID, r.Run, r.TurnCount, string(agent.RoleFunctionResult), p.Call.ID)
		r.append(id, "f:"+p.Call.ID)
		r.Ledger[p.Call.ID] = Mark{State: MarkDone, EntryID: id}
	}
	r.FunctionResults = results
	r.Work = nil
	return sources
}
