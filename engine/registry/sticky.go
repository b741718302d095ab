package registry

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/state"
)

// Scope is where it is kept which sticky ids were replaced. state::* refuses it.
const Scope = "engine:registrations"

// mark says that a sticky id was replaced.
type mark struct {
	FunctionID string `json:"function_id"`
	Namespace  string `json:"namespace"`
	Worker     string `json:"worker,omitempty"`
	Principal  string `json:"principal,omitempty"`
	AtMS       int64  `json:"at_ms"`
}

func markKey(k key) string { return k.namespace + "/" + k.id }

// loadMarks closes every sticky id that was replaced before the bus started.
func (r *Registry) loadMarks(ctx context.Context) error {
	items, err := r.cfg.State.List(ctx, Scope, state.ListOptions{})
	if err != nil {
		return err
	}
	for _, item := range items {
		var m mark
		if err := json.Unmarshal(item.Value, &m); err != nil {
			return fmt.Errorf("%s/%s: %w", Scope, item.Key.Key, err)
		}
		if !r.sticky[m.FunctionID] {
			r.log.Info("a function that was replaced is no longer sticky", "function_id", m.FunctionID, "namespace", m.Namespace)
			continue
		}
		s := r.stack(key{m.Namespace, m.FunctionID})
		s.replaced, s.away = true, true
		r.log.Warn("a sticky function stays away until its replacement is back or it is released",
			"function_id", m.FunctionID, "namespace", m.Namespace, "worker", m.Worker)
	}
	return nil
}

// storeMark stores that a connection replaces a sticky id, unless that is stored already. The caller holds marks.
func (r *Registry) storeMark(ctx context.Context, k key, connection string) error {
	r.mu.RLock()
	s, w := r.stacks[k], r.workers[connection]
	stored := s != nil && s.replaced
	m := mark{FunctionID: k.id, Namespace: k.namespace, AtMS: clock.Millis(r.cfg.Clock.Now())}
	if w != nil {
		m.Worker, m.Principal = w.Name, w.Principal
	}
	r.mu.RUnlock()
	if w == nil {
		return &UnknownConnectionError{Connection: connection}
	}
	if stored {
		return nil
	}
	write := state.Set(Scope, markKey(k), marshal(m))
	write.Origin = state.Origin{Principal: bus.System()}
	if _, err := state.Do(ctx, r.cfg.State, write); err != nil {
		return fmt.Errorf("registry: store that %s was replaced: %w", k.id, err)
	}
	return nil
}

// Release ends the stickiness of an id until it is replaced again, and drops what connections have registered that are
// lost. What is left of its stack serves; now is that entry, and ok is false if nobody does. released is false if there
// was nothing to end or drop. Errors: those of the store, with nothing changed.
func (r *Registry) Release(ctx context.Context, namespace, id string) (released bool, now bus.Entry, ok bool, err error) {
	k := key{namespace, id}
	r.marks.Lock()
	defer r.marks.Unlock()
	if r.sticky[id] {
		remove := state.Delete(Scope, markKey(k))
		remove.Origin = state.Origin{Principal: bus.System()}
		if _, err := state.Do(ctx, r.cfg.State, remove); err != nil {
			return false, bus.Entry{}, false, fmt.Errorf("registry: release %s: %w", id, err)
		}
	}
	released = r.release(k)
	now, ok = r.Lookup(namespace, id)
	return released, now, ok, nil
}

func (r *Registry) release(k key) (released bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stacks[k]
	if s == nil {
		return false
	}
	released = s.replaced
	s.replaced, s.away = false, false
	for _, reg := range s.above {
		if w := r.workers[reg.Connection]; w == nil || w.Status == StatusAway {
			s.drop(reg.Connection)
			delete(r.byConn[reg.Connection], k)
			released = true
		}
	}
	if released {
		r.index(k)
		r.notify()
	}
	return released
}
