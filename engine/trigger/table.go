package trigger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
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

// Table holds the bindings. It is safe for concurrent use. It implements registry.Triggers, and takes the triggers of
// sockets for the router.
type Table struct {
	cfg Config
	log *slog.Logger

	mu sync.RWMutex
	// all is by id. byState and byStream are by scope and by stream; those that match every one are under anyOf.
	all      map[string]*binding
	byState  map[string][]*binding
	byStream map[string][]*binding

	// storing orders what is stored.
	storing sync.Mutex
}

// anyOf is the index of bindings that name no scope or stream. No scope or stream has such a name.
const anyOf = "\x00"

// NewTable loads the stored bindings. Errors: those of the store.
func NewTable(ctx context.Context, cfg Config) (*Table, error) {
	if cfg.State == nil || cfg.Registry == nil || cfg.IDs == nil {
		return nil, errors.New("trigger: State, Registry and IDs are required")
	}
	t := &Table{
		cfg: cfg, log: cfg.Logger,
		all: map[string]*binding{}, byState: map[string][]*binding{}, byStream: map[string][]*binding{},
	}
	if t.log == nil {
		t.log = slog.New(slog.DiscardHandler)
	}
	if err := t.load(ctx); err != nil {
		return nil, fmt.Errorf("trigger: load: %w", err)
	}
	return t, nil
}

// put adds a binding or replaces the one of its id. The caller holds mu.
func (t *Table) put(b *binding) {
	t.drop(b.id)
	t.all[b.id] = b
	if index, name := t.place(b); index != nil {
		index[name] = append(index[name], b)
	}
}

// drop removes a binding; the caller holds mu.
func (t *Table) drop(id string) {
	b := t.all[id]
	if b == nil {
		return
	}
	b.end()
	delete(t.all, id)
	index, name := t.place(b)
	if index == nil {
		return
	}
	// A new slice: readers may still walk the old one.
	rest := slices.DeleteFunc(slices.Clone(index[name]), func(other *binding) bool { return other == b })
	if len(rest) == 0 {
		delete(index, name)
	} else {
		index[name] = rest
	}
}

// place is where the index has a binding; nil for a parked one.
func (t *Table) place(b *binding) (index map[string][]*binding, name string) {
	if b.match == nil {
		return nil, ""
	}
	index = t.byState
	if b.kind == TypeStream {
		index = t.byStream
	}
	if b.match.first == nil {
		return index, anyOf
	}
	return index, *b.match.first
}

// Triggered reports whether a change of a state key concerns a binding. It takes a read lock and no memory.
func (t *Table) Triggered(scope, key string) bool {
	if own(scope) {
		return false
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, name := range [...]string{scope, anyOf} {
		for _, b := range t.byState[name] {
			if same(b.match.second, key) {
				return true
			}
		}
	}
	return false
}

// StreamTriggered reports whether an event in a group of a stream may concern a binding.
func (t *Table) StreamTriggered(name, group string) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, name := range [...]string{name, anyOf} {
		for _, b := range t.byStream[name] {
			if same(b.match.second, group) {
				return true
			}
		}
	}
	return false
}

// forState is the bindings that a change concerns.
func (t *Table) forState(k state.Key) []*binding {
	if own(k.Scope) {
		return nil
	}
	return t.matching(t.byState, k.Scope, func(m *match) bool { return m.state(k) })
}

// forStream is the bindings that an event concerns.
func (t *Table) forStream(k stream.Key) []*binding {
	return t.matching(t.byStream, k.Stream, func(m *match) bool { return m.stream(k) })
}

func (t *Table) matching(index map[string][]*binding, name string, ok func(*match) bool) []*binding {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var out []*binding
	for _, name := range [...]string{name, anyOf} {
		for _, b := range index[name] {
			if ok(b.match) {
				out = append(out, b)
			}
		}
	}
	return out
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

// Types implements registry.Triggers.
func (t *Table) Types() []registry.TriggerType {
	return []registry.TriggerType{
		{
			ID: TypeState, Namespace: bus.DefaultNamespace, Description: "Calls a function when a value of the state changes",
			WorkerName:   t.cfg.Registry.WorkerName(bus.DefaultNamespace, state.FunctionSet),
			ConfigSchema: stateConfigSchema, RequestSchema: statePayloadSchema,
		},
		{
			ID: TypeStream, Namespace: bus.DefaultNamespace, Description: "Calls a function when an item of a stream changes",
			WorkerName:   t.cfg.Registry.WorkerName(bus.DefaultNamespace, stream.FunctionSet),
			ConfigSchema: streamConfigSchema, RequestSchema: streamPayloadSchema,
		},
	}
}
