package turn

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/commit"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/engine/stream"
	"github.com/iii-aws/harness/engine/timer"
	"github.com/iii-aws/harness/internal/agent"
	"github.com/iii-aws/harness/internal/turn/step"
)

// deliver delivers a load, or what is left of it. A load whose write was not
// applied is forgotten: the driver knows.
func (c *courier) deliver(b *load) error {
	first := b.parcels[0].item.Kind
	if b.after != nil && first != step.KindEvent && first != step.KindWake && first != step.KindTimer {
		// Entries and calls have no tickets: they wait for the write.
		if err := commit.Wait(c.ctx, b.after); err != nil {
			return c.unwritten(err)
		}
		b.after = nil
	}
	for len(b.parcels) > 0 {
		n, err := c.some(b)
		if err != nil {
			return c.undelivered(b, err)
		}
		for _, p := range b.parcels[:n] {
			c.deliveredItem(p.item.ID)
		}
		b.parcels = b.parcels[n:]
	}
	return nil
}

// undelivered tells a delivery that failed from one that nothing was owed for.
func (c *courier) undelivered(b *load, err error) error {
	if b.after == nil {
		return err
	}
	if wrote := commit.Wait(c.ctx, b.after); wrote != nil {
		return c.unwritten(wrote)
	}
	b.after = nil
	return err
}

// unwritten ends a load whose write failed.
func (c *courier) unwritten(err error) error {
	if c.ctx.Err() != nil {
		return c.ctx.Err()
	}
	c.t.Logger.Debug("nothing to deliver, the record was not written", "error", err)
	return nil
}

// some delivers the first parcels of one kind and answers how many.
func (c *courier) some(b *load) (int, error) {
	n := sameKind(b.parcels)
	ps := b.parcels[:n]
	switch ps[0].item.Kind {
	case step.KindEntry:
		return c.entries(ps)
	case step.KindRow:
		return n, c.rows(ps)
	case step.KindCall:
		return 1, c.call(ps[0])
	case step.KindEvent:
		return n, c.events(ps, b.after)
	default:
		return n, c.wakes(ps, b.after)
	}
}

func sameKind(ps []parcel) int {
	group := func(k step.Kind) step.Kind {
		if k == step.KindTimer {
			return step.KindWake
		}
		return k
	}
	for i, p := range ps {
		if group(p.item.Kind) != group(ps[0].item.Kind) {
			return i
		}
	}
	return len(ps)
}

// maxEntries is how many entries are appended at once, so that they fit one
// transaction.
const maxEntries = 90

// chain is how many of the first entries hang on one another and fit one
// append. A message with calls goes alone: the session notes each call.
func chain(ps []parcel) int {
	calls := func(p parcel) bool { return bytes.Contains(p.data, []byte(`"`+agent.BlockFunctionCall+`"`)) }
	n := 1
	for n < len(ps) && n < maxEntries && ps[n].item.Parent == ps[n-1].item.ID && !calls(ps[n-1]) && !calls(ps[n]) {
		n++
	}
	return n
}

// entries appends the entries that hang on one another.
func (c *courier) entries(ps []parcel) (int, error) {
	n := chain(ps)
	req := appendRequest{SessionID: c.session, ParentID: ps[0].item.Parent}
	for _, p := range ps[:n] {
		req.Messages = append(req.Messages, p.data)
		req.EntryIDs = append(req.EntryIDs, p.item.ID)
	}
	_, err := c.invoke("session-tree::append_batch", encode(req))
	if err != nil && refused(bus.Code(err)) {
		c.t.alarm("turn_entry_refused", "transcript entries refused", "session", req.SessionID, "entries", req.EntryIDs, "error", err)
		c.mu.Lock()
		c.broken = fmt.Errorf("the session refused the messages: %w", err)
		c.mu.Unlock()
		return n, nil
	}
	return n, err
}

type appendRequest struct {
	SessionID string            `json:"session_id"`
	ParentID  string            `json:"parent_id,omitempty"`
	Messages  []json.RawMessage `json:"messages"`
	EntryIDs  []string          `json:"entry_ids"`
}

// refused reports whether a session will never take what it was given.
func refused(code string) bool {
	switch code {
	case "not_found", "entry_not_found", "orphan_result", "duplicate_call", "invalid_payload", "VALUE_TOO_LARGE":
		return true
	}
	return false
}

func (c *courier) invoke(functionID string, payload json.RawMessage) (json.RawMessage, error) {
	return c.t.within(c.ctx, bus.Invocation{FunctionID: functionID, Data: payload, Principal: &c.principal})
}

// rows writes rows, each on its own: one that exists is as good as written.
func (c *courier) rows(ps []parcel) error {
	tickets := make([]*state.Pending, len(ps))
	for i, p := range ps {
		it := p.item
		w := state.Delete(it.Scope, it.Key)
		if !it.Value.IsZero() {
			w = state.Set(it.Scope, it.Key, p.data)
			if it.Create {
				w = w.IfAbsent()
			}
		}
		w.Origin = origin(c.ctx, c.principal)
		tickets[i] = c.t.State.Submit(c.ctx, []state.Write{w})
	}
	var first error
	for i, t := range tickets {
		if _, err := t.Wait(c.ctx); err != nil && !(ps[i].item.Create && isConflict(err)) && first == nil {
			first = err
		}
	}
	return first
}

// call makes a call that the record owes.
func (c *courier) call(p parcel) error {
	_, err := c.invoke(p.item.FunctionID, p.data)
	if err == nil {
		return nil
	}
	if bus.Code(err) == protocol.CodeFunctionNotFound {
		return nil
	}
	if p.item.BestEffort || refused(bus.Code(err)) {
		c.t.Logger.Warn("call failed, it is not repeated", "function", p.item.FunctionID, "session", c.session, "error", clean(err))
		return nil
	}
	return err
}

// events appends to the session's log and tells the viewers.
func (c *courier) events(ps []parcel, after commit.Ticket) error {
	a := stream.Append{
		Stream: agent.StreamEvents, Group: c.session, Base: c.base, By: c.by, Origin: origin(c.ctx, c.principal),
	}
	for _, p := range ps {
		e := stream.LogEvent{ID: p.item.ID, Data: p.data}
		if p.item.Event.Transcript {
			e.Data = c.withTranscript(p)
		}
		if p.item.Event.Type == agent.EventTurnEnd {
			e.CopyTo = agent.StreamTurnEnd
		}
		a.Events = append(a.Events, e)
	}
	got, err := c.t.Stream.SubmitAppend(c.ctx, a, tickets(after)...).Wait(c.ctx)
	if err != nil {
		return err
	}
	tail := c.note(got.Seqs)
	if c.viewer != nil {
		c.viewer.Notify(stream.Head{Tail: tail, Epoch: got.Epoch})
	}
	return nil
}

func tickets(after commit.Ticket) []commit.Ticket {
	if after == nil {
		return nil
	}
	return []commit.Ticket{after}
}

// note keeps the tail of the log.
func (c *courier) note(seqs []int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range seqs {
		c.last = max(c.last, s)
	}
	c.base = c.last
	return c.last
}

// withTranscript is an agent_end with the messages of the session; without
// them if they cannot be read.
func (c *courier) withTranscript(p parcel) json.RawMessage {
	path, err := c.t.readPath(c.ctx, c.principal, c.session)
	if err != nil {
		c.t.Logger.Warn("agent_end without messages", "session", c.session, "error", clean(err))
		return p.data
	}
	messages := make([]agent.Message, 0, len(path))
	for _, e := range path {
		messages = append(messages, e.Message)
	}
	return encode(agent.AgentEnd{Type: agent.EventAgentEnd, Messages: messages})
}

// wakes sends wakes and sets and cancels timers.
func (c *courier) wakes(ps []parcel, after commit.Ticket) error {
	var sent []commit.Ticket
	for _, p := range ps {
		it := p.item
		req := StepRequest{SessionID: c.session, Run: c.run, Cause: it.Cause}
		switch {
		case it.Kind == step.KindWake:
			sent = append(sent, c.t.wake(c.ctx, c.principal, req, tickets(after)...))
		case it.AtMS == 0:
			sent = append(sent, c.t.Timers.Cancel(c.ctx, it.Timer, tickets(after)...))
		default:
			sent = append(sent, c.t.Timers.Submit(c.ctx, timer.Timer{
				ID: it.Timer, At: clock.FromMillis(it.AtMS), Message: c.t.message(c.ctx, c.principal, req),
			}, tickets(after)...))
		}
	}
	return commit.Wait(c.ctx, sent...)
}
