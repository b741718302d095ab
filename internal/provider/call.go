package provider

import (
	"context"
	"errors"

	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/redact"
	"github.com/iii-aws/harness/internal/agent"
)

// call is a model call that is over.
type call struct {
	acc     *agent.Accumulator
	started bool
	err     error
}

// call runs the stream to its end and passes its events on.
func (s *server) call(ctx context.Context, r Request, pass Emit) *call {
	c := &call{acc: agent.NewAccumulator(s.deps.Name, r.Model, clock.Millis(s.deps.Clock.Now()))}
	c.err = s.stream(ctx, r, func(e agent.LLMEvent) error {
		c.started = true
		c.acc.Apply(e)
		return pass(e)
	})
	return c
}

// refused reports whether the call failed before anything was streamed.
func (c *call) refused() bool {
	return c.err != nil && !c.started && !errors.Is(c.err, ErrNoFinal)
}

// missing is the terminal event that the stream did not send; nil if it did.
func (c *call) missing() *agent.LLMEvent {
	if c.acc.Done() {
		return nil
	}
	text := "channel closed without final"
	if c.err != nil && !errors.Is(c.err, ErrNoFinal) {
		text = c.err.Error()
	}
	e := Failure(c.acc.Message(), agent.ErrTransient, text)
	return &e
}

// Failure is the error event of a call that failed after so much of the
// message was seen. Without any content the text becomes it.
func Failure(soFar agent.Message, kind agent.ErrorKind, text string) agent.LLMEvent {
	text = redact.Text(text)
	m := soFar
	m.StopReason, m.ErrorMessage, m.ErrorKind = agent.StopError, &text, &kind
	if len(m.Content) == 0 {
		m.Content = []agent.Block{agent.Text(text)}
	}
	return agent.LLMEvent{Type: agent.LLMError, Err: &m}
}
