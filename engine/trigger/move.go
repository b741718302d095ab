package trigger

import "slices"

// Move hands what a connection bound and provides to the one that follows it. Providers hear nothing of it; what the
// worker then registers again keeps its place, and what it binds again unchanged goes on. What the new connection
// provides itself already takes the place that the old one had.
func (t *Table) Move(from, to string) {
	if from == to {
		return
	}
	t.changing.Lock()
	defer t.changing.Unlock()
	for _, kind := range t.follow(from, to) {
		t.resettle(kind, nil)
	}
}

// follow moves, and returns the types whose order has changed by it.
func (t *Table) follow(from, to string) (changed []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for b := range t.byConn[from] {
		b.connection.Store(&to)
		b.moved = true
		t.index(t.byConn, to, b)
	}
	delete(t.byConn, from)
	for k := range t.provided[from] {
		s := t.types[k]
		i, old := s.of(from)
		if j, late := s.of(to); late != nil {
			s.above = slices.Clone(s.above)
			s.above[i] = late
			s.remove(j)
			old.worker.close(old)
			changed = append(changed, k.id)
			continue
		}
		old.moved = true
		t.provide(to, k)
	}
	if l := t.lines[from]; l != nil {
		t.move(l, to)
		if t.lines[to] == nil {
			t.lines[to] = l
		}
		delete(t.lines, from)
	}
	delete(t.provided, from)
	return changed
}

// Prune removes what was moved to a connection and was not registered there since.
func (t *Table) Prune(connection string) {
	t.changing.Lock()
	defer t.changing.Unlock()
	t.mu.RLock()
	var stale []*binding
	for b := range t.byConn[connection] {
		if b.moved {
			stale = append(stale, b)
		}
	}
	unused := map[typeKey]bool{}
	for k := range t.provided[connection] {
		if _, one := t.types[k].of(connection); one != nil && one.moved {
			unused[k] = true
		}
	}
	t.mu.RUnlock()
	for _, b := range stale {
		t.drop(b)
	}
	t.withdraw(connection, func(k typeKey) bool { return unused[k] })
}

// Drop removes all that a connection bound, and then what it provides.
func (t *Table) Drop(connection string) {
	t.changing.Lock()
	defer t.changing.Unlock()
	t.mu.RLock()
	bound := make([]*binding, 0, len(t.byConn[connection]))
	for b := range t.byConn[connection] {
		bound = append(bound, b)
	}
	t.mu.RUnlock()
	for _, b := range bound {
		t.drop(b)
	}
	t.withdraw(connection, func(typeKey) bool { return true })
}
