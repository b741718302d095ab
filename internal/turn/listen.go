package turn

import (
	"time"

	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/internal/agent"
	"github.com/iii-aws/harness/internal/turn/step"
)

// heard is how a model call ended.
type heard struct {
	message agent.Message
	// kept is what was streamed before a failure.
	kept     []agent.Block
	streamed bool
	// shown: a person has seen something of it.
	shown   bool
	failure *modelFailure
	// told: the provider itself told the failure.
	told    bool
	aborted bool
}

// listener reads one model call to its end.
type listener struct {
	d   *driver
	c   *modelCall
	acc *agent.Accumulator
	out *deltas

	silence clock.Timer
	// rest fires when a provider that has closed its channel should have
	// returned.
	rest <-chan time.Time

	terminal *agent.LLMEvent
	failure  *modelFailure
	aborted  bool
}

// listenTo reads a model call to its end, tells the viewers, and ends it when
// somebody aborts the run, when the provider falls silent, or when the time of
// this delivery is over. Errors: *TransientError.
func (d *driver) listenTo(c *modelCall, r route, model string) (heard, error) {
	defer c.stop()
	l := &listener{d: d, c: c, acc: agent.NewAccumulator(r.name, model, d.t.nowMS()), out: d.deltas()}
	l.out.held = true
	l.silence = d.t.Clock.NewTimer(d.t.cfg.ProviderSilence)
	defer func() { l.silence.Stop() }()
	over, stopOver := d.outOfTime()
	defer stopOver()
	for l.terminal == nil && l.failure == nil && !l.aborted {
		if err := l.one(over); err != nil {
			return heard{}, err
		}
	}
	h := l.conclude()
	l.out.end()
	return h, nil
}

// one takes the next thing that happens.
func (l *listener) one(over <-chan time.Time) error {
	d := l.d
	beat := d.t.Clock.NewTimer(tick)
	defer beat.Stop()
	select {
	case e, open := <-l.c.events:
		if open {
			l.hear(e)
		} else {
			l.closed()
		}
	case err := <-l.c.replied:
		l.replied(err)
	case <-l.rest:
		l.failure = noFinal()
	case <-l.unhold():
	case <-l.out.due():
		l.out.flush()
	case <-l.silence.C():
		l.failure = &modelFailure{kind: agent.ErrTransient, text: "the provider sent nothing for " + d.t.cfg.ProviderSilence.String()}
	case <-over:
		l.failure = &modelFailure{kind: agent.ErrTransient, text: "time limit: the step had no time left for the model"}
	case <-beat.C():
		return d.holds()
	case <-d.heard:
		return l.look()
	case <-d.ctx.Done():
		return d.holds()
	}
	return nil
}

// hear takes an event of the stream.
func (l *listener) hear(e agent.LLMEvent) {
	l.silence.Stop()
	l.silence = l.d.t.Clock.NewTimer(l.d.t.cfg.ProviderSilence)
	if e.Type == agent.LLMDone || e.Type == agent.LLMError {
		l.terminal = &e
		return
	}
	at, isDelta := l.acc.Apply(e)
	l.out.add(e, at, isDelta)
}

// closed takes the end of the channel. The function has a moment to return: an
// error of it says more.
func (l *listener) closed() {
	l.c.events = nil
	if l.c.replied == nil {
		l.failure = noFinal()
		return
	}
	l.rest = l.d.t.Clock.NewTimer(afterClose).C()
}

// replied takes the result of the provider's function, which may return before
// its stream ends.
func (l *listener) replied(err error) {
	l.c.replied = nil
	for waiting := len(l.c.events); waiting > 0 && l.terminal == nil; waiting-- {
		if e, open := <-l.c.events; open {
			l.hear(e)
		}
	}
	switch {
	case l.terminal != nil:
	case err != nil:
		l.failure = callFailed(err)
	case l.c.events == nil:
		l.failure = noFinal()
	}
}

func noFinal() *modelFailure {
	return &modelFailure{kind: agent.ErrTransient, text: "channel closed without final"}
}

// unhold lets the updates go once the events before the message are stored; it
// gives a channel that is closed when that may be so.
func (l *listener) unhold() <-chan struct{} {
	if !l.out.held {
		return nil
	}
	idle, changed := l.d.out.idle()
	if idle {
		l.out.hold(false)
		return nil
	}
	return changed
}

// look reads the control item.
func (l *listener) look() error {
	d := l.d
	if err := d.readControl(); err != nil {
		return transient(CodeStorage, err)
	}
	if err := d.holds(); err != nil {
		return err
	}
	d.refreshViewers()
	l.aborted = d.aborted()
	return nil
}

// refreshViewers looks for viewers that have come.
func (d *driver) refreshViewers() {
	if d.viewer == nil {
		return
	}
	if err := d.viewer.Refresh(d.ctx); err != nil {
		d.t.Logger.Debug("viewers not refreshed", "session", d.rec.SessionID, "error", err)
	}
}

// conclude makes the final message.
func (l *listener) conclude() heard {
	partial := l.acc.Message()
	h := heard{
		message: partial, kept: partial.Content, streamed: l.acc.Streamed(), shown: l.out.shown, failure: l.failure, aborted: l.aborted,
	}
	if l.aborted {
		return h
	}
	if l.terminal != nil {
		l.acc.Apply(*l.terminal)
		h.message = l.acc.Message()
		if h.message.StopReason == agent.StopError {
			h.failure, h.told = failureOf(*l.terminal, h.message), true
		}
		return h
	}
	h.message.StopReason, h.message.ErrorMessage, h.message.ErrorKind = agent.StopError, &l.failure.text, &l.failure.kind
	if len(h.message.Content) == 0 {
		h.message.Content = []agent.Block{agent.Text(l.failure.text)}
	}
	return h
}

// failureOf is the failure that an error message tells.
func failureOf(e agent.LLMEvent, m agent.Message) *modelFailure {
	f := &modelFailure{kind: agent.ErrPermanent, afterMS: e.RetryAfterMS}
	if m.ErrorKind != nil {
		f.kind = *m.ErrorKind
	}
	if m.ErrorMessage != nil {
		f.text = *m.ErrorMessage
	}
	return f
}

// deltas makes the updates of the message that is being asked for.
func (d *driver) deltas() *deltas {
	rec := d.rec
	session, run, turn := rec.SessionID, rec.Run, rec.TurnCount
	return &deltas{
		post: func(u agent.MessageUpdate) {
			if d.viewer != nil {
				d.viewer.Delta(u)
			}
		},
		clock: d.t.Clock, window: d.t.cfg.CoalesceWindow, block: -1,
		head:   agent.MessageUpdate{Type: agent.EventMessageUpdate, MessageID: rec.AssistantEntryID(), Attempt: rec.Lease},
		callID: func(block int) string { return step.CallID(session, run, turn, block) },
	}
}
