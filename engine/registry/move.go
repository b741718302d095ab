package registry

import "github.com/iii-aws/harness/engine/bus"

// Move hands what a connection has registered to the one that follows it, both connected. All keeps its place: what the
// worker then registers again does not move to the top, and what it has registered there before goes to the place of
// its former registration. Until the worker announces itself anew it is known by its former announcement. The namespace
// of the former connection is that of the new one, unless that has one already; fixed reports whether it was set by this.
func (r *Registry) Move(from, to string) (namespace string, fixed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old, now := r.workers[from], r.workers[to]
	if old == nil || now == nil || from == to {
		return "", false
	}
	for k := range r.byConn[from] {
		r.stacks[k].move(from, to, now.ID)
		r.note(to, k)
	}
	delete(r.byConn, from)
	next := *now
	if !now.Announced {
		next = *old
		next.ID, next.Connection, next.IP, next.ConnectedAt, next.Namespace = now.ID, to, now.IP, now.ConnectedAt, now.Namespace
	}
	if next.Namespace == "" && old.Namespace != "" {
		next.Namespace, fixed = old.Namespace, true
	}
	next.Status, next.Address = now.Status, old.Address
	r.workers[to] = &next
	delete(r.workers, from)
	r.notify()
	return next.Namespace, fixed
}

// Prune removes what was moved to a connection and was not registered there since.
func (r *Registry) Prune(connection string) {
	r.prune(connection, func(key) bool { return true })
}

// Disown is Prune for one function.
func (r *Registry) Disown(connection, namespace, id string) {
	r.prune(connection, func(k key) bool { return k == key{namespace, id} })
}

func (r *Registry) prune(connection string, which func(key) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var stale []key
	for k := range r.byConn[connection] {
		s := r.stacks[k]
		if i := s.of(connection); which(k) && s.above[i].moved {
			stale = append(stale, k)
		}
	}
	for _, k := range stale {
		r.drop(connection, k)
	}
	if len(stale) > 0 {
		r.notify()
	}
}

// note remembers that a connection has an entry in a stack. The caller holds mu.
func (r *Registry) note(connection string, k key) {
	if r.byConn[connection] == nil {
		r.byConn[connection] = map[key]bool{}
	}
	r.byConn[connection][k] = true
}

// Registered is what a connection has registered, on top or not, in no order.
func (r *Registry) Registered(connection string) []bus.Entry {
	r.mu.RLock()
	defer r.mu.RUnlock()
	out := make([]bus.Entry, 0, len(r.byConn[connection]))
	for k := range r.byConn[connection] {
		s := r.stacks[k]
		out = append(out, s.above[s.of(connection)].Entry)
	}
	return out
}
