package step

import (
	"fmt"

	"github.com/iii-aws/harness/internal/agent"
)

// finish ends a run in the order that clients rely on: agent_end is the last
// event.
func (r *Record) finish(now int64) {
	r.emit(Event{Type: agent.EventAgentEnd})
	r.closing()
	r.move(Stopped, now)
}

// closing owes what every end of a run owes, and clears what was in work.
func (r *Record) closing() {
	r.ReleaseReservation()
	r.call("session-tree::touch", r.Run, map[string]any{"session_id": r.SessionID}, true)
	if r.SandboxID != "" {
		r.owe(Item{
			Kind: KindCall, ID: "call:sandbox::stop/" + r.SandboxID, FunctionID: "sandbox::stop",
			Value: Of(map[string]string{"sandbox_id": r.SandboxID}), BestEffort: true, Late: true,
		})
		r.deleteRow(agent.ScopeSandboxID, r.SessionID)
		r.SandboxID = ""
	}
	r.cancelWait()
	r.hold("f:")
	r.hold("r:")
	r.Work, r.AwaitingApproval, r.AwaitingResult = nil, nil, nil
	r.Request = Value{}
}

// StopAtLimit ends a run that has used its turns.
func (r *Record) StopAtLimit(now int64) {
	r.stopWith("max_turns", fmt.Sprintf("loop stopped: max_turns (%d) reached", *r.MaxTurns), now)
}

// StopForBudget ends a run that a budget refused.
func (r *Record) StopForBudget(budgetID string, now int64) {
	r.stopWith("budget", "loop stopped: budget "+budgetID, now)
}

// stopWith ends a run with a message of the harness itself.
func (r *Record) stopWith(what, text string, now int64) {
	m := agent.EmptyAssistant("", "", now)
	m.Content = []agent.Block{agent.Text(text)}
	id := EntryID(r.SessionID, r.Run, r.TurnCount, string(agent.RoleAssistant), what)
	r.setAssistant(id, m)
	r.append(id, "a:"+id)
	r.emit(Event{Type: agent.EventMessageComplete, Assistant: "a:" + id})
	r.endTurn(nil, nil)
	r.finish(now)
}
