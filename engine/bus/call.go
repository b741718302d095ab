// Package bus is what a worker sees: calls, handlers and the one primitive to
// reach other functions.
//
// # Contract
//
// A function is named namespace::name and takes and returns JSON. A worker
// serves functions by handlers and reaches others through an Invoker. Who
// calls, for whom, until when and under which idempotency key travels in the
// Call and is set by the host, never by a socket.
//
// # Ordering and delivery
//
// Handlers run concurrently. Delivery inside is at least once: a function that
// is not idempotent is protected by the bus, which runs one invocation id once.
//
// # Failure and retry
//
// An error travels as code and message. Errors that carry a code implement
// Coded; anything else becomes invocation_failed. A panic in a handler is
// contained by the host and reported as invocation_failed.
package bus

import (
	"context"
	"encoding/json"
	"time"
)

// DefaultTimeout is how long a synchronous call may take unless it says
// otherwise.
const DefaultTimeout = 30 * time.Second

// DefaultNamespace is the namespace of ids that name none.
const DefaultNamespace = "default"

// Call is one invocation as its handler sees it.
type Call struct {
	// InvocationID is a UUID; duplicates of it run once.
	InvocationID string
	FunctionID   string
	Namespace    string
	// Data is the payload as the caller wrote it; never nil, "null" if absent.
	Data json.RawMessage
	// Metadata is the caller's metadata without the members that the bus
	// owns; nil if none.
	Metadata json.RawMessage
	// Principal is for whom the call is made.
	Principal Principal
	// IdempotencyKey is equal for repeats of one logical call; may be empty.
	IdempotencyKey string
	// Reply is set on calls of a turn, see Reply.
	Reply *Reply
	// Deadline is when the caller stops waiting; zero if it never does.
	Deadline time.Time
	// Traceparent and Baggage are W3C strings.
	Traceparent string
	Baggage     string
	// Worker names the built-in worker that calls; empty for a socket.
	Worker string
	// Connection identifies the socket that calls; empty for built-in workers.
	Connection string
}

// Reply asks whoever finishes the call later than After to write the result as
// a row of scope call_results, key SessionID/FunctionCallID.
type Reply struct {
	SessionID      string `json:"session_id"`
	FunctionCallID string `json:"function_call_id"`
	Run            string `json:"run"`
	// AfterMS is how long, in milliseconds, the caller waits itself.
	AfterMS int64 `json:"after_ms"`
}

// Handler serves one function. A nil result means "no value".
type Handler func(ctx context.Context, call *Call) (json.RawMessage, error)

// ActionKind says what the caller waits for.
type ActionKind string

// The actions of an invocation.
const (
	// Sync waits for the result.
	Sync ActionKind = ""
	// Void waits for nothing and hears of no error after dispatch.
	Void ActionKind = "void"
	// Enqueue waits until the call is durably queued.
	Enqueue ActionKind = "enqueue"
)

// Invocation is a call as a caller makes it.
type Invocation struct {
	FunctionID string
	// Namespace defaults to DefaultNamespace.
	Namespace string
	Data      json.RawMessage
	Metadata  json.RawMessage
	Action    ActionKind
	// Queue is the target of Enqueue.
	Queue string
	// Timeout defaults to DefaultTimeout; the context may end it sooner.
	Timeout time.Duration
	// Principal is for whom the call is made; nil takes it from the call that
	// is being served, else the calling worker itself.
	Principal      *Principal
	IdempotencyKey string
	// InvocationID is minted if empty.
	InvocationID string
	// Reply see Reply. A sync call with it that is not answered within
	// Reply.AfterMS, or whose target is marked slow, fails with ErrAwaiting;
	// its result will be written as a row.
	Reply *Reply
}

// Invoker is the one way to another function. Implementations are safe for
// concurrent use.
type Invoker interface {
	// Invoke calls a function. Sync: the result, nil for "no value". Void:
	// nil at once. Enqueue: {"messageReceiptId"} once the message is stored.
	// Errors: *Error with the callee's code and message; code
	// function_not_found if nobody serves the id; code timeout when the
	// timeout ended first (the callee goes on); ErrAwaiting as Reply says.
	Invoke(ctx context.Context, in Invocation) (json.RawMessage, error)
}

// Kind is what serves a function.
type Kind string

// The kinds of a target.
const (
	KindBuiltin Kind = "builtin"
	KindSocket  Kind = "socket"
	KindHTTP    Kind = "http"
)

// Meta is the part of a registration's metadata that the bus acts on.
type Meta struct {
	// Idempotent: a repeat with the same idempotency key is safe.
	Idempotent bool `json:"idempotent,omitempty" yaml:"idempotent"`
	// Slow: a turn never waits for it.
	Slow bool `json:"slow,omitempty" yaml:"slow"`
	// Sensitive: the result is never stored or shown in traces.
	Sensitive bool `json:"sensitive,omitempty" yaml:"sensitive"`
	// Internal: not callable from a socket or by an agent, not listed.
	Internal bool `json:"internal,omitempty" yaml:"internal"`
	// TimeoutMS overrides DefaultTimeout, in milliseconds.
	TimeoutMS int64 `json:"timeout_ms,omitempty" yaml:"timeout_ms"`
	// Preview is a function of the same worker that shows a person what a call
	// would change: {function_id, arguments} -> {diff}.
	Preview string `json:"preview,omitempty" yaml:"preview"`
}

// Entry is the registration that serves an id now.
type Entry struct {
	FunctionID     string
	Namespace      string
	WorkerID       string
	WorkerName     string
	Kind           Kind
	Connection     string
	Description    string
	Metadata       json.RawMessage
	Meta           Meta
	RequestSchema  json.RawMessage
	ResponseSchema json.RawMessage
	RegisteredAt   time.Time
}

// Directory answers who serves what now.
type Directory interface {
	// Lookup is the entry that would get a call now. Away entries of sticky
	// ids answer ok=false.
	Lookup(namespace, functionID string) (Entry, bool)
	// List is every visible top entry of a namespace, sorted by id.
	List(namespace string) []Entry
}

// Push is an invokefunction without an id, posted to one connection.
type Push struct {
	Connection string
	FunctionID string
	Data       json.RawMessage
}

// Poster posts to connections.
type Poster interface {
	// Post returns when the frame is in the connection's buffer or ctx ends.
	// Frames of one caller to one connection keep their order. Errors:
	// ErrGone if the connection is gone for good, ErrNotRegistered if it has
	// not registered the function id, ErrTooLarge above its frame limit.
	Post(ctx context.Context, p Push) error
}
