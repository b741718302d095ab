package router

import (
	"crypto/subtle"
	"errors"
	"slices"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
)

// Reattach takes a reattach of a socket. If it names an earlier connection of a worker, with its token and for the same
// principal, the socket is the connection of that worker from then on: the calls that it was given and those that it has
// made follow, what it has registered keeps its place when it is registered again, and an earlier connection that is
// still open is closed. Whether the socket has registered, called or announced anything before makes no difference.
// Anything else is ignored. What the worker does not register again within Config.Grace goes.
func (r *Router) Reattach(conn Conn, f *protocol.Reattach) {
	r.life.Lock()
	p := r.returns(conn, f)
	if p == nil {
		r.life.Unlock()
		r.log.Debug("a reattach was ignored", "worker_id", conn.WorkerID(), "principal", conn.Principal().ID)
		return
	}
	last := p.link.Load()
	from, to := last.conn.ID(), conn.ID()
	late, results := r.take(p, conn)
	if namespace, fixed := r.cfg.Registry.Move(from, to); fixed {
		conn.NamespaceFixed(namespace)
	}
	r.recheck(p, conn)
	if r.cfg.Triggers != nil {
		r.cfg.Triggers.Move(from, to)
	}
	on := p.link.Load()
	r.after(p, r.patience(), func() {
		r.cfg.Registry.Prune(to)
		if r.cfg.Triggers != nil {
			r.cfg.Triggers.Prune(to)
		}
	})
	p.hooks = append(p.hooks, func() { r.event(last, EventDisconnected) })
	r.life.Unlock()
	last.conn.Close()
	for _, c := range late {
		r.complete(c, outcome{err: protocol.InvocationStopped()})
	}
	for _, f := range results {
		r.HandleResult(conn, f)
	}
	r.background(func() {
		p.runHooks(&r.life)
		r.flush(p, on)
	})
}

// patience is how long a worker that is back may take to register what it serves.
func (r *Router) patience() time.Duration {
	if r.cfg.Grace < 0 {
		return DefaultGrace
	}
	return r.cfg.Grace
}

// returns is the worker that a reattach names; nil if it names none. The caller holds life.
func (r *Router) returns(conn Conn, f *protocol.Reattach) *peer {
	id := canonical(f.PreviousWorkerID)
	r.mu.RLock()
	p, own := r.byWorker[id], r.peers[conn.ID()]
	r.mu.RUnlock()
	// A connection comes back once, as itself, and not after its end.
	if p == nil || own == nil || p == own || own.link.Load().conn != conn || len(own.known) > 1 || own.absent {
		return nil
	}
	for _, c := range p.known {
		if c.workerID != id {
			continue
		}
		same := subtle.ConstantTimeCompare([]byte(c.token), []byte(f.ReattachToken)) == 1
		if a, b := p.conn().Principal(), conn.Principal(); same && c.token != "" && a.ID == b.ID && a.Role == b.Role && a.WorkspaceID == b.WorkspaceID {
			return p
		}
	}
	return nil
}

// take makes a connection that of a worker, with what came on it so far. It returns the calls that end by it: two callers
// chose one id, and the answer could not be told apart; and the results that came before it was known whose they are. The
// caller holds life.
func (r *Router) take(p *peer, conn Conn) (ended []*call, results []*protocol.InvocationResult) {
	r.mu.RLock()
	fresh := r.peers[conn.ID()]
	r.mu.RUnlock()
	if p.absent {
		p.absent = false
		r.absent.Add(-1)
	}
	r.cancel(p)
	p.mu.Lock()
	fresh.mu.Lock()
	fresh.next.Store(p)
	for id, c := range fresh.calls {
		if p.calls[id] != nil {
			ended = append(ended, c)
			continue
		}
		p.calls[id] = c
	}
	for trace, calls := range fresh.traces {
		for _, c := range calls {
			if p.calls[c.calleeID] == c {
				p.traces[trace] = append(p.traces[trace], c)
			}
		}
	}
	p.waiting.calls = append(p.waiting.calls, fresh.waiting.calls...)
	p.waiting.bytes += fresh.waiting.bytes
	p.backlog.frames = append(p.backlog.frames, fresh.backlog.frames...)
	p.backlog.bytes += fresh.backlog.bytes
	p.joined = slices.DeleteFunc(append(append(p.joined, fresh.active), fresh.joined...), func(c *counter) bool { return c.value() == 0 })
	p.phase = returning
	p.link.Store(fresh.link.Load())
	results, fresh.kept = fresh.kept.results, kept{}
	fresh.phase, fresh.calls, fresh.traces, fresh.waiting, fresh.backlog = gone, map[string]*call{}, map[string][]*call{}, waiting{}, backlog{}
	p.wake()
	fresh.wake()
	fresh.mu.Unlock()
	p.mu.Unlock()

	p.known = append(p.known, credentialOf(conn))
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(p.known) > maxKnown {
		if !slices.Contains(p.addresses, p.known[0].connection) {
			delete(r.peers, p.known[0].connection)
		}
		delete(r.byWorker, p.known[0].workerID)
		p.known = p.known[1:]
	}
	// What called before it was known who it is has given that address away.
	if fresh.called.Load() {
		p.addresses = append(p.addresses, fresh.addresses...)
	}
	if len(p.addresses) > maxAddresses {
		lost := p.addresses[1]
		p.addresses = slices.Delete(p.addresses, 1, 2)
		delete(r.peers, lost)
		p.hooks = append(p.hooks, func() { r.gone(lost) })
	}
	r.peers[conn.ID()], r.byWorker[canonical(conn.WorkerID())] = p, p
	return ended, results
}

// gone tells the host that an address reaches nobody any more.
func (r *Router) gone(address string) {
	if r.cfg.Gone != nil {
		r.cfg.Gone(address)
	}
}

// recheck takes from a worker what its new connection may not serve. The caller holds life.
func (r *Router) recheck(p *peer, conn Conn) {
	if r.cfg.Access == nil {
		return
	}
	caller := r.caller(p)
	for _, f := range r.cfg.Registry.Registered(conn.ID()) {
		if err := r.cfg.Access.Register(caller, f.Namespace, f.FunctionID); err != nil {
			r.log.Warn("a worker came back without the right to a function", "function_id", f.FunctionID, "namespace", f.Namespace,
				"worker_id", conn.WorkerID(), "principal", conn.Principal().ID, "error", err)
			r.cfg.Registry.Unregister(conn.ID(), f.Namespace, f.FunctionID)
		}
	}
}

// keep keeps a frame that its connection did not send, if it still counts. The caller holds mu.
func (p *peer) keep(f protocol.Frame) {
	if p.counts(f) {
		p.backlog.add(f)
	}
}

// counts reports whether a frame that was not sent still does. What the new connection is told anyway does not, nor do
// calls that have ended. The caller holds mu.
func (p *peer) counts(f protocol.Frame) bool {
	switch f := f.(type) {
	case *protocol.InvokeFunction:
		id, ok := protocol.CanonicalID(f.InvocationID)
		return !ok || p.calls[id] != nil
	case *protocol.InvocationResult, *protocol.RegisterTrigger, *protocol.UnregisterTrigger:
		return true
	}
	return false
}

// resend sends a worker what its retired connection did not.
func (r *Router) resend(p *peer, frames []protocol.Frame) {
	if len(frames) == 0 {
		return
	}
	r.background(func() {
		for _, f := range frames {
			p.mu.Lock()
			counts := p.counts(f)
			p.mu.Unlock()
			if !counts {
				continue
			}
			if err := p.post(r.base, f); err != nil && !errors.Is(err, bus.ErrGone) {
				r.unfit(p, p.link.Load(), f, err)
			}
		}
	})
}
