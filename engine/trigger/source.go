package trigger

import (
	"context"

	"github.com/iii-aws/harness/engine/bus"
)

// typeKey names a trigger type.
type typeKey struct{ namespace, id string }

// source serves one trigger type: provider, if the bus itself does, else worker.
type source struct {
	key      typeKey
	typ      Type // the table's mu guards it
	provider Provider
	worker   *line
	// moved: the worker has a new connection, and has not yet registered the type there. The table's mu guards it.
	moved bool
}

// sources are those of one type. The last that came has the bindings.
type sources struct {
	base  *source
	above []*source
}

// top is who gets the bindings; nil if nobody does.
func (s *sources) top() *source {
	switch {
	case s == nil:
		return nil
	case len(s.above) > 0:
		return s.above[len(s.above)-1]
	}
	return s.base
}

// of is the source of a connection.
func (s *sources) of(connection string) (int, *source) {
	for i, one := range s.above {
		if one.worker.conn() == connection {
			return i, one
		}
	}
	return 0, nil
}

// remove takes the source at i out of the stack. Readers may still walk the old slice.
func (s *sources) remove(i int) {
	s.above = append(append([]*source(nil), s.above[:i]...), s.above[i+1:]...)
}

// stack is the sources of a type, made if there are none. The caller holds mu.
func (t *Table) stack(k typeKey) *sources {
	if t.types[k] == nil {
		t.types[k] = &sources{}
	}
	return t.types[k]
}

// prune forgets a type that nobody serves. The caller holds mu.
func (t *Table) prune(k typeKey) {
	if t.types[k].top() == nil {
		delete(t.types, k)
	}
}

// typeOf is the type that a binding is of: in the namespace that it asks for, else in its home, else in the default one.
// The caller holds mu.
func (t *Table) typeOf(b *binding) typeKey {
	if b.provider != "" {
		return typeKey{b.provider, b.kind}
	}
	if home := (typeKey{b.home, b.kind}); t.types[home].top() != nil {
		return home
	}
	return typeKey{bus.DefaultNamespace, b.kind}
}

// sourceOf is who should have a binding; nil if it is to be parked. The caller holds mu.
func (t *Table) sourceOf(b *binding) *source {
	if b.ended {
		return nil
	}
	s := t.types[t.typeOf(b)]
	if b.origin == declared && s != nil {
		return s.base // the bus does not hand its own to others
	}
	top := s.top()
	if top != nil && top == b.refused {
		return nil
	}
	return top
}

// settle hands a binding to who should have it, and takes it from who has it. With an error nobody has it. The caller
// holds changing.
func (t *Table) settle(ctx context.Context, b *binding) error {
	t.mu.RLock()
	has, should := b.served, t.sourceOf(b)
	t.mu.RUnlock()
	if has == should {
		return nil
	}
	if has != nil {
		t.release(has, b)
	}
	var err error
	if should != nil {
		err = t.take(ctx, should, b)
	}
	t.mu.Lock()
	b.served = should
	if err != nil {
		b.served, b.refused = nil, should
	}
	waits := b.served != nil && b.served.worker != nil
	t.mu.Unlock()
	if !waits {
		t.acknowledge(b, nil)
	}
	return err
}

// take hands a binding to a source. A worker hears of it on its own time, and may refuse it later.
func (t *Table) take(ctx context.Context, s *source, b *binding) error {
	if s.worker != nil {
		t.want(s, b.id, b)
		return nil
	}
	return t.bind(ctx, s.provider, b)
}

func (t *Table) release(s *source, b *binding) {
	if s.worker != nil {
		t.want(s, b.id, nil)
		return
	}
	s.provider.Unbind(b.id)
}

// resettle settles every binding of a type, after its sources have changed. Who came again hears of all bindings again,
// also of those that it refused; nil if nobody did. The caller holds changing.
func (t *Table) resettle(kind string, again *source) {
	t.mu.Lock()
	all := make([]*binding, 0, len(t.byKind[kind]))
	for b := range t.byKind[kind] {
		all = append(all, b)
		if again != nil && b.refused == again {
			b.refused = nil
		}
	}
	t.mu.Unlock()
	for _, b := range all {
		if again != nil && b.served == again {
			t.want(again, b.id, b)
			continue
		}
		if err := t.settle(context.Background(), b); err != nil {
			t.park(b, bus.AsError(err))
		}
	}
}

// park tells of a binding that its provider would not have: its maker, if that is a connection, else the operator.
func (t *Table) park(b *binding, err *bus.Error) {
	if b.origin == connected {
		t.log.Info("a trigger was refused by its provider", "trigger_id", b.id, "trigger_type", b.kind, "code", err.Code)
		t.notify(b, err)
		return
	}
	t.log.Error("a trigger is parked", "alarm", "trigger_parked", "trigger_id", b.id, "trigger_type", b.kind, "error", err)
}
