package scripted

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/iii-aws/harness/internal/agent"
	"github.com/iii-aws/harness/internal/provider"
)

// errStopped: the stream has said its last event.
var errStopped = errors.New("scripted: stopped")

// speaker turns a plan into events.
type speaker struct {
	provider *Provider
	ctx      context.Context
	emit     provider.Emit
	acc      *agent.Accumulator
	delay    time.Duration
	fail     *Fail
	said     int // runes of the answer so far
	input    int64
}

func (s *speaker) send(e agent.LLMEvent) error {
	s.acc.Apply(e)
	return s.emit(e)
}

func (s *speaker) speak(p plan) error {
	if err := s.send(agent.LLMEvent{Type: agent.LLMStart}); err != nil {
		return err
	}
	if s.fail != nil && s.fail.After == 0 {
		if err := s.failNow(); err != nil {
			return err
		}
	}
	if p.think != "" {
		if err := s.block(agent.LLMThinkingStart, agent.LLMThinkingDelta, agent.LLMThinkingEnd, p.think); err != nil {
			return err
		}
	}
	if p.text != "" {
		if err := s.block(agent.LLMTextStart, agent.LLMTextDelta, agent.LLMTextEnd, p.text); err != nil {
			return err
		}
	}
	for i, c := range p.calls {
		if err := s.call(i, c); err != nil {
			return err
		}
	}
	if s.fail != nil && s.fail.After >= s.said {
		if err := s.failNow(); err != nil {
			return err
		}
	}
	stop := agent.StopEnd
	if len(p.calls) > 0 {
		stop = agent.StopFunctionCall
	}
	return s.finish(stop)
}

func (s *speaker) block(start, delta, end, text string) error {
	if err := s.send(agent.LLMEvent{Type: start}); err != nil {
		return err
	}
	for _, piece := range pieces(text) {
		if err := s.provider.pause(s.ctx, s.delay); err != nil {
			return err
		}
		if err := s.send(agent.LLMEvent{Type: delta, Delta: piece}); err != nil {
			return err
		}
		s.said += len([]rune(piece))
		if s.fail != nil && s.fail.After > 0 && s.said >= s.fail.After {
			if err := s.failNow(); err != nil {
				return err
			}
		}
	}
	return s.send(agent.LLMEvent{Type: end})
}

func (s *speaker) call(i int, c Call) error {
	tool, id := c.Tool, fmt.Sprintf("call_%d", i)
	if tool == "" {
		tool = "agent_trigger"
	}
	if c.ID != nil {
		id = *c.ID
	}
	if err := s.send(agent.LLMEvent{Type: agent.LLMFunctionCallStart, ID: id, FunctionID: tool}); err != nil {
		return err
	}
	for _, piece := range pieces(c.arguments()) {
		if err := s.send(agent.LLMEvent{Type: agent.LLMFunctionCallDelta, Delta: piece}); err != nil {
			return err
		}
	}
	return s.send(agent.LLMEvent{Type: agent.LLMFunctionCallEnd})
}

func (s *speaker) finish(stop agent.StopReason) error {
	output := int64(s.said/4) + 1
	if err := s.send(agent.LLMEvent{Type: agent.LLMUsage, Usage: &agent.Usage{Input: &s.input, Output: &output}}); err != nil {
		return err
	}
	if err := s.send(agent.LLMEvent{Type: agent.LLMStop, StopReason: stop}); err != nil {
		return err
	}
	m := s.acc.Message()
	if err := s.send(agent.LLMEvent{Type: agent.LLMDone, Message: &m}); err != nil {
		return err
	}
	if s.fail != nil && s.fail.Kind == failDuplicate {
		return s.emit(agent.LLMEvent{Type: agent.LLMDone, Message: &m})
	}
	return errStopped
}

// failNow does the failure once. nil means that the stream goes on.
func (s *speaker) failNow() error {
	f := s.fail
	switch f.Kind {
	case failDuplicate:
		return nil // at the end
	case failGarbage:
		s.fail = nil
		return s.emit(agent.LLMEvent{Type: "no_such_event"})
	case failCut:
		return provider.ErrNoFinal
	case failSilence:
		<-s.ctx.Done()
		return s.ctx.Err()
	case failLength:
		s.fail = nil
		return s.finish(agent.StopLength)
	}
	e := provider.Failure(s.acc.Message(), agent.ErrorKind(f.Kind), message(f))
	e.RetryAfterMS = f.RetryAfterMS
	if err := s.send(e); err != nil {
		return err
	}
	return errStopped
}

func message(f *Fail) string {
	if f.Message != "" {
		return f.Message
	}
	return "the scripted model fails with " + f.Kind
}
