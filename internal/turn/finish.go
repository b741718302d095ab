package turn

import (
	"encoding/json"

	"github.com/iii-aws/harness/internal/agent"
	"github.com/iii-aws/harness/internal/turn/step"
)

// finish ends the batch. With an after-hook the results are saved first, as
// their targets gave them; without one the end is folded into the write that
// has the last result.
func (b *batch) finish() error {
	d := b.d
	var changed map[string]agent.FunctionResult
	if d.t.subscribers(d.work, TopicAfter) != 0 {
		if d.rec.Pending() {
			if err := d.save("last result"); err != nil {
				return err
			}
		}
		changed = d.after()
	}
	d.rec.Finalize(changed, d.limit(), d.t.nowMS())
	for _, v := range d.rec.FunctionResults {
		d.said(v.Raw)
	}
	if d.rec.State.Terminal() {
		return d.save("stopped")
	}
	return nil
}

// steer looks for words of people, then goes on or ends the run. The transition
// is saved together with what led to it.
func (d *driver) steer() error {
	if d.rec.OwesCall("session-inbox::drain") {
		// What was taken must be gone before the inbox is looked at again.
		if err := d.drain(); err != nil {
			return err
		}
	}
	in, err := d.peek()
	if err != nil {
		if d.rec.Pending() {
			if err := d.save("steering"); err != nil {
				return err
			}
		}
		return err
	}
	d.rec.Steer(in, d.limit(), d.t.nowMS())
	what := "stopped"
	if !d.rec.State.Terminal() {
		what = "last result"
		for _, it := range in.Items {
			d.said(it.Message)
		}
	}
	return d.save(what)
}

// peek is the first inbox with items, steering before followup. Errors:
// *TransientError; a session without inboxes has no items.
func (d *driver) peek() (step.Inbox, error) {
	for _, name := range []string{"steering", "followup"} {
		raw, err := d.invoke(d.work, "session-inbox::peek", encode(map[string]string{"name": name, "session_id": d.rec.SessionID}), 0)
		if notFound(err) {
			return step.Inbox{}, nil
		}
		var res struct {
			Items []json.RawMessage `json:"items"`
			IDs   []string          `json:"ids"`
		}
		if err == nil {
			err = json.Unmarshal(raw, &res)
		}
		if err != nil {
			return step.Inbox{}, transient(CodeInbox, err)
		}
		in := step.Inbox{Name: name}
		for i, m := range res.Items {
			if i < len(res.IDs) {
				in.Items = append(in.Items, step.InboxItem{ID: res.IDs[i], Message: m})
			}
		}
		if len(in.Items) > 0 {
			return in, nil
		}
	}
	return step.Inbox{}, nil
}
