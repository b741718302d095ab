package trigger

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
)

// Binding is a trigger as its provider sees it.
type Binding struct {
	ID, Type string
	// Namespace is that of the function.
	Namespace, FunctionID string
	// Config is as the maker wrote it, {} if absent. It is JSON, but not checked beyond that.
	Config json.RawMessage
	// Metadata is nil if there is none.
	Metadata json.RawMessage
	// Principal is who made the binding, and for whom its function is called.
	Principal bus.Principal
	// External: a connection made it, so internal functions are out of its reach.
	External bool
	// Connection is the socket that the binding belonged to when it was bound; empty if it belongs to none.
	Connection string

	own *binding
}

// condition is the function that the config names as its condition; empty if none.
func (b Binding) condition() string {
	if b.own != nil {
		return b.own.condition
	}
	return condition(b.Config)
}

// Provider serves one trigger type of the bus. It fires a binding by Dispatcher.Fire. The table calls it for one binding
// at a time, and waits for it; it must not call the table.
type Provider interface {
	// Bind starts to fire b, or replaces the binding of that id. An error leaves what was bound before as it is, and
	// becomes trigger_registration_failed unless it has a code of its own.
	Bind(ctx context.Context, b Binding) error
	// Unbind ends the binding of an id; unknown ids are ignored. Calls that run are not waited for.
	Unbind(id string)
}

// Type describes a trigger type.
type Type struct {
	ID, Description string
	// Config, Payload and Result are JSON Schemas; nil if not described.
	Config, Payload, Result json.RawMessage
}

// Provide makes the bus itself the provider of a type, in the default namespace, and hands it what is parked. Bindings
// that it refuses stay parked, with an alarm. A type can be provided once; the error is for the second time.
func (t *Table) Provide(typ Type, p Provider) error {
	t.changing.Lock()
	defer t.changing.Unlock()
	k := typeKey{bus.DefaultNamespace, typ.ID}
	t.mu.Lock()
	s := t.stack(k)
	twice := s.base != nil
	if !twice {
		s.base = &source{key: k, typ: typ, provider: p}
	}
	t.mu.Unlock()
	if twice {
		return fmt.Errorf("trigger: type %s is provided twice", typ.ID)
	}
	t.resettle(typ.ID, nil)
	return nil
}

// Firing is what a provider delivers.
type Firing struct {
	Payload json.RawMessage
	// Metadata: the function gets the metadata of the trigger.
	Metadata bool
	// Timeout is how long the condition and the function may take each; bus.DefaultTimeout if 0.
	Timeout time.Duration
	// IdempotencyKey is equal for repeats of one delivery to the function; may be empty.
	IdempotencyKey string
}

// Fire asks the condition of a binding, if it has one, and calls its function for the principal of the binding, once.
// Blocked reports that the condition said no. The error is that of the condition or of the function, or FORBIDDEN if
// one of them is internal and out of the binding's reach, or if the maker of a stored binding may nothing any more. It
// must not be called by Bind or Unbind.
func (d *Dispatcher) Fire(ctx context.Context, b Binding, f Firing) (result json.RawMessage, blocked bool, err error) {
	if err := d.Table.stands(ctx, b); err != nil {
		return nil, false, err
	}
	asked := b.condition()
	if err := d.Table.reachable(b, asked); err != nil {
		return nil, false, err
	}
	if asked != "" {
		answer, err := d.call(ctx, b, f, asked, nil)
		if err != nil {
			return nil, false, err
		}
		if Blocks(answer) {
			return nil, true, nil
		}
	}
	result, err = d.reach(ctx, b, b.FunctionID, f)
	return result, false, err
}

// Call calls one function for the principal of a binding: its own, its condition or another that its config names. No
// condition is asked. Errors are as for Fire.
func (d *Dispatcher) Call(ctx context.Context, b Binding, functionID string, f Firing) (json.RawMessage, error) {
	if err := d.Table.stands(ctx, b); err != nil {
		return nil, err
	}
	return d.reach(ctx, b, functionID, f)
}

func (d *Dispatcher) reach(ctx context.Context, b Binding, functionID string, f Firing) (json.RawMessage, error) {
	if err := d.Table.reachable(b, functionID); err != nil {
		return nil, err
	}
	var metadata json.RawMessage
	if f.Metadata {
		metadata = b.Metadata
	}
	return d.call(ctx, b, f, functionID, metadata)
}

// bind hands a binding to a provider of the bus. A panic is an error, and an error without a code is
// trigger_registration_failed.
func (t *Table) bind(ctx context.Context, p Provider, b *binding) (err error) {
	defer func() {
		if value := recover(); value != nil {
			t.log.Error("a provider panicked", "alarm", "handler_panic", "trigger_type", b.kind, "trigger_id", b.id, "stack", string(debug.Stack()))
			err = failed("The provider of trigger type '" + b.kind + "' panicked.")
		}
	}()
	if err := p.Bind(ctx, b.view()); err != nil {
		if e := bus.AsError(err); e.Code != protocol.CodeInvocationFailed {
			return e
		}
		return failed(err.Error())
	}
	return nil
}
