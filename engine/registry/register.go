package registry

import (
	"context"
	"fmt"
	"strings"

	"github.com/iii-aws/harness/engine/bus"
)

// Builtin describes a built-in worker.
type Builtin struct {
	Name        string
	Version     string // the registry's if empty
	Description string
}

// RegisterBuiltin puts the functions of a built-in worker at the base of their stacks, in the default namespace.
// Handlers are by function id. An id that another built-in worker has is an error, and nothing is registered.
func (r *Registry) RegisterBuiltin(b Builtin, functions map[string]Function, handlers map[string]bus.Handler) error {
	if b.Name == "" {
		return fmt.Errorf("registry: a built-in worker needs a name")
	}
	for id := range functions {
		if handlers[id] == nil {
			return fmt.Errorf("registry: worker %s: function %s has no handler", b.Name, id)
		}
	}
	now := r.cfg.Clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range functions {
		if s := r.stacks[key{bus.DefaultNamespace, id}]; s != nil && s.base != nil && s.base.WorkerID != b.Name {
			return fmt.Errorf("registry: workers %s and %s both serve %s", s.base.WorkerID, b.Name, id)
		}
	}
	if r.workers[builtinKey(b.Name)] == nil {
		r.workers[builtinKey(b.Name)] = r.builtinWorker(b, now)
	}
	for id, f := range functions {
		e := f.entry(bus.DefaultNamespace, id, now)
		e.WorkerID, e.Kind = b.Name, bus.KindBuiltin
		k := key{bus.DefaultNamespace, id}
		r.stack(k).base = &Registration{Entry: e, Handler: handlers[id], Builtin: true}
		r.index(k)
	}
	r.notify()
	return nil
}

// Register puts a function of a connected worker on top of its stack. The connection must have been added. The kind is
// http if the function has a Remote, else socket. Errors: *ReservedError for an id that nobody may register, that of the store for a sticky id, and
// *UnknownConnectionError.
func (r *Registry) Register(ctx context.Context, connection, namespace, id string, f Function) error {
	if IsReserved(id) {
		return &ReservedError{FunctionID: id}
	}
	k := key{namespace, id}
	if r.sticky[id] {
		// The mark is stored first: a crash in between leaves the id closed, never open to what is underneath.
		r.marks.Lock()
		defer r.marks.Unlock()
		if err := r.storeMark(ctx, k, connection); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.workers[connection]
	if w == nil {
		return &UnknownConnectionError{Connection: connection}
	}
	e := f.entry(namespace, id, r.cfg.Clock.Now())
	e.Kind, e.Connection, e.WorkerID = bus.KindSocket, connection, w.ID
	if f.Remote != nil {
		e.Kind = bus.KindHTTP
	}
	r.stack(k).push(&Registration{Entry: e, Remote: f.Remote})
	r.note(connection, k)
	r.index(k)
	r.notify()
	return nil
}

// Unregister removes the connection's own registration of an id and reports whether there was one.
func (r *Registry) Unregister(connection, namespace, id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.drop(connection, key{namespace, id}) {
		return false
	}
	r.notify()
	return true
}

// stack is the stack of a key, made if there is none. The caller holds mu.
func (r *Registry) stack(k key) *stack {
	s := r.stacks[k]
	if s == nil {
		s = &stack{sticky: r.sticky[k.id]}
		r.stacks[k] = s
	}
	return s
}

// drop removes a connection's entry of one stack. The caller holds mu.
func (r *Registry) drop(connection string, k key) bool {
	s := r.stacks[k]
	if s == nil {
		return false
	}
	wasAway := s.away
	if !s.drop(connection) {
		return false
	}
	delete(r.byConn[connection], k)
	if s.away && !wasAway {
		r.log.Error("a sticky function is away: calls fail until it is back or released",
			"alarm", "sticky_away", "function_id", k.id, "namespace", k.namespace, "connection", connection)
	}
	r.index(k)
	return true
}

// index keeps the sets by id up to date after a change of one stack. The caller holds mu.
func (r *Registry) index(k key) {
	s := r.stacks[k]
	if s.empty() {
		delete(r.stacks, k)
	}
	if top, _ := s.top(); top != nil {
		if r.namespaces[k.id] == nil {
			r.namespaces[k.id] = map[string]bool{}
		}
		r.namespaces[k.id][k.namespace] = true
		return
	}
	delete(r.namespaces[k.id], k.namespace)
	if len(r.namespaces[k.id]) == 0 {
		delete(r.namespaces, k.id)
	}
}

// IsReserved reports whether an id belongs to the bus and can never be registered by a connection.
func IsReserved(id string) bool { return strings.HasPrefix(id, "engine::") }

func firstSegment(id string) string {
	name, _, _ := strings.Cut(id, "::")
	return name
}
