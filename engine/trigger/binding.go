package trigger

import (
	"context"
	"encoding/json"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/registry"
)

// The trigger types that the bus provides.
const (
	TypeState  = "state"
	TypeStream = "stream"
)

// origin is where a binding comes from.
type origin uint8

const (
	declared  origin = iota // by the manifest of a built-in worker
	stored                  // by engine::register_trigger
	connected               // by a connection
)

// binding is one trigger. It does not change; it is replaced as a whole.
type binding struct {
	id, kind              string
	namespace, functionID string
	// provider is the namespace that was asked for as that of the type's provider; empty for the usual rules.
	provider         string
	config, metadata json.RawMessage
	principal        bus.Principal
	origin           origin
	// connection is the socket that a connected binding belongs to.
	connection string
	// external bindings were made by a socket: they may not reach internal functions.
	external bool

	// match is nil for a parked binding.
	match *match
	// life ends with the binding.
	life context.Context
	end  context.CancelFunc
	// lanes are those of a connected binding.
	lanes lanes
}

func newBinding(id, kind, namespace, functionID string) *binding {
	b := &binding{id: id, kind: kind, namespace: namespace, functionID: functionID}
	b.life, b.end = context.WithCancel(context.Background())
	if b.namespace == "" {
		b.namespace = bus.DefaultNamespace
	}
	return b
}

// configure reads the config of a type that the bus provides; any other parks the binding. The error has the code
// trigger_registration_failed.
func (b *binding) configure() error {
	if len(b.config) == 0 {
		b.config = json.RawMessage("{}")
	}
	if b.provider != "" && b.provider != bus.DefaultNamespace {
		return nil
	}
	var err error
	switch b.kind {
	case TypeState:
		b.match, err = readState(b.config)
	case TypeStream:
		b.match, err = readStream(b.config)
	}
	return err
}

// row is the binding as lists show it.
func (b *binding) row() registry.Trigger {
	return registry.Trigger{
		ID: b.id, Type: b.kind, Namespace: b.namespace, FunctionID: b.functionID, Config: b.config, Metadata: b.metadata,
	}
}
