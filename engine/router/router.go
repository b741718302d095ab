package router

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/queue"
	"github.com/iii-aws/harness/engine/registry"
	"github.com/iii-aws/harness/engine/state"
)

// Defaults of a Config.
const (
	DefaultMaxAge     = 24 * time.Hour
	DefaultGrace      = 5 * time.Second
	DefaultDedupBytes = 8 << 20
)

// CodeFunctionUnavailable is the code of a call whose sticky function is away. It differs from function_not_found,
// because callers may do without a function that is not there, but not without one that was replaced.
const CodeFunctionUnavailable = "function_unavailable"

// Config is what a Router needs.
type Config struct {
	Registry *registry.Registry
	// State takes the rows of call_results.
	State state.Store
	// Queue takes enqueued calls; nil: there is no queue provider.
	Queue queue.Queue
	Clock clock.Clock
	IDs   clock.IDs
	// Logger may be nil.
	Logger *slog.Logger
	// Access decides what sockets may do; nil allows everything that is not internal.
	Access Access
	// Triggers takes the triggers of sockets; nil refuses them.
	Triggers Triggers
	// Remote calls functions that a web server backs; nil refuses their registration.
	Remote Remote
	// Grace is how long a worker that has lost its connection may take to come back; DefaultGrace if 0, none if negative.
	Grace time.Duration
	// Gone hears of a worker that is gone for good, by what its calls had as their Connection, once, after its grace:
	// nothing reaches the worker any more, and the calls that it was given have ended. Calls that it made may still run.
	// It must not fail or panic: nobody repeats it. Nil: nobody hears.
	Gone func(connection string)
	// WorkerEvent hears that a worker has connected, has said who it is, or is gone for good: in this order for each worker,
	// and of nothing after EventDisconnected. It must not block. Nil: nobody hears.
	WorkerEvent func(event, workerID string)
	// Wrap goes around every built-in handler; nil leaves them as they are.
	Wrap func(functionID string, meta bus.Meta, h bus.Handler) bus.Handler
	// Trace is the trace context of a call that is made now; nil takes it from the call that is being served.
	Trace func(ctx context.Context) (traceparent, baggage string)
	// Redact cleans the text of a panic for the log; nil leaves it out.
	Redact func(text string) string
	// MaxAge is when an unanswered call is forgotten; DefaultMaxAge if 0.
	MaxAge time.Duration
	// DedupBytes bounds the results that are kept for repeats; DefaultDedupBytes if 0.
	DedupBytes int
}

// Remote calls functions that a web server backs. Implementations are safe for concurrent use.
type Remote interface {
	// Check refuses an invocation object that Call could not use.
	Check(invocation json.RawMessage) error
	// Call makes the request and waits for its answer until ctx ends. A nil result means "no value".
	Call(ctx context.Context, invocation json.RawMessage, c *bus.Call) (json.RawMessage, error)
}

// Router is the bus within one process. It is safe for concurrent use. It implements bus.Poster.
type Router struct {
	cfg   Config
	log   *slog.Logger
	dedup *dedup

	// life orders what happens to connections. It is taken before mu and before the lock of a peer.
	life    sync.Mutex
	closing bool         // there is no grace any more
	absent  atomic.Int64 // workers in their grace
	loops   loops

	mu    sync.RWMutex
	peers map[string]*peer // by connection, former ones included
	// byWorker is the same by worker id.
	byWorker map[string]*peer
	// active counts the calls that each built-in worker serves or makes.
	active map[string]*counter

	// base ends every handler.
	base    context.Context
	stop    context.CancelFunc
	running tracker
}

// New is a router without workers.
func New(cfg Config) (*Router, error) {
	if cfg.Registry == nil || cfg.State == nil || cfg.Clock == nil || cfg.IDs == nil {
		return nil, errors.New("router: Registry, State, Clock and IDs are required")
	}
	if cfg.MaxAge == 0 {
		cfg.MaxAge = DefaultMaxAge
	}
	if cfg.Grace == 0 {
		cfg.Grace = DefaultGrace
	}
	if cfg.DedupBytes == 0 {
		cfg.DedupBytes = DefaultDedupBytes
	}
	if cfg.Wrap == nil {
		cfg.Wrap = func(_ string, _ bus.Meta, h bus.Handler) bus.Handler { return h }
	}
	if cfg.Trace == nil {
		cfg.Trace = traceOfCall
	}
	r := &Router{
		cfg: cfg, log: cfg.Logger, dedup: newDedup(cfg.Clock, cfg.DedupBytes),
		peers: map[string]*peer{}, byWorker: map[string]*peer{}, loops: loops{}, active: map[string]*counter{},
	}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	r.base, r.stop = context.WithCancel(context.Background())
	return r, nil
}

// Serve registers a built-in worker. Every function needs an endpoint; endpoints that no function names are left out.
// Schemas come from the endpoint where the function has none.
func (r *Router) Serve(w registry.Builtin, functions map[string]registry.Function, endpoints map[string]bus.Endpoint) error {
	described := make(map[string]registry.Function, len(functions))
	handlers := make(map[string]bus.Handler, len(functions))
	for id, f := range functions {
		e, ok := endpoints[id]
		if !ok || e.Handle == nil {
			continue // the registry names it in its error
		}
		if f.RequestSchema == nil {
			f.RequestSchema = e.Request
		}
		if f.ResponseSchema == nil {
			f.ResponseSchema = e.Response
		}
		described[id] = f
		handlers[id] = r.cfg.Wrap(id, f.Meta, e.Handle)
	}
	for id, f := range functions {
		if handlers[id] == nil {
			described[id] = f
		}
	}
	r.counter(w.Name)
	return r.cfg.Registry.RegisterBuiltin(w, described, handlers)
}

// Worker is how the built-in worker of that name calls others.
func (r *Router) Worker(name string) bus.Invoker { return invoker{r: r, worker: name} }

// Engine is how the bus itself calls, for a principal that the invocation names: triggers and the like. Callees see no
// calling worker.
func (r *Router) Engine() bus.Invoker { return invoker{r: r} }

// Active is how many calls a worker serves or waits for: by the connection of a socket, by the name of a built-in
// worker.
func (r *Router) Active(worker string) int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if p := r.peers[worker]; p != nil {
		return p.load()
	}
	if c := r.active[worker]; c != nil {
		return c.value()
	}
	return 0
}

// Close ends the contexts of all handlers and waits until what runs has ended, or ctx ends.
func (r *Router) Close(ctx context.Context) error {
	r.stop()
	select {
	case <-r.running.idle():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// traceOfCall is the trace context of the call that is being served.
func traceOfCall(ctx context.Context) (string, string) {
	if c := bus.CallFrom(ctx); c != nil {
		return c.Traceparent, c.Baggage
	}
	return "", ""
}

// resolve is the registration that serves a call now.
func (r *Router) resolve(namespace, functionID string) (*registry.Registration, error) {
	reg, st := r.cfg.Registry.Resolve(namespace, functionID)
	switch {
	case reg != nil:
		return reg, nil
	case st == registry.Away:
		return nil, &noTargetError{&bus.Error{
			Code:    CodeFunctionUnavailable,
			Message: "Function " + functionID + " in namespace " + namespace + " is unavailable: the worker that replaced it is away.",
		}}
	}
	return nil, &noTargetError{protocol.FunctionNotFound(functionID, namespace, r.cfg.Registry.Namespaces(functionID))}
}
