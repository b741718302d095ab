package protocol

import "encoding/json"

// The ids of registration frames are free strings. Nothing answers a registration that succeeds.

// RegisterFunction offers a function. Opaque members are nil if absent or null.
type RegisterFunction struct {
	ID             string
	Description    string
	RequestFormat  json.RawMessage // JSON Schema of the payload
	ResponseFormat json.RawMessage // JSON Schema of the result
	Metadata       json.RawMessage
	// Invocation is the object that describes an HTTP request which the bus makes itself; nil: the worker has a handler.
	Invocation json.RawMessage
}

// UnregisterFunction withdraws the sender's own registration.
type UnregisterFunction struct {
	ID string
}

// RegisterTrigger binds a function to a trigger type. The bus forwards it to the provider of the type.
type RegisterTrigger struct {
	ID          string
	TriggerType string
	FunctionID  string
	// Config is {} if absent; an explicit null stays null.
	Config   json.RawMessage
	Metadata json.RawMessage
	// Namespace is where the function lives, TriggerNamespace where the provider does; nil for the default rules. Blank
	// names are kept, because they are an error of their own (BlankNamespace).
	Namespace        *string
	TriggerNamespace *string
}

// UnregisterTrigger removes a binding. Workers may leave the trigger type out.
type UnregisterTrigger struct {
	ID          string
	TriggerType string
}

// TriggerRegistrationResult is the provider's answer to a RegisterTrigger, and the bus's message that a binding failed.
type TriggerRegistrationResult struct {
	ID          string
	TriggerType string
	FunctionID  string
	Error       *Error
}

// RegisterTriggerType makes the sender the provider of a trigger type.
type RegisterTriggerType struct {
	ID                   string
	Description          string
	TriggerRequestFormat json.RawMessage // JSON Schema of a binding's config
	CallRequestFormat    json.RawMessage // JSON Schema of what a firing delivers
	ConfigSchema         json.RawMessage // older name of TriggerRequestFormat
	Namespace            *string
}

// UnregisterTriggerType withdraws a trigger type.
type UnregisterTriggerType struct {
	ID          string
	Description string
}

// RegisterService groups functions under a name. No current SDK sends it.
type RegisterService struct {
	ID              string
	Name            string
	Description     string
	ParentServiceID string
}

// Codes of RegistrationRejected. Workers take any other code for fatal and do not come back.
const (
	RejectedFunction = "FUNCTION_NAMESPACE_CONFLICT"
	RejectedWorker   = "WORKER_NAMESPACE_CONFLICT" // sent by the iii engine, never by this bus
)

// RegistrationRejected says that a registration was not taken. One of WorkerName and FunctionID is set.
type RegistrationRejected struct {
	Code          string
	Namespace     string
	WorkerName    string
	FunctionID    string
	OwnerWorkerID string // may be empty, and is sent all the same
}

// Type returns TypeRegisterFunction.
func (*RegisterFunction) Type() Type { return TypeRegisterFunction }

// Type returns TypeUnregisterFunction.
func (*UnregisterFunction) Type() Type { return TypeUnregisterFunction }

// Type returns TypeRegisterTrigger.
func (*RegisterTrigger) Type() Type { return TypeRegisterTrigger }

// Type returns TypeUnregisterTrigger.
func (*UnregisterTrigger) Type() Type { return TypeUnregisterTrigger }

// Type returns TypeTriggerRegistrationResult.
func (*TriggerRegistrationResult) Type() Type { return TypeTriggerRegistrationResult }

// Type returns TypeRegisterTriggerType.
func (*RegisterTriggerType) Type() Type { return TypeRegisterTriggerType }

// Type returns TypeUnregisterTriggerType.
func (*UnregisterTriggerType) Type() Type { return TypeUnregisterTriggerType }

// Type returns TypeRegisterService.
func (*RegisterService) Type() Type { return TypeRegisterService }

// Type returns TypeRegistrationRejected.
func (*RegistrationRejected) Type() Type { return TypeRegistrationRejected }
