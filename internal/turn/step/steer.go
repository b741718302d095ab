package step

import (
	"encoding/json"

	"github.com/iii-aws/harness/internal/agent"
)

// InboxItem is a message that a person pushed while the turn ran.
type InboxItem struct {
	ID      string
	Message json.RawMessage
}

// Inbox is what a peek found: the items of the first inbox, steering before
// followup, that holds any.
type Inbox struct {
	Name  string
	Items []InboxItem
}

// Steer decides what follows a batch or an answer: words from the inbox, the
// next model call with the results, or the end. Items stay in the inbox when
// max_turns is reached.
func (r *Record) Steer(in Inbox, limit *agent.ModelLimit, now int64) {
	if len(in.Items) == 0 && len(r.FunctionResults) == 0 {
		r.endTurn(nil, limit)
		r.finish(now)
		return
	}
	if r.AtLimit() {
		r.StopAtLimit(now)
		return
	}
	if len(in.Items) > 0 {
		r.endTurn(nil, limit)
		ids := make([]string, 0, len(in.Items))
		for _, it := range in.Items {
			id := InboxEntryID(r.SessionID, it.ID)
			r.keep("m:"+id, Value{Raw: it.Message})
			r.append(id, "m:"+id)
			ids = append(ids, it.ID)
		}
		r.call("session-inbox::drain", in.Name+"/"+ids[0], map[string]any{
			"name": in.Name, "session_id": r.SessionID, "ids": ids,
		}, false)
	}
	r.dropResults()
	r.move(Streaming, now)
}
