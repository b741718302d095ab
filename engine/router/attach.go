package router

import (
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
)

// Attach adds a connection.
func (r *Router) Attach(conn Conn) {
	p := newPeer(conn)
	r.mu.Lock()
	r.peers[conn.ID()] = p
	r.mu.Unlock()
	r.cfg.Registry.Connect(conn.ID(), conn.WorkerID(), conn.RemoteIP(), conn.Principal())
	r.event(p, EventConnected)
}

// Detach removes a connection that is gone for good: its functions and triggers go, and the calls that it was given end
// with invocation_stopped. Calls that it made go on, and their results are dropped. Last it waits for Config.Gone.
func (r *Router) Detach(conn Conn) {
	r.mu.Lock()
	p := r.peers[conn.ID()]
	if p != nil && p.conn == conn {
		delete(r.peers, conn.ID())
	}
	r.mu.Unlock()
	if p == nil || p.conn != conn {
		return
	}
	// First nothing more is given to it, then what it was given ends.
	r.cfg.Registry.Disconnect(conn.ID())
	if r.cfg.Triggers != nil {
		r.cfg.Triggers.Drop(conn.ID())
	}
	for _, c := range p.leave() {
		r.complete(c, outcome{err: protocol.InvocationStopped()})
	}
	if r.cfg.Gone != nil {
		r.cfg.Gone(conn.ID())
	}
	r.event(p, EventDisconnected)
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
	r.mu.RLock()
	peers := make([]*peer, 0, len(r.peers))
	for _, p := range r.peers {
		peers = append(peers, p)
	}
	r.mu.RUnlock()
	now := r.cfg.Clock.Monotonic()
	for _, p := range peers {
		for _, c := range p.older(now - r.cfg.MaxAge) {
			r.log.Warn("a call was never answered", "function_id", c.FunctionID, "worker_id", p.conn.WorkerID())
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
