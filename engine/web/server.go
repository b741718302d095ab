package web

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"reflect"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/iii-aws/harness/engine/channel"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/internal/input"
	"github.com/iii-aws/harness/engine/trigger"
)

// Limits of a server.
const (
	// Timeout is how long a request may take until its answer begins.
	Timeout = 30 * time.Second
	// MaxRequests run at a time.
	MaxRequests = 512
	// MaxJSON and MaxBody bound a body of a JSON type, and any other, in bytes.
	MaxJSON = 10 << 20
	MaxBody = 64 << 20
	// maxBuffered bounds the JSON bodies of all requests together.
	maxBuffered = 256 << 20
	// pieceTimeout is how long a client may take to send or take a piece of a body.
	pieceTimeout = 30 * time.Second
)

// Caller calls functions for the principal of a binding. *trigger.Dispatcher is one.
type Caller interface {
	Call(ctx context.Context, b trigger.Binding, functionID string, f trigger.Firing) (json.RawMessage, error)
}

// Config is what a Server needs.
type Config struct {
	Caller Caller
	// Channels carry bodies; nil: there are none, and functions get no refs.
	Channels channel.Broker
	Clock    clock.Clock
	IDs      clock.IDs
	// Logger may be nil.
	Logger *slog.Logger
	// Middleware are functions of the default namespace that every request passes first.
	Middleware []string
}

// Server serves the routes that are bound. It is safe for concurrent use; it implements trigger.Provider and
// http.Handler.
type Server struct {
	cfg      Config
	log      *slog.Logger
	routes   *routes
	slots    chan struct{}
	buffered atomic.Int64
	// maxJSON and maxBody are MaxJSON and MaxBody, but in tests.
	maxJSON, maxBody int64
}

// New is a server without routes.
func New(cfg Config) (*Server, error) {
	if cfg.Caller == nil || cfg.Clock == nil || cfg.IDs == nil {
		return nil, errors.New("web: Caller, Clock and IDs are required")
	}
	s := &Server{cfg: cfg, log: cfg.Logger, routes: newRoutes(), slots: make(chan struct{}, MaxRequests), maxJSON: MaxJSON, maxBody: MaxBody}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	return s, nil
}

// Type describes the trigger type.
func Type() trigger.Type {
	return trigger.Type{
		ID: "http", Description: "Serves a function as an HTTP endpoint",
		Config: input.Schema(reflect.TypeFor[config]()), Payload: input.Schema(reflect.TypeFor[payload]()), Result: input.Schema(reflect.TypeFor[response]()),
	}
}

// Bind serves a route. Errors: trigger_registration_failed, for a config that is none and a route that is taken.
func (s *Server) Bind(_ context.Context, b trigger.Binding) error {
	r, err := readRoute(b)
	if err != nil {
		return err
	}
	return s.routes.put(r)
}

// Unbind ends the route of a binding. Requests that run go on.
func (s *Server) Unbind(id string) { s.routes.remove(id) }

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	default:
		w.Header().Set("Retry-After", "1")
		writeError(w, http.StatusServiceUnavailable, failure{Code: "UNAVAILABLE", Message: "Too many requests run at the moment"})
		return
	}
	out := &output{ResponseWriter: w, control: http.NewResponseController(w)}
	defer func() {
		value := recover()
		if value == nil {
			return
		}
		if value != http.ErrAbortHandler {
			s.log.Error("a request panicked", "alarm", "handler_panic", "stack", string(debug.Stack()))
			if !out.begun {
				writeError(out, http.StatusInternalServerError, failure{Code: "INTERNAL", Message: "Internal error"})
				return
			}
		}
		panic(http.ErrAbortHandler)
	}()
	found, params, allowed := s.routes.find(r.Method, r.URL.EscapedPath())
	switch {
	case found != nil:
		s.exchange(out, r, found, params).run()
	case len(allowed) > 0:
		methodNotAllowed(out, allowed)
	default:
		writeError(out, http.StatusNotFound, failure{Code: "NOT_FOUND", Message: "Not Found"})
	}
}
