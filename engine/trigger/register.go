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
		b := newBinding(fmt.Sprintf("%s/%s/%s/%d", worker, d.FunctionID, d.Type, i), d.Type, bus.DefaultNamespace, d.FunctionID)
		b.config, b.metadata, b.principal, b.origin = d.Config, d.Metadata, bus.System(), declared
		if err := b.configure(); err != nil {
			return fmt.Errorf("trigger: worker %s: %s trigger of %s: %w", worker, d.Type, d.FunctionID, err)
		}
		bindings[i] = b
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, b := range bindings {
		t.put(b)
	}
	return nil
}

// Register adds a binding that lives as long as its connection, or replaces the one of its id. Errors are *bus.Error:
// trigger_registration_failed for a config that is none or an id in use by somebody else, FORBIDDEN for an internal
// function.
func (t *Table) Register(_ context.Context, c router.Caller, f *protocol.RegisterTrigger) error {
	b := newBinding(f.ID, f.TriggerType, "", f.FunctionID)
	if f.Namespace != nil {
		b.namespace = *f.Namespace
	}
	if f.TriggerNamespace != nil {
		b.provider = *f.TriggerNamespace
	}
	b.config, b.metadata, b.principal = f.Config, f.Metadata, c.Principal
	b.origin, b.connection, b.external = connected, c.Connection, true
	if err := b.configure(); err != nil {
		return err
	}
	if err := t.reachable(b); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if other := t.all[b.id]; other != nil && (other.origin != connected || other.principal.ID != c.Principal.ID) {
		return failed("Trigger id '" + b.id + "' is in use.")
	}
	t.put(b)
	return nil
}

// Unregister removes a binding of the connection; any other is left alone.
func (t *Table) Unregister(c router.Caller, id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if b := t.all[id]; b != nil && b.origin == connected && b.connection == c.Connection {
		t.drop(id)
	}
}

// Drop removes all bindings of a connection.
func (t *Table) Drop(connection string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, b := range t.all {
		if b.origin == connected && b.connection == connection {
			t.drop(id)
		}
	}
}

// reachable refuses bindings of sockets to internal functions, unless the same connection serves them. It is asked when
// a binding is made and whenever it fires, because a function may come later.
func (t *Table) reachable(b *binding) error {
	if !b.external {
		return nil
	}
	ids := []string{b.functionID}
	if b.match != nil && b.match.condition != "" {
		ids = append(ids, b.match.condition)
	}
	for _, id := range ids {
		e, ok := t.cfg.Registry.Lookup(b.namespace, id)
		if ok && e.Meta.Internal && (e.Connection == "" || e.Connection != b.connection) {
			return &bus.Error{
				Code: protocol.CodeForbidden, Message: "Function " + id + " is internal to the bus: no trigger of a connection may call it.",
			}
		}
	}
	return nil
}
