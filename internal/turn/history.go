package turn

import (
	"context"
	"encoding/json"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/internal/agent"
	"github.com/iii-aws/harness/internal/turn/step"
)

// pathEntry is a message on the session's active path.
type pathEntry struct {
	EntryID string
	Message agent.Message
}

// readPath reads the active path, oldest first. Messages that cannot be read
// are left out.
func (t *Turn) readPath(ctx context.Context, p bus.Principal, session string) ([]pathEntry, error) {
	raw, err := t.within(ctx, bus.Invocation{
		FunctionID: "session-tree::messages", Data: encode(map[string]string{"session_id": session}), Principal: &p,
	})
	if err != nil {
		return nil, err
	}
	var res struct {
		Messages []struct {
			EntryID string          `json:"entry_id"`
			Message json.RawMessage `json:"message"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(raw, &res); err != nil {
		return nil, err
	}
	out := make([]pathEntry, 0, len(res.Messages))
	for _, e := range res.Messages {
		var m agent.Message
		if err := json.Unmarshal(e.Message, &m); err != nil {
			t.Logger.Warn("transcript message cannot be read", "session", session, "entry", e.EntryID, "error", err)
			continue
		}
		out = append(out, pathEntry{EntryID: e.EntryID, Message: m})
	}
	return out, nil
}

// deliverLeft gives the courier what the record owes. Before the first words of
// a new run are delivered, calls that an earlier run left open on the path get
// a result, so that the transcript stays legal.
func (d *driver) deliverLeft() error {
	at := d.firstWords()
	if at < 0 {
		d.out.send(d.pack(d.rec.Outbox.Items), nil)
		return nil
	}
	d.out.send(d.pack(d.rec.Outbox.Items[:at]), nil)
	if err := d.drain(); err != nil {
		return err
	}
	// Not with the context of outside work: an abort that has come already ends
	// that, and the words of the run belong to the transcript all the same.
	path, err := d.t.readPath(d.ctx, d.rec.Principal, d.rec.SessionID)
	if err != nil {
		return transient(CodeSession, err)
	}
	if spoken(path, d.rec.Messages) {
		// An earlier delivery said them. What is open behind them is of this run.
		d.out.send(d.pack(d.rec.Outbox.Items[at:]), nil)
		return nil
	}
	d.history, d.read = messagesOf(path), true
	rest := append([]step.Item(nil), d.rec.Outbox.Items[at:]...)
	if open := step.OpenCalls(d.history); len(open) > 0 {
		closed := d.rec.CloseInterrupted(open, d.t.nowMS())
		rest = append(append([]step.Item(nil), d.rec.Outbox.Items[:len(open)]...), d.rec.Outbox.Items[at+len(open):]...)
		d.history = append(d.history, closed...)
	}
	for _, m := range d.rec.Messages {
		d.said(m.Message.Raw)
	}
	d.out.send(d.pack(rest), nil)
	return nil
}

// firstWords is the index of the first of the run's own messages in the
// outbox, -1 if there is none.
func (d *driver) firstWords() int {
	own := map[string]bool{}
	for _, m := range d.rec.Messages {
		own[m.EntryID] = true
	}
	for i, it := range d.rec.Outbox.Items {
		if it.Kind == step.KindEntry && own[it.ID] {
			return i
		}
	}
	return -1
}

// spoken reports whether one of the messages is on the path.
func spoken(path []pathEntry, words []step.UserMessage) bool {
	for _, e := range path {
		for _, m := range words {
			if e.EntryID == m.EntryID {
				return true
			}
		}
	}
	return false
}

// messagesOf is the messages of a path.
func messagesOf(path []pathEntry) []agent.Message {
	out := make([]agent.Message, 0, len(path))
	for _, e := range path {
		out = append(out, e.Message)
	}
	return out
}

// said adds a message to the conversation that the step remembers.
func (d *driver) said(raw json.RawMessage) {
	var m agent.Message
	if err := json.Unmarshal(raw, &m); err != nil {
		d.read = false // the session decides what becomes of it
		return
	}
	d.history = append(d.history, m)
}

// conversation is the messages for the model. A step that has not read them
// yet waits until what is owed is on the path, and closes calls that are open
// on it.
func (d *driver) conversation() ([]agent.Message, error) {
	if !d.read {
		if err := d.drain(); err != nil {
			return nil, err
		}
		path, err := d.t.readPath(d.work, d.rec.Principal, d.rec.SessionID)
		if err != nil {
			return nil, transient(CodeSession, err)
		}
		d.history, d.read = messagesOf(path), true
	}
	if open := step.OpenCalls(d.history); len(open) > 0 {
		closed := d.rec.CloseInterrupted(open, d.t.nowMS())
		d.out.send(d.pack(d.rec.Outbox.Items[:len(open)]), nil)
		d.history = append(d.history, closed...)
		if err := d.drain(); err != nil {
			return nil, err
		}
	}
	out := make([]agent.Message, 0, len(d.history))
	for _, m := range d.history {
		if m.Role != agent.RoleCustom {
			out = append(out, m)
		}
	}
	return out, nil
}
