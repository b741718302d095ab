package step

import "github.com/iii-aws/harness/internal/agent"

// OpenCalls is the calls on a transcript path without a result, in order.
func OpenCalls(path []agent.Message) []agent.FunctionCall {
	answered := map[string]bool{}
	for _, m := range path {
		if m.Role == agent.RoleFunctionResult {
			answered[m.FunctionCallID] = true
		}
	}
	var out []agent.FunctionCall
	for _, m := range path {
		if m.Role != agent.RoleAssistant {
			continue
		}
		for _, b := range m.Calls() {
			if answered[b.ID] {
				continue
			}
			answered[b.ID] = true
			id, args, ok := Unwrap(b)
			if !ok && id == "" {
				id = b.FunctionID
			}
			out = append(out, agent.FunctionCall{ID: b.ID, FunctionID: id, Arguments: args})
		}
	}
	return out
}

// CloseInterrupted owes the transcript a result for each call that was left
// open on it, before anything else. It returns the messages in order.
func (r *Record) CloseInterrupted(open []agent.FunctionCall, now int64) []agent.Message {
	var items []Item
	var out []agent.Message
	parent := ""
	at := r.firstEntry()
	if at < 0 {
		parent = r.LeafID
	} else {
		parent = r.Outbox.Items[at].Parent
	}
	for _, c := range open {
		m := Executed{Call: CallRef{ID: c.ID, FunctionID: c.FunctionID}, Result: Of(Interrupted(c.FunctionID).Result), IsError: true, AtMS: now}.message()
		id := InterruptedEntryID(r.SessionID, c.ID)
		r.keep("m:"+id, Of(m))
		items = append(items, Item{Kind: KindEntry, ID: id, Source: "m:" + id, Parent: parent})
		out = append(out, m)
		parent = id
	}
	if at < 0 {
		r.LeafID = parent
	} else {
		r.Outbox.Items[at].Parent = parent
	}
	r.Outbox.Items = append(items, r.Outbox.Items...)
	return out
}

// firstEntry is the index of the first transcript entry that is owed, -1 if
// there is none.
func (r *Record) firstEntry() int {
	for i, it := range r.Outbox.Items {
		if it.Kind == KindEntry {
			return i
		}
	}
	return -1
}
