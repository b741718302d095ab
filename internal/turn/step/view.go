package step

import "github.com/iii-aws/harness/internal/agent"

// Glimpse is a view as an event keeps it: arguments may be by reference.
type Glimpse struct {
	State            State            `json:"state"`
	TurnCount        int64            `json:"turn_count"`
	MaxTurns         *int64           `json:"max_turns,omitempty"`
	AwaitingApproval []ApprovalWait   `json:"awaiting_approval,omitempty"`
	AwaitingResult   []ResultWait     `json:"awaiting_result,omitempty"`
	Error            *agent.TurnError `json:"error,omitempty"`
}

// View is what clients see of the record.
func (r *Record) View() agent.TurnStateView { return r.glimpse().view(r.SessionID) }

func (r *Record) glimpse() *Glimpse {
	return &Glimpse{
		State: r.State, TurnCount: r.TurnCount, MaxTurns: r.MaxTurns, Error: r.Error,
		AwaitingApproval: append([]ApprovalWait(nil), r.AwaitingApproval...),
		AwaitingResult:   append([]ResultWait(nil), r.AwaitingResult...),
	}
}

func (g *Glimpse) view(session string) agent.TurnStateView {
	v := agent.TurnStateView{
		SessionID: session, State: string(g.State), TurnCount: g.TurnCount, MaxTurns: g.MaxTurns, Error: g.Error,
	}
	for _, w := range g.AwaitingApproval {
		v.AwaitingApproval = append(v.AwaitingApproval, agent.AwaitingApproval{
			FunctionCallID: w.FunctionCallID, FunctionID: w.FunctionID, Args: w.Args.Raw,
		})
	}
	for _, w := range g.AwaitingResult {
		v.AwaitingResult = append(v.AwaitingResult, agent.AwaitingResult{
			FunctionCallID: w.FunctionCallID, FunctionID: w.FunctionID, DeadlineMS: w.DeadlineMS,
		})
	}
	return v
}

// ShouldWake reports whether the turn goes on by itself after a write.
func (r *Record) ShouldWake() bool {
	return !r.State.Terminal() && r.State != Awaiting && r.Wait == nil
}

// move enters a state and tells of it.
func (r *Record) move(to State, now int64) {
	r.State = to
	r.tell(now)
}

// tell emits a turn_state_changed from the last view told to the one now.
func (r *Record) tell(now int64) {
	r.UpdatedAtMS = now
	g := r.glimpse()
	r.emit(Event{Type: agent.EventTurnStateChanged, New: g, Old: r.seen})
	r.seen = g
}
