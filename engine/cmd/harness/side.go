package main

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/iii-aws/harness/engine/channel"
	"github.com/iii-aws/harness/engine/otlp"
	"github.com/iii-aws/harness/internal/agent"
)

// openSide makes what is served beside the bus on its address: the ends of
// channels and the telemetry of workers.
func (s *stack) openSide() error {
	var forward *otlp.Forwarder
	if to := s.config.Telemetry.Endpoint; to != "" {
		var err error
		if forward, err = otlp.NewForwarder(to, nil, s.logger); err != nil {
			return err
		}
		s.onClose(func(context.Context) error { return forward.Close() })
	}
	s.collector = otlp.NewCollector(otlp.Config{Clock: s.clock, Logger: s.logger, Forward: forward, Admit: func(r *http.Request) (int, error) { return s.gateway.AdmitLocal(r) }})
	s.sockets = channel.NewSockets(channel.SocketConfig{Broker: s.channels, Logger: s.logger, Admit: func(r *http.Request) (int, error) { return s.gateway.AdmitSide(r) },
		Edge: func() func([]byte) []byte { return agent.NewRepeater().Next }})
	s.onClose(func(ctx context.Context) error { return errors.Join(s.sockets.Close(ctx), s.collector.Close(ctx)) })
	return nil
}

// busHandler serves the address of the bus. Behind API Gateway there are no
// other paths, and so there are none with --strict.
func (s *stack) busHandler() http.Handler {
	if s.strict != nil {
		return s.gateway
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, channel.SocketPath):
			s.sockets.ServeHTTP(w, r)
		case r.URL.Path == "/otel":
			s.collector.ServeHTTP(w, r)
		default:
			s.gateway.ServeHTTP(w, r)
		}
	})
}

// telemetryOf takes what a worker sends over its own socket.
func (s *stack) telemetryOf(_, workerID, kind string, payload []byte) {
	s.collector.Receive(workerID, otlp.Kind(kind), payload)
}
