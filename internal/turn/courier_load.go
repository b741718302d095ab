package turn

import (
	"encoding/json"

	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/commit"
	"github.com/iii-aws/harness/engine/stream"
	"github.com/iii-aws/harness/engine/timer"
	"github.com/iii-aws/harness/internal/agent"
	"github.com/iii-aws/harness/internal/turn/step"
)

// parcel is an item of the outbox with its payload.
type parcel struct {
	item step.Item
	data json.RawMessage
}

// load is what one write owes, by when it is delivered.
type load struct {
	// after is the write; nil if it is known to be applied.
	after commit.Ticket

	entries, rows, calls []parcel
	// side are calls that may fail, made beside the events; late ones come
	// behind them.
	side, late []parcel
	events     eventLoad
}

// eventLoad is the events of a load and the wakes behind them. Pending is set
// while they are on their way.
type eventLoad struct {
	events, wakes []parcel
	pending       *commit.Promise[stream.Appended]
	sent          []commit.Ticket
}

func newLoad(ps []parcel, after commit.Ticket) *load {
	l := &load{after: after}
	for _, p := range ps {
		switch it := p.item; {
		case it.Kind == step.KindEntry:
			l.entries = append(l.entries, p)
		case it.Kind == step.KindRow:
			l.rows = append(l.rows, p)
		case it.Kind == step.KindEvent:
			l.events.events = append(l.events.events, p)
		case it.Kind != step.KindCall:
			l.events.wakes = append(l.events.wakes, p)
		case it.Late:
			l.late = append(l.late, p)
		case it.BestEffort:
			l.side = append(l.side, p)
		default:
			l.calls = append(l.calls, p)
		}
	}
	return l
}

// ready reports whether the events can go out right behind the write, in the
// same commit where the store makes one of both: nothing must come before them.
func (l *load) ready() bool {
	if len(l.entries)+len(l.rows)+len(l.calls)+len(l.side)+len(l.late) > 0 {
		return false
	}
	for _, p := range l.events.events {
		if p.item.Event.Transcript {
			return false
		}
	}
	return true
}

// submitEvents appends the events to the session's log, and sends wakes and
// sets timers behind them. The caller holds the lock.
func (c *courier) submitEvents(l *load) {
	a := stream.Append{
		Stream: agent.StreamEvents, Group: c.session, Base: c.base, By: c.by, Origin: origin(c.ctx, c.principal),
	}
	for _, p := range l.events.events {
		e := stream.LogEvent{ID: p.item.ID, Data: p.data}
		if p.item.Event.Type == agent.EventTurnEnd {
			e.CopyTo = agent.StreamTurnEnd
		}
		a.Events = append(a.Events, e)
	}
	var after []commit.Ticket
	if l.after != nil {
		after = append(after, l.after)
	}
	l.events.pending = commit.Resolved(stream.Appended{}, nil)
	if len(a.Events) > 0 {
		l.events.pending = c.t.Stream.SubmitAppend(c.ctx, a, after...)
		after = []commit.Ticket{l.events.pending}
	}
	l.events.sent = c.submitWakes(l.events.wakes, after)
}

// submitWakes sends wakes and sets and cancels timers.
func (c *courier) submitWakes(ps []parcel, after []commit.Ticket) []commit.Ticket {
	var sent []commit.Ticket
	for _, p := range ps {
		it := p.item
		req := StepRequest{SessionID: c.session, Run: c.run, Cause: it.Cause}
		switch {
		case it.Kind == step.KindWake:
			sent = append(sent, c.t.wake(c.ctx, c.principal, req, after...))
		case it.AtMS == 0:
			sent = append(sent, c.t.Timers.Cancel(c.ctx, it.Timer, after...))
		default:
			sent = append(sent, c.t.Timers.Submit(c.ctx, timer.Timer{
				ID: it.Timer, At: clock.FromMillis(it.AtMS), Message: c.t.message(c.ctx, c.principal, req),
			}, after...))
		}
	}
	return sent
}

// waitEvents waits for the events and wakes and tells the viewers. What failed
// is submitted again the next time.
func (c *courier) waitEvents(l *load) error {
	got, err := l.events.pending.Wait(c.ctx)
	sent := commit.Wait(c.ctx, l.events.sent...)
	l.events.pending, l.events.sent = nil, nil
	if err != nil {
		return err
	}
	if len(l.events.events) > 0 {
		tail := c.note(got.Seqs)
		if c.viewer != nil {
			c.viewer.Notify(stream.Head{Tail: tail, Epoch: got.Epoch})
		}
		c.deliveredAll(l.events.events)
		l.events.events = nil
	}
	if sent != nil {
		return sent
	}
	c.deliveredAll(l.events.wakes)
	l.events.wakes = nil
	return nil
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
