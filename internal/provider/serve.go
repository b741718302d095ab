package provider

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/channel"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/internal/agent"
)

// Emit takes the next event of a stream. An error means that nobody reads any
// more: the stream should end.
type Emit func(agent.LLMEvent) error

// Streamer calls a model. It emits events up to and including the terminal
// one. An error before the first event is an invocation error; a later one
// becomes an error event of kind transient.
type Streamer func(ctx context.Context, r Request, emit Emit) error

// Deps is what Endpoints needs.
type Deps struct {
	Name     string
	Channels channel.Broker
	Clock    clock.Clock
	Logger   *slog.Logger
}

// ErrNoFinal is returned by a Streamer that ends on purpose without a terminal
// event; the channel is closed as it is.
var ErrNoFinal = errors.New("provider: stream ended without a final event")

// Endpoints is provider::<name>::stream and provider::<name>::complete.
func Endpoints(d Deps, stream Streamer) map[string]bus.Endpoint {
	s := &server{deps: d, stream: stream}
	return map[string]bus.Endpoint{
		"provider::" + d.Name + "::stream":   bus.Typed(s.serveStream),
		"provider::" + d.Name + "::complete": bus.Typed(s.serveComplete),
	}
}

type server struct {
	deps   Deps
	stream Streamer
}

func (s *server) serveStream(ctx context.Context, _ *bus.Call, r Request) (StreamResponse, error) {
	if r.WriterRef == nil {
		return StreamResponse{}, bus.Missing("writer_ref")
	}
	w, err := s.deps.Channels.OpenWriter(*r.WriterRef)
	if err != nil {
		return StreamResponse{}, fmt.Errorf("provider %s: writer_ref: %w", s.deps.Name, err)
	}
	defer func() {
		if cerr := w.Close(); cerr != nil {
			s.deps.Logger.Warn("channel not closed", "provider", s.deps.Name, "error", cerr)
		}
	}()
	acc := agent.NewAccumulator(s.deps.Name, r.Model, clock.Millis(s.deps.Clock.Now()))
	started := false
	emit := func(e agent.LLMEvent) error {
		started = true
		acc.Apply(e)
		b, err := bus.Encode(e)
		if err != nil {
			return err
		}
		return w.Write(ctx, channel.Message{Data: b})
	}
	err = s.stream(ctx, r, emit)
	switch {
	case err == nil || errors.Is(err, ErrNoFinal):
		return StreamResponse{OK: true}, nil
	case !started:
		return StreamResponse{}, err
	case acc.Done() || errors.Is(err, channel.ErrReaderGone):
		return StreamResponse{OK: true}, nil
	}
	if err := emit(Failure(acc.Message(), agent.ErrTransient, err.Error())); err != nil {
		s.deps.Logger.Info("reader left before the error event", "provider", s.deps.Name, "error", err)
	}
	return StreamResponse{OK: true}, nil
}

func (s *server) serveComplete(ctx context.Context, _ *bus.Call, r Request) (agent.Message, error) {
	acc := agent.NewAccumulator(s.deps.Name, r.Model, clock.Millis(s.deps.Clock.Now()))
	started := false
	err := s.stream(ctx, r, func(e agent.LLMEvent) error {
		started = true
		acc.Apply(e)
		return nil
	})
	if err != nil && !started {
		return agent.Message{}, err
	}
	if !acc.Done() {
		text := "channel closed without final"
		if err != nil && !errors.Is(err, ErrNoFinal) {
			text = err.Error()
		}
		acc.Apply(Failure(acc.Message(), agent.ErrTransient, text))
	}
	return acc.Message(), nil
}

// Failure is the error event of a call that failed after so much of the
// message was seen.
func Failure(soFar agent.Message, kind agent.ErrorKind, text string) agent.LLMEvent {
	m := soFar
	m.StopReason, m.ErrorMessage, m.ErrorKind = agent.StopError, &text, &kind
	if len(m.Content) == 0 {
		m.Content = []agent.Block{agent.Text(text)}
	}
	return agent.LLMEvent{Type: agent.LLMError, Err: &m}
}
