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
// becomes an error event of kind transient. It returns when ctx ends.
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
	write := func(e agent.LLMEvent) error {
		b, err := bus.Encode(e)
		if err != nil {
			return err
		}
		return w.Write(ctx, channel.Message{Data: b})
	}
	c := s.call(ctx, r, write)
	if c.refused() {
		return StreamResponse{}, c.err
	}
	if missing := c.missing(); missing != nil && !errors.Is(c.err, ErrNoFinal) {
		s.tell(ctx, write, *missing)
	}
	return StreamResponse{OK: true}, nil
}

// tell sends the error event of a stream that broke off, unless its reader has
// left or the caller has given up.
func (s *server) tell(ctx context.Context, write Emit, e agent.LLMEvent) {
	err := ctx.Err()
	if err == nil {
		err = write(e)
	}
	if err != nil {
		s.deps.Logger.Info("nobody was told how a model call ended", "provider", s.deps.Name, "error", err)
	}
}

func (s *server) serveComplete(ctx context.Context, _ *bus.Call, r Request) (agent.Message, error) {
	c := s.call(ctx, r, func(agent.LLMEvent) error { return nil })
	if c.refused() {
		return agent.Message{}, c.err
	}
	if missing := c.missing(); missing != nil {
		c.acc.Apply(*missing)
	}
	return c.acc.Message(), nil
}
