package scripted

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/internal/agent"
	"github.com/iii-aws/harness/internal/provider"
)

// errStopped: the stream has said its last event.
var errStopped = errors.New("scripted: stopped")

// speaker turns a plan into events.
type speaker struct {
	ctx   context.Context
	clock clock.Clock
	emit  provider.Emit
	acc   *agent.Accumulator
	delay time.Duration
	// fail is the failure that has still to happen.
	fail  *Fail
	said  int // runes so far
	input int64
}

func (s *speaker) send(e agent.LLMEvent) error {
	s.acc.Apply(e)
	return s.emit(e)
}

// speak says all of a plan. It returns errStopped at the planned end, else what
// ended it.
func (s *speaker) speak(p plan) error {
	if err := s.send(agent.LLMEvent{Type: agent.LLMStart}); err != nil {
		return err
	}
	if err := s.failAt(0); err != nil {
		return err
	}
	if err := s.block(agent.LLMThinkingStart, agent.LLMThinkingDelta, agent.LLMThinkingEnd, p.think); err != nil {
		return err
	}
	if err := s.block(agent.LLMTextStart, agent.LLMTextDelta, agent.LLMTextEnd, p.text); err != nil {
		return err
	}
	for i, c := range p.calls {
		if err := s.call(i, c); err != nil {
			return err
		}
	}
	if s.fail != nil { // a failure after more than was said
		if err := s.failAt(s.fail.After); err != nil {
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
	if text == "" {
		return nil
	}
	if err := s.send(agent.LLMEvent{Type: start}); err != nil {
		return err
	}
	for _, piece := range pieces(text) {
		if err := s.pause(); err != nil {
			return err
		}
		if err := s.piece(delta, piece); err != nil {
			return err
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
		if err := s.piece(agent.LLMFunctionCallDelta, piece); err != nil {
			return err
		}
	}
	return s.send(agent.LLMEvent{Type: agent.LLMFunctionCallEnd})
}

// piece says a piece, and fails if it is time.
func (s *speaker) piece(delta, piece string) error {
	if err := s.send(agent.LLMEvent{Type: delta, Delta: piece}); err != nil {
		return err
	}
	s.said += utf8.RuneCountInString(piece)
	return s.failAt(s.said)
}

// pause waits before the next piece, not longer than the caller.
func (s *speaker) pause() error {
	if s.delay <= 0 {
		return s.ctx.Err()
	}
	t := s.clock.NewTimer(s.delay)
	defer t.Stop()
	select {
	case <-t.C():
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

// finish says usage, stop reason and the final message.
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
		if err := s.emit(agent.LLMEvent{Type: agent.LLMDone, Message: &m}); err != nil {
			return err
		}
	}
	return errStopped
}

// failAt does the failure that is due after so many runes. nil means that the
// stream goes on.
func (s *speaker) failAt(said int) error {
	f := s.fail
	if f == nil || f.After > said || f.Kind == failDuplicate {
		return nil
	}
	s.fail = nil
	switch f.Kind {
	case failGarbage:
		return s.emit(agent.LLMEvent{Type: "no_such_event"})
	case failCut:
		return provider.ErrNoFinal
	case failSilence:
		<-s.ctx.Done()
		return s.ctx.Err()
	case failLength:
		return s.finish(agent.StopLength)
	}
	e := provider.Failure(s.acc.Message(), agent.ErrorKind(f.Kind), f.text())
	e.RetryAfterMS = f.RetryAfterMS
	if err := s.send(e); err != nil {
		return err
	}
	return errStopped
}
