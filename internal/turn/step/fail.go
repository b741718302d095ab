package step

import (
	"fmt"

	"github.com/iii-aws/harness/engine/redact"
	"github.com/iii-aws/harness/internal/agent"
)

// The kinds of the error of a failed run.
const (
	KindTransitionError = "transition_error"
	KindStepsExhausted  = "steps_exhausted"
)

// Fail ends a run because a transition went wrong.
func (r *Record) Fail(err error, now int64) {
	r.fail(KindTransitionError, fmt.Sprintf("from %s: %s", r.State, err.Error()), err.Error(), now)
}

// Exhaust ends a run whose step failed as often as it may.
func (r *Record) Exhaust(cause string, now int64) {
	text := "the turn's step was given up after repeated failures"
	if cause != "" {
		text += ": " + cause
	}
	r.fail(KindStepsExhausted, text, text, now)
}

// fail ends a run as failed. Calls that were started may have had their
// effect, the others did not run.
func (r *Record) fail(kind, message, text string, now int64) {
	r.closeCalls(now, func(p Prepared) Outcome {
		if r.Started(p.Call.ID) {
			return Unknown(p.Call)
		}
		return Denial{
			By: DeniedByUser, FunctionID: p.Call.FunctionID, Excerpt: redact.Excerpt(p.Call.Arguments.Raw),
			Reason: ReasonAborted, Decision: agent.DecisionAborted,
		}.Outcome()
	})
	errKind := agent.ErrTransient
	m := agent.EmptyAssistant("", "", now)
	m.Content = []agent.Block{agent.Text(text)}
	m.StopReason, m.ErrorMessage, m.ErrorKind = agent.StopError, &text, &errKind
	id := EntryID(r.SessionID, r.Run, r.TurnCount, string(agent.RoleAssistant), kind)
	r.setAssistant(id, m)
	r.Error = &agent.TurnError{Kind: kind, Message: message}
	r.emit(Event{Type: agent.EventMessageComplete, Assistant: "a:" + id})
	r.emit(Event{Type: agent.EventAgentEnd, Transcript: true})
	r.claimReservation()
	r.closing()
	r.move(Failed, now)
}
