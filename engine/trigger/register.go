package trigger

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/router"
)

// Declaration is a trigger in the manifest of a built-in worker.
type Declaration struct {
	Type       string
	FunctionID string
	// Config is {} if nil.
	Config   json.RawMessage
	Metadata json.RawMessage
}

// Declare adds the triggers of a built-in worker; it is called once for each. Their functions are called for the bus itself. The error names the
// trigger and what is wrong with it; none is added then.
func (t *Table) Declare(worker string, list []Declaration) error {
	bindings := make([]*binding, len(list))
	for i, d := range list {
		b := newBinding(fmt.Sprintf("%s/%s/%s/%d", worker, d.FunctionID, d.Type, i), d.Type, bus.DefaultNamespace, d.FunctionID, d.Config, d.Metadata)
		b.principal, b.origin = bus.System(), declared
		bindings[i] = b
	}
	t.changing.Lock()
	defer t.changing.Unlock()
	for i, b := range bindings {
		if err := t.put(context.Background(), b); err != nil {
			for _, done := range bindings[:i] {
				t.drop(done)
			}
			return fmt.Errorf("trigger: worker %s: %s trigger of %s: %w", worker, b.kind, b.functionID, err)
		}
	}
	return nil
}

// Register adds a binding that lives as long as its connection, or replaces the one of its id. Errors are *bus.Error:
// trigger_registration_failed for a config that is none, an id in use by somebody else or a connection that is not in
// the registry, FORBIDDEN for an internal function.
func (t *Table) Register(ctx context.Context, c router.Caller, f *protocol.RegisterTrigger) error {
	b := newBinding(f.ID, f.TriggerType, text(f.Namespace), f.FunctionID, f.Config, f.Metadata)
	b.provider, b.principal, b.origin, b.external = text(f.TriggerNamespace), c.Principal, connected, true
	b.connection.Store(&c.Connection)
	b.home = namespaceOf(c)
	if err := t.check(b); err != nil {
		return err
	}
	t.changing.Lock()
	defer t.changing.Unlock()
	if err := t.open(c.Connection); err != nil {
		return err
	}
	if other := t.find(b.id); other != nil && (other.origin != connected || other.principal.ID != c.Principal.ID) {
		return failed("Trigger id '" + b.id + "' is in use.")
	}
	return t.put(ctx, b)
}

// open refuses a connection that has left the registry: its Drop may be over, and nothing would end what comes later. The
// caller holds changing.
func (t *Table) open(connection string) error {
	if _, ok := t.cfg.Registry.Worker(connection); !ok {
		return failed("The connection is closed.")
	}
	return nil
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// Unregister removes a binding of the connection; any other is left alone.
func (t *Table) Unregister(c router.Caller, id string) {
	t.changing.Lock()
	defer t.changing.Unlock()
	if b := t.find(id); b != nil && b.origin == connected && b.conn() == c.Connection {
		t.drop(b)
	}
}

// check refuses what cannot be bound, whatever the type.
func (t *Table) check(b *binding) error {
	if len(b.config)+len(b.metadata) > MaxConfig {
		return failed(fmt.Sprintf("The config and the metadata of a trigger may have at most %d bytes.", MaxConfig))
	}
	return t.reachable(b.view(), b.condition)
}

// reachable refuses bindings of sockets to internal functions, unless the same connection serves them. It is asked when
// a binding is made and whenever it fires, because a function may come later.
func (t *Table) reachable(b Binding, asked string) error {
	if !b.External {
		return nil
	}
	connection := b.Connection
	if b.own != nil {
		connection = b.own.conn()
	}
	for _, id := range [...]string{b.FunctionID, asked} {
		e, ok := t.cfg.Registry.Lookup(b.Namespace, id)
		if ok && e.Meta.Internal && (e.Connection == "" || e.Connection != connection) {
			return &bus.Error{
				Code: protocol.CodeForbidden, Message: "Function " + id + " is internal to the bus: no trigger of a connection may call it.",
			}
		}
	}
	return nil
}
