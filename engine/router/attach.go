package router

import (
	"sync"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/registry"
)

// Attach adds a connection.
func (r *Router) Attach(conn Conn) {
	p := newPeer(conn, r.cfg.Clock.Monotonic())
	r.life.Lock()
	r.mu.Lock()
	r.peers[conn.ID()] = p
	r.byWorker[canonical(conn.WorkerID())] = p
	r.mu.Unlock()
	r.cfg.Registry.Connect(conn.ID(), conn.WorkerID(), conn.RemoteIP(), conn.Principal())
	r.life.Unlock()
	r.event(p.link.Load(), EventConnected)
}

// Detach says that a connection has ended. Its worker is away from then on, for the time of Config.Grace: what it serves
// stays, new calls of it wait, and the calls that it was given or has made go on. If it does not come back, see Reattach,
// it is gone for good: its functions and triggers go, calls that waited look for their target anew, the calls that it was
// given end with invocation_stopped, the results of those that it made are dropped, and last Config.Gone hears. Without a
// grace Detach waits for that. What it returns is how long the host is to keep the socket from closing, see Churn.
func (r *Router) Detach(conn Conn) (hold time.Duration) {
	r.life.Lock()
	p := r.peer(conn.ID())
	if p == nil {
		r.life.Unlock()
		return 0
	}
	on := p.link.Load()
	if on.conn != conn {
		retired := p.retired(conn)
		r.life.Unlock()
		if retired {
			r.resend(p, conn.Unsent())
		}
		return 0
	}
	hold = r.churned(on)
	unsent := conn.Unsent()
	p.mu.Lock()
	p.phase = away
	for _, f := range unsent {
		p.keep(f)
	}
	p.wake()
	p.mu.Unlock()
	if r.cfg.Grace < 0 || r.closing || r.base.Err() != nil {
		r.end(p)
	} else {
		p.absent = true
		r.absent.Add(1)
		r.cfg.Registry.SetStatus(conn.ID(), registry.StatusAway)
		r.after(p, r.cfg.Grace, func() { r.leaveNow(p) })
	}
	r.life.Unlock()
	p.runHooks(&r.life)
	return hold
}

// EndGrace ends the grace of all workers that are away, and from now on there is none: the server closes.
func (r *Router) EndGrace() {
	r.life.Lock()
	r.closing = true
	var ended []*peer
	for _, p := range r.all() {
		if p.absent {
			r.leaveNow(p)
			ended = append(ended, p)
		}
	}
	r.life.Unlock()
	for _, p := range ended {
		p.runHooks(&r.life)
	}
}

// leaveNow ends the grace of a worker. The caller holds life, and runs the hooks afterwards.
func (r *Router) leaveNow(p *peer) {
	p.absent = false
	r.absent.Add(-1)
	r.end(p)
}

// end is what happens when a worker is gone for good. The caller holds life, and runs the hooks afterwards.
func (r *Router) end(p *peer) {
	on := p.link.Load()
	// First nothing more is given to it, then what it was given ends.
	r.cfg.Registry.Disconnect(on.conn.ID())
	if r.cfg.Triggers != nil {
		r.cfg.Triggers.Drop(on.conn.ID())
	}
	left, parked := p.leave()
	r.mu.Lock()
	for _, c := range p.known {
		delete(r.peers, c.connection)
		delete(r.byWorker, c.workerID)
	}
	addresses := p.addresses
	for _, address := range addresses {
		delete(r.peers, address)
	}
	r.mu.Unlock()
	r.cancel(p)
	p.hooks = append(p.hooks, func() {
		for _, c := range left {
			r.complete(c, outcome{err: protocol.InvocationStopped()})
		}
		r.resumeAll(parked)
		for _, address := range addresses {
			r.gone(address)
		}
		r.event(on, EventDisconnected)
	})
}

// runHooks runs what the host is to hear of a worker, in order, and waits for it.
func (p *peer) runHooks(life sync.Locker) {
	p.hooking.Lock()
	defer p.hooking.Unlock()
	for {
		life.Lock()
		if len(p.hooks) == 0 {
			life.Unlock()
			return
		}
		next := p.hooks[0]
		p.hooks = p.hooks[1:]
		life.Unlock()
		next()
	}
}

// after runs f at the end of a time, unless the worker's timer is cancelled or set anew. The caller holds life, and so
// does who calls f.
func (r *Router) after(p *peer, d time.Duration, f func()) {
	r.cancel(p)
	stop := make(chan struct{})
	p.stop = stop
	timer := r.cfg.Clock.NewTimer(d)
	r.background(func() {
		defer timer.Stop()
		select {
		case <-timer.C():
		case <-r.base.Done():
		case <-stop:
			return
		}
		r.life.Lock()
		current := p.stop == stop
		if current {
			p.stop = nil
			f()
		}
		r.life.Unlock()
		if current {
			p.runHooks(&r.life)
		}
	})
}

// cancel ends the worker's timer. The caller holds life.
func (r *Router) cancel(p *peer) {
	if p.stop != nil {
		close(p.stop)
		p.stop = nil
	}
}

// all is every worker.
func (r *Router) all() []*peer {
	r.mu.RLock()
	defer r.mu.RUnlock()
	all := make([]*peer, 0, len(r.byWorker))
	seen := make(map[*peer]bool, len(r.byWorker))
	for _, p := range r.byWorker {
		if !seen[p] {
			seen[p] = true
			all = append(all, p)
		}
	}
	return all
}

// FixNamespace fixes the namespace of a connection, unless it is fixed, and returns the one that counts.
func (r *Router) FixNamespace(conn Conn, namespace string) string {
	now, fixed, ok := r.cfg.Registry.FixNamespace(conn.ID(), namespace)
	if !ok {
		return namespace
	}
	if fixed {
		conn.NamespaceFixed(now)
	}
	return now
}

// Sweep forgets the calls that nobody answered within the time of Config.MaxAge. Their callers, if they still wait, hear
// TIMEOUT. The host calls it about once a minute.
func (r *Router) Sweep() {
	now := r.cfg.Clock.Monotonic()
	for _, p := range r.all() {
		for _, c := range p.older(now - r.cfg.MaxAge) {
			r.log.Warn("a call was never answered", "function_id", c.FunctionID, "worker_id", p.conn().WorkerID())
			r.complete(c, outcome{err: &bus.Error{
				Code:    protocol.CodeTimeoutClient,
				Message: "Timeout: " + c.FunctionID + " did not answer within " + r.cfg.MaxAge.String(),
			}})
		}
	}
}

// older removes the calls that were made before a time.
func (p *peer) older(than time.Duration) []*call {
	p.mu.Lock()
	defer p.mu.Unlock()
	var old []*call
	for _, c := range p.calls {
		if c.since < than {
			old = append(old, c)
		}
	}
	for _, c := range old {
		p.forget(c)
	}
	return old
}
