package protocol

import "encoding/json"

// ActionType says how a call is made when it is not a plain synchronous one.
type ActionType string

// The action types.
const (
	// ActionVoid is a call nobody waits for: no result comes back.
	ActionVoid ActionType = "void"
	// ActionEnqueue hands the call to a queue; the result is the receipt.
	ActionEnqueue ActionType = "enqueue"
)

// Action is the member "action" of an InvokeFunction.
type Action struct {
	Type  ActionType
	Queue string // name of the queue, with ActionEnqueue
}

// InvokeFunction calls a function.
type InvokeFunction struct {
	// InvocationID is the UUID the caller made, spelled as the caller wrote it; compare by CanonicalID. Empty: nobody
	// waits for a result.
	InvocationID string
	FunctionID   string
	// Data is the payload. A frame without data decodes to null, and nil encodes as null.
	Data json.RawMessage
	// Metadata is what travels beside the payload; nil if absent or null.
	Metadata    json.RawMessage
	Traceparent string // W3C trace context, verbatim
	Baggage     string // W3C baggage, verbatim
	Action      *Action
	// Namespace is nil for the default one. A blank name is kept, because it is an error of its own (BlankNamespace).
	Namespace *string
}

// InvocationResult answers an InvokeFunction.
type InvocationResult struct {
	// InvocationID is a UUID, spelled as the sender wrote it; compare by CanonicalID.
	InvocationID string
	// FunctionID may be empty in what a worker sends: the call it answers knows it.
	FunctionID string
	// Result is nil if absent, which is not the same as null: only a stored null reads as null.
	Result json.RawMessage
	// Error ends the call with a failure. A result beside it is dropped in both directions.
	Error       *Error
	Traceparent string
	Baggage     string
}

// Reattach is the first frame of a worker that had a connection before.
type Reattach struct {
	PreviousWorkerID string
	ReattachToken    string
}

// WorkerRegistered is the first frame the bus sends.
type WorkerRegistered struct {
	WorkerID      string
	ReattachToken string
}

// Type returns TypeInvokeFunction.
func (*InvokeFunction) Type() Type { return TypeInvokeFunction }

// Type returns TypeInvocationResult.
func (*InvocationResult) Type() Type { return TypeInvocationResult }

// Type returns TypeReattach.
func (*Reattach) Type() Type { return TypeReattach }

// Type returns TypeWorkerRegistered.
func (*WorkerRegistered) Type() Type { return TypeWorkerRegistered }
