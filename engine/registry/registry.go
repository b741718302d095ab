package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sort"
	"sync"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/state"
)

// DefaultSticky is the ids that are sticky whatever the config says.
func DefaultSticky() []string {
	return []string{"policy::check_permissions", "approval::resolve", "auth::get_token"}
}

// Config is what a Registry needs.
type Config struct {
	// State keeps which sticky ids were replaced.
	State state.Store
	Clock clock.Clock
	// Logger may be nil.
	Logger *slog.Logger
	// Sticky is more sticky ids.
	Sticky []string
	// Version is that of the built-in workers.
	Version string
}

// Registry is the registrations and the workers. It is safe for concurrent use and implements bus.Directory.
type Registry struct {
	cfg    Config
	log    *slog.Logger
	sticky map[string]bool

	mu sync.RWMutex
	// stacks and namespaces never hold an id that nobody serves or needs.
	stacks     map[key]*stack
	namespaces map[string]map[string]bool // id -> namespaces whose stack has a top
	// byConn is the keys that a connection has an entry in.
	byConn  map[string]map[key]bool
	workers map[string]*Worker // by connection, or by builtinKey
	changed chan struct{}

	// marks orders what is stored about sticky ids.
	marks sync.Mutex
}

// New loads which sticky ids were replaced. Errors: those of the store.
func New(ctx context.Context, cfg Config) (*Registry, error) {
	if cfg.State == nil || cfg.Clock == nil {
		return nil, errors.New("registry: State and Clock are required")
	}
	r := &Registry{
		cfg: cfg, log: cfg.Logger, sticky: map[string]bool{},
		stacks: map[key]*stack{}, namespaces: map[string]map[string]bool{}, byConn: map[string]map[key]bool{},
		workers: map[string]*Worker{}, changed: make(chan struct{}),
	}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	for _, id := range append(DefaultSticky(), cfg.Sticky...) {
		r.sticky[id] = true
	}
	if err := r.loadMarks(ctx); err != nil {
		return nil, fmt.Errorf("registry: load sticky ids: %w", err)
	}
	return r, nil
}

// Resolve is the registration that gets a call now; nil if nobody serves the id, with the state Away if that is because
// its replacement has gone.
func (r *Registry) Resolve(namespace, functionID string) (*Registration, State) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	s := r.stacks[key{namespace, functionID}]
	if s == nil {
		return nil, Live
	}
	return s.top()
}

// Lookup implements bus.Directory.
func (r *Registry) Lookup(namespace, functionID string) (bus.Entry, bool) {
	if namespace == "" {
		namespace = bus.DefaultNamespace
	}
	reg, _ := r.Resolve(namespace, functionID)
	if reg == nil {
		return bus.Entry{}, false
	}
	return r.named(reg), true
}

// List implements bus.Directory: every function of a namespace that is served and not internal.
func (r *Registry) List(namespace string) []bus.Entry {
	if namespace == "" {
		namespace = bus.DefaultNamespace
	}
	var out []bus.Entry
	for _, e := range r.All() {
		if e.Namespace == namespace && !e.Meta.Internal {
			out = append(out, e)
		}
	}
	return out
}

// All is the top entry of every id, internal ones included, sorted by id, then by namespace.
func (r *Registry) All() []bus.Entry {
	r.mu.RLock()
	out := make([]bus.Entry, 0, len(r.stacks))
	for _, s := range r.stacks {
		if reg, _ := s.top(); reg != nil {
			out = append(out, r.withName(reg))
		}
	}
	r.mu.RUnlock()
	sort.Slice(out, func(i, j int) bool {
		if out[i].FunctionID != out[j].FunctionID {
			return out[i].FunctionID < out[j].FunctionID
		}
		return out[i].Namespace < out[j].Namespace
	})
	return out
}

// Namespaces is the namespaces in which an id is served, sorted.
func (r *Registry) Namespaces(functionID string) []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var out []string
	for ns := range r.namespaces[functionID] {
		out = append(out, ns)
	}
	sort.Strings(out)
	return out
}

// Owns reports whether a connection has registered an id, on top or not, in whatever namespace.
func (r *Registry) Owns(connection, functionID string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for k := range r.byConn[connection] {
		if k.id == functionID {
			return true
		}
	}
	return false
}

// Changed is closed at the next change of registrations or workers.
func (r *Registry) Changed() <-chan struct{} {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.changed
}

// notify tells those who wait for a change. The caller holds mu.
func (r *Registry) notify() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// named is the entry of a registration with the name its worker has now.
func (r *Registry) named(reg *Registration) bus.Entry {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.withName(reg)
}

// withName is named for callers that hold mu.
func (r *Registry) withName(reg *Registration) bus.Entry {
	e := reg.Entry
	if w := r.workers[reg.owner()]; w != nil && w.Name != "" {
		e.WorkerName = w.Name
	} else {
		e.WorkerName = firstSegment(e.FunctionID)
	}
	return e
}

// owner is the key of the worker of a registration.
func (reg *Registration) owner() string {
	if reg.Builtin {
		return builtinKey(reg.WorkerID)
	}
	return reg.Connection
}

func marshal(v any) json.RawMessage {
	// Only structs of strings and numbers are marshalled here.
	b, _ := json.Marshal(v)
	return b
}
