package trigger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sort"
	"sync"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/registry"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/engine/stream"
)

// Config is what a Table needs.
type Config struct {
	// State keeps the bindings of engine::register_trigger.
	State state.Store
	// Registry tells who serves what.
	Registry *registry.Registry
	IDs      clock.IDs
	// Logger may be nil.
	Logger *slog.Logger
	// Authorize decides whether a caller of engine::register_trigger may have a function called by a trigger; nil allows
	// everything that is not internal. Errors travel as they are.
	Authorize func(call *bus.Call, triggerType, namespace, functionID string) error
}

// Table holds the bindings and who provides their types. It is safe for concurrent use. It implements registry.Triggers,
// and takes the triggers of sockets for the router.
type Table struct {
	cfg Config
	log *slog.Logger
	// states and streams are the providers of these types.
	states, streams *watches

	// changing orders all changes, and is held while providers are called. It is taken before mu.
	changing sync.Mutex
	mu       sync.RWMutex
	all      map[string]*binding // by id
	types    map[typeKey]*sources

	// storing orders what is stored.
	storing sync.Mutex
}

// NewTable loads the stored bindings. Errors: those of the store.
func NewTable(ctx context.Context, cfg Config) (*Table, error) {
	if cfg.State == nil || cfg.Registry == nil || cfg.IDs == nil {
		return nil, errors.New("trigger: State, Registry and IDs are required")
	}
	t := &Table{
		cfg: cfg, log: cfg.Logger, states: newWatches(readState), streams: newWatches(readStream),
		all: map[string]*binding{}, types: map[typeKey]*sources{},
	}
	if t.log == nil {
		t.log = slog.New(slog.DiscardHandler)
	}
	if err := t.load(ctx); err != nil {
		return nil, fmt.Errorf("trigger: load: %w", err)
	}
	return t, errors.Join(
		t.Provide(Type{ID: TypeState, Description: "Calls a function when a value of the state changes", Config: stateConfigSchema, Payload: statePayloadSchema}, t.states),
		t.Provide(Type{ID: TypeStream, Description: "Calls a function when an item of a stream changes", Config: streamConfigSchema, Payload: streamPayloadSchema}, t.streams),
	)
}

// put adds a binding or replaces the one of its id, and hands it to its provider. With an error the table is as it was,
// unless the provider had to give up the old binding first. The caller holds changing.
func (t *Table) put(ctx context.Context, b *binding) error {
	old := t.find(b.id)
	if old == nil {
		if err := t.settle(ctx, b); err != nil {
			return err
		}
		t.set(b)
		return nil
	}
	t.mu.RLock()
	has, should := old.served, t.sourceOf(b)
	t.mu.RUnlock()
	if has != nil && has == should && old.conn() == b.conn() {
		// The provider replaces it.
		if err := t.take(ctx, has, b); err != nil {
			return err
		}
		t.mu.Lock()
		b.served = has
		t.mu.Unlock()
		old.end()
		t.set(b)
		return nil
	}
	t.drop(old)
	if err := t.settle(ctx, b); err != nil {
		return err
	}
	t.set(b)
	return nil
}

func (t *Table) set(b *binding) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all[b.id] = b
}

// drop removes a binding; the caller holds changing.
func (t *Table) drop(b *binding) {
	t.mu.Lock()
	delete(t.all, b.id)
	has := b.served
	b.served = nil
	t.mu.Unlock()
	b.end()
	if has != nil {
		t.release(has, b)
	}
}

// Triggered reports whether a change of a state key concerns a binding. It takes a read lock and no memory.
func (t *Table) Triggered(scope, key string) bool {
	return !own(scope) && t.states.any(scope, key)
}

// StreamTriggered reports whether an event in a group of a stream may concern a binding.
func (t *Table) StreamTriggered(name, group string) bool { return t.streams.any(name, group) }

// forState is the bindings that a change concerns.
func (t *Table) forState(k state.Key) []*binding {
	if own(k.Scope) {
		return nil
	}
	return t.states.matching(k.Scope, func(m *match) bool { return m.state(k) })
}

// forStream is the bindings that an event concerns.
func (t *Table) forStream(k stream.Key) []*binding {
	return t.streams.matching(k.Stream, func(m *match) bool { return m.stream(k) })
}

// find is the binding of an id.
func (t *Table) find(id string) *binding {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.all[id]
}

// All implements registry.Triggers: every binding, parked ones included, sorted by type, then by id.
func (t *Table) All() []registry.Trigger {
	t.mu.RLock()
	out := make([]registry.Trigger, 0, len(t.all))
	for _, b := range t.all {
		out = append(out, b.row())
	}
	t.mu.RUnlock()
	sort.Slice(out, func(i, j int) bool {
		if out[i].Type != out[j].Type {
			return out[i].Type < out[j].Type
		}
		return out[i].ID < out[j].ID
	})
	return out
}

// Types implements registry.Triggers: who serves each type now, sorted by id, then by namespace.
func (t *Table) Types() []registry.TriggerType {
	t.mu.RLock()
	tops := make([]*source, 0, len(t.types))
	for _, s := range t.types {
		if top := s.top(); top != nil {
			tops = append(tops, top)
		}
	}
	t.mu.RUnlock()
	out := make([]registry.TriggerType, len(tops))
	for i, s := range tops {
		out[i] = registry.TriggerType{
			ID: s.key.id, Namespace: s.key.namespace, Description: s.typ.Description, WorkerName: t.workerName(s),
			ConfigSchema: s.typ.Config, RequestSchema: s.typ.Payload, ResponseSchema: s.typ.Result,
			Internal: registry.IsReserved(s.key.id),
		}
	}
	sort.Slice(out, func(i, j int) bool {
		if out[i].ID != out[j].ID {
			return out[i].ID < out[j].ID
		}
		return out[i].Namespace < out[j].Namespace
	})
	return out
}

// workerName is the name of the worker that provides a type: that of the bus for its own.
func (t *Table) workerName(*source) string {
	return t.cfg.Registry.WorkerName(bus.DefaultNamespace, FunctionTypesList)
}
