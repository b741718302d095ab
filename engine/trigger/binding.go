package trigger

import (
	"bytes"
	"context"
	"encoding/json"
	"sync/atomic"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/registry"
)

// The trigger types whose changes a Dispatcher delivers.
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

// binding is one trigger. But for its connection, and for who serves it, it does not change; it is replaced as a whole.
type binding struct {
	id, kind              string
	namespace, functionID string
	// provider is the namespace that was asked for as that of the type's provider; empty for the usual rules, which begin
	// with home.
	provider, home   string
	config, metadata json.RawMessage
	// condition is the function that the config names as its condition; empty if none.
	condition string
	principal bus.Principal
	origin    origin
	// connection is the socket that a connected binding belongs to; nil for others.
	connection atomic.Pointer[string]
	// external bindings were made by a socket: they may not reach internal functions.
	external bool

	// served is who has the binding; nil for a parked one. refused is who would not have it. The table's mu guards both.
	served, refused *source
	// ended: its maker may nothing any more, and nobody gets it. The table's mu guards it.
	ended bool
	// moved: its worker has a new connection, and has not yet registered it there. The table's changing guards it.
	moved bool
	// life ends with the binding.
	life context.Context
	end  context.CancelFunc
	// lanes are those of a connected binding.
	lanes lanes
}

func newBinding(id, kind, namespace, functionID string, config, metadata json.RawMessage) *binding {
	b := &binding{
		id: id, kind: kind, namespace: namespace, functionID: functionID, home: bus.DefaultNamespace,
		config: config, metadata: metadata, condition: condition(config),
	}
	b.life, b.end = context.WithCancel(context.Background())
	if b.namespace == "" {
		b.namespace = bus.DefaultNamespace
	}
	if len(b.config) == 0 {
		b.config = json.RawMessage("{}")
	}
	return b
}

// equal reports whether two bindings of one id ask for the same.
func (b *binding) equal(other *binding) bool {
	return b.kind == other.kind && b.namespace == other.namespace && b.functionID == other.functionID &&
		b.provider == other.provider && b.home == other.home &&
		bytes.Equal(b.config, other.config) && bytes.Equal(b.metadata, other.metadata)
}

// conn is the socket that the binding belongs to now.
func (b *binding) conn() string {
	if c := b.connection.Load(); c != nil {
		return *c
	}
	return ""
}

// view is the binding as its provider sees it.
func (b *binding) view() Binding {
	return Binding{
		ID: b.id, Type: b.kind, Namespace: b.namespace, FunctionID: b.functionID, Config: b.config, Metadata: b.metadata,
		Principal: b.principal, External: b.external, Connection: b.conn(), own: b,
	}
}

// row is the binding as lists show it.
func (b *binding) row() registry.Trigger {
	return registry.Trigger{
		ID: b.id, Type: b.kind, Namespace: b.namespace, FunctionID: b.functionID, Config: b.config, Metadata: b.metadata,
	}
}
