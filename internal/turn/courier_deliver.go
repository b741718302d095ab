package turn

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/commit"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
)

// deliver delivers a load, or what is left of it: entries and rows, then
// events, then wakes. A load whose write was not applied is forgotten: the
// driver knows.
func (c *courier) deliver(l *load) error {
	if l.events.pending == nil && l.after != nil {
		if err := commit.Wait(c.ctx, l.after); err != nil {
			return c.unwritten(err)
		}
		l.after = nil
	}
	if err := c.first(l); err != nil {
		return err
	}
	if err := c.then(l); err != nil {
		return c.undelivered(l, err)
	}
	return c.all(l.late, c.call)
}

// first delivers what readers of an event may look for.
func (c *courier) first(l *load) error {
	rows := c.submitRows(l.rows)
	for len(l.entries) > 0 {
		n, err := c.append(l.entries)
		if err != nil {
			return err
		}
		c.deliveredAll(l.entries[:n])
		l.entries = l.entries[n:]
	}
	if err := c.waitRows(l.rows, rows); err != nil {
		return err
	}
	c.deliveredAll(l.rows)
	l.rows = nil
	if err := c.all(l.calls, c.call); err != nil {
		return err
	}
	l.calls = nil
	return nil
}

// then delivers events and wakes, and beside them the calls that may fail.
func (c *courier) then(l *load) error {
	var side group
	for _, p := range l.side {
		side.run(func() {
			if err := c.call(p); err != nil {
				c.t.Logger.Warn("call failed", "function", p.item.FunctionID, "session", c.session, "error", clean(err))
			}
		})
	}
	if l.events.pending == nil {
		for i, p := range l.events.events {
			if p.item.Event.Transcript {
				l.events.events[i].data = c.withTranscript(p)
			}
		}
		c.mu.Lock()
		c.submitEvents(l)
		c.mu.Unlock()
	}
	err := c.waitEvents(l)
	if failed := side.wait(); err == nil {
		err = failed
	}
	c.deliveredAll(l.side)
	l.side = nil
	return err
}

// all makes calls one after the other.
func (c *courier) all(ps []parcel, f func(parcel) error) error {
	for _, p := range ps {
		if err := f(p); err != nil {
			return err
		}
		c.deliveredItem(p.item.ID)
	}
	return nil
}

// undelivered tells a delivery that failed from one that nothing was owed for.
func (c *courier) undelivered(l *load, err error) error {
	if l.after == nil {
		return err
	}
	if wrote := commit.Wait(c.ctx, l.after); wrote != nil {
		return c.unwritten(wrote)
	}
	l.after = nil
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

// append appends the first entries, as many as hang on one another.
func (c *courier) append(ps []parcel) (int, error) {
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

// submitRows writes rows, each on its own: one that exists is as good as
// written.
func (c *courier) submitRows(ps []parcel) []*state.Pending {
	out := make([]*state.Pending, len(ps))
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
		out[i] = c.t.State.Submit(c.ctx, []state.Write{w})
	}
	return out
}

func (c *courier) waitRows(ps []parcel, submitted []*state.Pending) error {
	var first error
	for i, p := range submitted {
		if _, err := p.Wait(c.ctx); err != nil && !(ps[i].item.Create && isConflict(err)) && first == nil {
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
