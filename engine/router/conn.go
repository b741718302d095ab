package router

import (
	"context"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
)

// Conn is one worker socket as the router sees it. The gateway implements it and tells the router of everything the
// socket sends:
//
//	Attach            once, before any frame of the socket
//	FixNamespace      when the time for an announce is over; an announce does it by itself
//	RegisterFunction, UnregisterFunction, RegisterTrigger, UnregisterTrigger, RegisterTriggerType, UnregisterTriggerType
//	                  for the frames of these names, in the order they came, once the namespace is fixed
//	HandleTriggerResult
//	                  for every triggerregistrationresult, at once, in the order they came
//	HandleInvoke      for every invokefunction, at once, in the order they came
//	HandleResult      for every invocationresult, at once, in the order they came
//	Reattach          for every reattach, at once
//	Detach            once, when the socket has ended
//
// None of these methods runs a handler of a built-in function itself, so the loop that reads the socket may call them
// directly. They block only where Send of another connection does, a slow receiver holds its senders back, and Detach
// where Config.Gone does.
type Conn interface {
	// ID names the connection. It is unique for the life of the process.
	ID() string
	// WorkerID is the UUID that was minted for the connection.
	WorkerID() string
	// ReattachToken is the secret that was minted for the connection: with it the worker comes back. It was told to the
	// worker with the worker id, and to nobody else.
	ReattachToken() string
	// Principal is who the connection is. It does not change.
	Principal() bus.Principal
	// MayActForOthers reports whether the connection's token has the scope act_as.
	MayActForOthers() bool
	// RemoteIP is the address of the peer, for lists; empty if not known.
	RemoteIP() string
	// Send puts a frame into the bounded outbound queue and returns; it waits while the queue is full. Frames of one
	// sender keep their order. Errors: bus.ErrGone once the connection is closed, bus.ErrTooLarge for a frame above its
	// limit, else that of ctx. After an error nothing of the frame is sent.
	Send(ctx context.Context, f protocol.Frame) error
	// Close ends the connection, because its worker has another. It does not wait.
	Close()
	// Unsent is called by Detach, once. From then on Send fails with bus.ErrGone. It returns the frames that Send took and
	// that have certainly not reached the peer, in order.
	Unsent() []protocol.Frame
	// Cut reports, once the connection has ended, whether it did so otherwise than by a Close of its peer.
	Cut() bool
	// NamespaceFixed is called once, when the namespace of the connection is known. It must not call the router.
	NamespaceFixed(namespace string)
}

// Caller is a socket that asks for something.
type Caller struct {
	// Conn is its connection, which may have ended.
	Conn       Conn
	Connection string
	WorkerID   string
	// Namespace is that of the connection; empty while it is not fixed.
	Namespace string
	// Principal is that of the connection itself, not for whom it acts.
	Principal bus.Principal
}

// Access decides what a socket may do. Errors travel to the socket as they are: give them the code FORBIDDEN and a text
// that says which list to edit. Implementations are safe for concurrent use and do not block.
type Access interface {
	// Call decides about one call, enqueue included.
	Call(c Caller, namespace, functionID string) error
	// Register decides about a registration of a function or a trigger type. Ids that start with engine:: are refused before it is asked.
	Register(c Caller, namespace, functionID string) error
	// Namespace decides whether the connection may live in a namespace.
	Namespace(c Caller, namespace string) error
	// Bind decides about a trigger of a type that calls a function.
	Bind(c Caller, triggerType, namespace, functionID string) error
}

// Triggers takes the trigger frames of sockets. Errors become the error of a triggerregistrationresult.
type Triggers interface {
	// Register adds or replaces a binding that lives as long as the connection.
	Register(ctx context.Context, c Caller, f *protocol.RegisterTrigger) error
	// Unregister removes a binding of the connection; any other is left alone.
	Unregister(c Caller, id string)
	// RegisterType makes the connection the provider of a trigger type.
	RegisterType(c Caller, f *protocol.RegisterTriggerType) error
	// UnregisterType ends that.
	UnregisterType(c Caller, id string)
	// Result takes a provider's answer to a binding.
	Result(c Caller, f *protocol.TriggerRegistrationResult)
	// Move hands the bindings and types of a connection to the one that follows it.
	Move(from, to string)
	// Prune removes what was moved to a connection and was not registered there since.
	Prune(connection string)
	// Drop removes all bindings and types of a connection.
	Drop(connection string)
}
