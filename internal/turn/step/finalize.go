package step

import (
	"encoding/json"

	"github.com/iii-aws/harness/internal/agent"
)

// Finalize ends a batch in which every call has its result: the results become
// messages in call order and are owed to the transcript, turn_end is emitted,
// and the turn goes on to steering_check, or ends if every result says so.
// Changed holds the results that an after-hook replaced.
func (r *Record) Finalize(changed map[string]agent.FunctionResult, limit *agent.ModelLimit, now int64) {
	var sources []string
	results := []Value{}
	terminate := len(r.Work.Executed) > 0
	for _, p := range r.Work.Prepared {
		ex := r.Work.Executed[p.Call.ID]
		m := ex.message()
		if own, ok := changed[p.Call.ID]; ok {
			r.keepOriginal(p.Call.ID)
			m.Content, m.Details, ex.Terminate = own.Content, own.Details, own.Terminate
		}
		terminate = terminate && ex.Terminate
		results = append(results, Of(m))
		sources = append(sources, "f:"+p.Call.ID)
		id := EntryID(r.SessionID, r.Run, r.TurnCount, string(agent.RoleFunctionResult), p.Call.ID)
		r.append(id, "f:"+p.Call.ID)
		r.Ledger[p.Call.ID] = Mark{State: MarkDone, EntryID: id}
	}
	r.hold("f:")
	r.FunctionResults = results
	r.Work, r.AwaitingApproval, r.AwaitingResult = nil, nil, nil
	r.endTurn(sources, limit)
	if terminate {
		r.finish(now)
		return
	}
	r.move(Steering, now)
}

// keepOriginal keeps the target's own result for the event that tells it.
func (r *Record) keepOriginal(id string) {
	if v, ok := r.Resolve("r:" + id); ok && r.needed()["r:"+id] {
		r.keep("r:"+id, v)
	}
}

// Results are the results of the batch by call id, for the after-hook.
func (r *Record) Results() map[string]agent.FunctionResult {
	out := map[string]agent.FunctionResult{}
	if r.Work == nil {
		return out
	}
	for id, ex := range r.Work.Executed {
		var res agent.FunctionResult
		if json.Unmarshal(ex.Result.Raw, &res) == nil {
			out[id] = res
		}
	}
	return out
}
