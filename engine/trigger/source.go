package trigger

import (
	"context"

	"github.com/iii-aws/harness/engine/bus"
)

// typeKey names a trigger type.
type typeKey struct{ namespace, id string }

// source serves one trigger type.
type source struct {
	key typeKey
	typ Type
	// provider is that of a type of the bus.
	provider Provider
}

// sources are those of one type.
type sources struct {
	base *source
}

// top is who gets the bindings; nil if nobody does.
func (s *sources) top() *source {
	if s == nil {
		return nil
	}
	return s.base
}

// stack is the sources of a type, made if there are none. The caller holds changing.
func (t *Table) stack(k typeKey) *sources {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.types[k] == nil {
		t.types[k] = &sources{}
	}
	return t.types[k]
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
	defer t.mu.Unlock()
	b.served = should
	if err != nil {
		b.served, b.refused = nil, should
	}
	return err
}

func (t *Table) take(ctx context.Context, s *source, b *binding) error {
	return t.bind(ctx, s.provider, b)
}

func (t *Table) release(s *source, b *binding) { s.provider.Unbind(b.id) }

// resettle settles every binding of a type, after its sources have changed. The caller holds changing.
func (t *Table) resettle(kind string) {
	t.mu.RLock()
	var all []*binding
	for _, b := range t.all {
		if b.kind == kind {
			all = append(all, b)
		}
	}
	t.mu.RUnlock()
	for _, b := range all {
		if err := t.settle(context.Background(), b); err != nil {
			t.log.Error("a trigger is parked", "alarm", "trigger_parked", "trigger_id", b.id, "trigger_type", b.kind, "error", err)
		}
	}
}
