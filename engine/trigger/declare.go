package trigger

import (
	"context"
	"errors"
	"fmt"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/registry"
	"github.com/iii-aws/harness/engine/router"
)

// MaxTypes is how many trigger types one connection may provide.
const MaxTypes = 1000

// RegisterType makes a connection the provider of a type. It gets the bindings of the type, those that were made before
// included; a provider that came before gets them back when it goes. A connection that provides the type already hears
// of all bindings again. Types of the bus itself may be replaced, but its built-in workers keep to the bus. Errors:
// FORBIDDEN for an id of the bus, trigger_registration_failed above MaxTypes and for a
// connection that is not in the registry.
func (t *Table) RegisterType(c router.Caller, f *protocol.RegisterTriggerType) error {
	switch {
	case registry.IsReserved(f.ID):
		return &bus.Error{Code: protocol.CodeForbidden, Message: "Trigger type " + f.ID + " is reserved for the bus."}
	case t.cfg.Send == nil:
		return failed("Workers cannot provide trigger types here.")
	}
	k := typeKey{namespaceOf(c), f.ID}
	if f.Namespace != nil {
		k.namespace = *f.Namespace
	}
	typ := Type{ID: f.ID, Description: registry.Clean(f.Description), Config: f.TriggerRequestFormat, Payload: f.CallRequestFormat}
	if typ.Config == nil {
		typ.Config = f.ConfigSchema
	}
	t.changing.Lock()
	defer t.changing.Unlock()
	if err := t.open(c.Connection); err != nil {
		return err
	}
	again, err := t.offer(c.Connection, k, typ)
	if err != nil {
		return err
	}
	t.resettle(f.ID, again)
	return nil
}

// offer puts a connection's source on top of its type, unless it was moved here from an earlier connection, in which
// case it keeps its place. It returns the source if the connection had it before.
func (t *Table) offer(connection string, k typeKey, typ Type) (again *source, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.stack(k)
	defer t.prune(k)
	i, one := s.of(connection)
	if one == nil {
		if len(t.provided[connection]) >= MaxTypes {
			return nil, failed(fmt.Sprintf("A connection may provide at most %d trigger types.", MaxTypes))
		}
		if t.lines[connection] == nil {
			t.lines[connection] = newLine(connection)
		}
		one = &source{key: k, typ: typ, worker: t.lines[connection]}
		s.above = append(s.above[:len(s.above):len(s.above)], one)
		t.provide(connection, k)
		return nil, nil
	}
	one.typ = typ
	if !one.moved {
		s.remove(i)
		s.above = append(s.above, one)
	}
	one.moved = false
	return one, nil
}

// provide notes that a connection provides a type. The caller holds mu.
func (t *Table) provide(connection string, k typeKey) {
	if t.provided[connection] == nil {
		t.provided[connection] = map[typeKey]bool{}
	}
	t.provided[connection][k] = true
}

// UnregisterType ends what a connection provides under an id. Its bindings go back to who provided the type before, or
// are parked.
func (t *Table) UnregisterType(c router.Caller, id string) {
	t.changing.Lock()
	defer t.changing.Unlock()
	t.withdraw(c.Connection, func(k typeKey) bool { return k.id == id })
}

// withdraw ends what a connection provides. The caller holds changing.
func (t *Table) withdraw(connection string, which func(typeKey) bool) {
	t.mu.Lock()
	kinds := map[string]bool{}
	for k := range t.provided[connection] {
		if !which(k) {
			continue
		}
		i, one := t.types[k].of(connection)
		one.worker.close(one)
		t.types[k].remove(i)
		t.prune(k)
		delete(t.provided[connection], k)
		kinds[k.id] = true
	}
	if len(t.provided[connection]) == 0 {
		delete(t.provided, connection)
		delete(t.lines, connection)
	}
	t.mu.Unlock()
	for kind := range kinds {
		t.resettle(kind, nil)
	}
}

// Result takes a provider's answer to a binding. An error parks the binding, and goes to the connection that made it or
// to the caller of engine::register_trigger. Answers of anybody but the provider are ignored.
func (t *Table) Result(c router.Caller, f *protocol.TriggerRegistrationResult) {
	b := t.find(f.ID)
	if b == nil || b.kind != f.TriggerType {
		return
	}
	t.mu.RLock()
	s := b.served
	t.mu.RUnlock()
	switch {
	case s == nil || s.worker == nil || s.worker.conn() != c.Connection:
	case f.Error != nil:
		t.refuse(s, b, f.Error)
	default:
		t.acknowledge(b, nil)
	}
}

// refuse parks a binding that its provider would not have.
func (t *Table) refuse(s *source, b *binding, err *bus.Error) {
	t.changing.Lock()
	defer t.changing.Unlock()
	t.mu.Lock()
	if b.served != s {
		t.mu.Unlock()
		return
	}
	b.served, b.refused = nil, s
	t.mu.Unlock()
	s.worker.forget(s, b.id)
	if !t.acknowledge(b, err) {
		t.park(b, err)
	}
}

// acknowledge tells who waits for the provider of a binding, and reports whether somebody does.
func (t *Table) acknowledge(b *binding, err error) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	ack := t.acks[b]
	if ack == nil {
		return false
	}
	delete(t.acks, b)
	ack <- err
	return true
}

// notify sends the maker of a binding that it failed. It does not wait: the maker may be slow.
func (t *Table) notify(b *binding, err *bus.Error) {
	if t.cfg.Send == nil {
		return
	}
	f := &protocol.TriggerRegistrationResult{ID: b.id, TriggerType: b.kind, FunctionID: b.functionID, Error: err}
	go func() {
		if err := t.cfg.Send(b.life, b.conn(), f); err != nil && !errors.Is(err, bus.ErrGone) && !errors.Is(err, context.Canceled) {
			t.log.Warn("a refused trigger was not told", "trigger_id", b.id, "error", err)
		}
	}()
}

// namespaceOf is where a connection lives.
func namespaceOf(c router.Caller) string {
	if c.Namespace == "" {
		return bus.DefaultNamespace
	}
	return c.Namespace
}
