package trigger

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
)

// watches is the provider of state or of stream: the bindings by what they watch, so that a write knows at once whether
// it concerns one.
type watches struct {
	read func(config json.RawMessage) (*match, error)

	mu   sync.RWMutex
	byID map[string]*watch
	// index is by scope or by stream; what watches every one is under anyOf.
	index map[string][]*watch
}

// watch is one binding.
type watch struct {
	*match
	b *binding
}

// anyOf is the index of bindings that name no scope or stream. No scope or stream has such a name.
const anyOf = "\x00"

func newWatches(read func(json.RawMessage) (*match, error)) *watches {
	return &watches{read: read, byID: map[string]*watch{}, index: map[string][]*watch{}}
}

// Bind implements Provider.
func (w *watches) Bind(_ context.Context, b Binding) error {
	m, err := w.read(b.Config)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drop(b.ID)
	one := &watch{m, b.own}
	w.byID[b.ID] = one
	w.index[m.place()] = append(w.index[m.place()], one)
	return nil
}

// Unbind implements Provider.
func (w *watches) Unbind(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drop(id)
}

// drop removes a binding; the caller holds mu.
func (w *watches) drop(id string) {
	old := w.byID[id]
	if old == nil {
		return
	}
	delete(w.byID, id)
	name := old.place()
	// A new slice: readers may still walk the old one.
	rest := slices.DeleteFunc(slices.Clone(w.index[name]), func(other *watch) bool { return other == old })
	if len(rest) == 0 {
		delete(w.index, name)
	} else {
		w.index[name] = rest
	}
}

// place is where the index has a match.
func (m *match) place() string {
	if m.first == nil {
		return anyOf
	}
	return *m.first
}

// any reports whether one matches. It takes a read lock and no memory.
func (w *watches) any(first, second string) bool {
	w.mu.RLock()
	defer w.mu.RUnlock()
	for _, name := range [...]string{first, anyOf} {
		for _, one := range w.index[name] {
			if same(one.second, second) {
				return true
			}
		}
	}
	return false
}

// matching is the bindings that a change concerns.
func (w *watches) matching(first string, ok func(*match) bool) []*binding {
	w.mu.RLock()
	defer w.mu.RUnlock()
	var out []*binding
	for _, name := range [...]string{first, anyOf} {
		for _, one := range w.index[name] {
			if ok(one.match) {
				out = append(out, one.b)
			}
		}
	}
	return out
}
