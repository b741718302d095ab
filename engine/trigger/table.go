package trigger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sort"
	"strings"
	"sync"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/protocol"
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
	// Clock times the answers of providers; the machine's if nil.
	Clock clock.Clock
	// Send puts a frame into the outbound queue of a connection, in the order of the calls; it may wait while that is full.
	// Errors: bus.ErrGone for a closed connection. Nil: workers cannot provide trigger types.
	Send func(ctx context.Context, connection string, f protocol.Frame) error
	// Stands reports whether a principal that made a stored binding may still do anything; nil says yes. It is asked at
	// every firing.
	Stands func(ctx context.Context, p bus.Principal) (bool, error)
	// Logger may be nil.
	Logger *slog.Logger
	// Authorize decides whether a caller of engine::register_trigger may have a function called by a trigger; nil allows
	// everything that is not internal. Errors travel as they are.
	Authorize func(call *bus.Call, triggerType, namespace, functionID string) error
}

// What a connection may bind, and what all that belongs to no connection may be.
const (
	MaxBindings = 10_000
	// MaxConfig is the largest config with its metadata, in bytes.
	MaxConfig = 256 << 10
)

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
	byKind   map[string]map[*binding]bool
	byConn   map[string]map[*binding]bool // "" has those of no connection
	types    map[typeKey]*sources
	provided map[string]map[typeKey]bool // by connection
	lines    map[string]*line            // of connections that provide types
	// acks is who waits for the provider of a binding.
	acks map[*binding]chan<- error

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
		all: map[string]*binding{}, byKind: map[string]map[*binding]bool{}, byConn: map[string]map[*binding]bool{},
		types: map[typeKey]*sources{}, provided: map[string]map[typeKey]bool{}, lines: map[string]*line{},
		acks: map[*binding]chan<- error{},
	}
	if t.cfg.Clock == nil {
		t.cfg.Clock = clock.System()
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
		return t.insert(ctx, b)
	}
	if old.moved && old.equal(b) && old.conn() == b.conn() {
		old.moved = false
		return nil
	}
	t.mu.RLock()
	has, should := old.served, t.sourceOf(b)
	t.mu.RUnlock()
	if old.moved || has == nil || has != should || old.conn() != b.conn() {
		t.drop(old)
		return t.insert(ctx, b)
	}
	// The provider replaces it.
	if err := t.take(ctx, has, b); err != nil {
		return err
	}
	t.mu.Lock()
	b.served = has
	t.unset(old)
	t.set(b)
	t.mu.Unlock()
	old.end()
	return nil
}

func (t *Table) insert(ctx context.Context, b *binding) error {
	t.mu.RLock()
	full := len(t.byConn[b.conn()]) >= MaxBindings
	t.mu.RUnlock()
	if full {
		return failed(fmt.Sprintf("At most %d triggers may be registered.", MaxBindings))
	}
	if err := t.settle(ctx, b); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.set(b)
	return nil
}

// set adds a binding to the maps; the caller holds mu.
func (t *Table) set(b *binding) {
	t.all[b.id] = b
	t.index(t.byKind, b.kind, b)
	t.index(t.byConn, b.conn(), b)
}

func (t *Table) index(m map[string]map[*binding]bool, name string, b *binding) {
	if m[name] == nil {
		m[name] = map[*binding]bool{}
	}
	m[name][b] = true
}

// unset removes a binding from the maps; the caller holds mu.
func (t *Table) unset(b *binding) {
	delete(t.all, b.id)
	t.unindex(t.byKind, b.kind, b)
	t.unindex(t.byConn, b.conn(), b)
}

func (t *Table) unindex(m map[string]map[*binding]bool, name string, b *binding) {
	delete(m[name], b)
	if len(m[name]) == 0 {
		delete(m, name)
	}
}

// drop removes a binding; the caller holds changing.
func (t *Table) drop(b *binding) {
	t.mu.Lock()
	t.unset(b)
	has := b.served
	b.served = nil
	t.mu.Unlock()
	b.end()
	if has != nil {
		t.release(has, b)
	}
	t.acknowledge(b, nil)
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

// All implements registry.Triggers: every binding, parked ones included, sorted by id.
func (t *Table) All() []registry.Trigger {
	t.mu.RLock()
	out := make([]registry.Trigger, 0, len(t.all))
	for _, b := range t.all {
		out = append(out, b.row())
	}
	t.mu.RUnlock()
	sort.Slice(out, func(i, j int) bool { return out[i].ID < out[j].ID })
	return out
}

// Types implements registry.Triggers: who serves each type now, sorted by id, then by namespace.
func (t *Table) Types() []registry.TriggerType {
	t.mu.RLock()
	tops := make([]source, 0, len(t.types))
	for _, s := range t.types {
		if top := s.top(); top != nil {
			tops = append(tops, *top)
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

// workerName is the name of the worker that provides a type, else the first segment of the type's id.
func (t *Table) workerName(s source) string {
	if s.worker == nil {
		return t.cfg.Registry.WorkerName(bus.DefaultNamespace, FunctionTypesList)
	}
	if w, ok := t.cfg.Registry.Worker(s.worker.conn()); ok && w.Name != "" {
		return w.Name
	}
	name, _, _ := strings.Cut(s.key.id, "::")
	return name
}
