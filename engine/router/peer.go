package router

import (
	"slices"
	"sync"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/protocol"
)

// peer is a connection and the calls it was given. Its lock may be taken before that of a call, never after.
type peer struct {
	conn   Conn
	active counter

	// telling orders the events of the worker; told: the last one was.
	telling sync.Mutex
	told    bool

	mu   sync.Mutex
	gone bool
	// calls are given and not answered, by the id under which they were given.
	calls  map[string]*call
	traces map[string][]*call
	// timeouts counts calls in a row that ended without an answer.
	timeouts int
}

func newPeer(conn Conn) *peer {
	return &peer{conn: conn, calls: map[string]*call{}, traces: map[string][]*call{}}
}

// give notes a call before it is sent. The id is the caller's, or a fresh one if the peer has a call of that id from
// somebody else. It reports false if the peer has gone.
func (p *peer) give(c *call, meta bus.Meta, ids clock.IDs) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone {
		return false
	}
	c.handOver(meta, &p.active, p, nil)
	id := c.InvocationID
	for p.calls[id] != nil {
		id = ids.UUID()
	}
	c.calleeID = id
	p.calls[id] = c
	if c.trace != "" {
		p.traces[c.trace] = append(p.traces[c.trace], c)
	}
	return true
}

// idOf is the id under which the peer was given a call.
func (p *peer) idOf(c *call) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return c.calleeID
}

// take removes the call that an answer belongs to; nil if there is none.
func (p *peer) take(id string) *call {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.calls[id]
	if c != nil {
		p.forget(c)
	}
	return c
}

// forget removes a call. The caller holds mu.
func (p *peer) forget(c *call) {
	if p.calls[c.calleeID] != c {
		return
	}
	delete(p.calls, c.calleeID)
	if c.trace == "" {
		return
	}
	rest := slices.DeleteFunc(p.traces[c.trace], func(other *call) bool { return other == c })
	if len(rest) == 0 {
		delete(p.traces, c.trace)
	} else {
		p.traces[c.trace] = rest
	}
}

// drop removes a call that was not sent.
func (p *peer) drop(c *call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget(c)
}

// leave marks the peer as gone and returns what it has not answered.
func (p *peer) leave() []*call {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone = true
	left := make([]*call, 0, len(p.calls))
	for _, c := range p.calls {
		left = append(left, c)
	}
	clear(p.calls)
	clear(p.traces)
	return left
}

// given is the call that the peer was given under an id as it may be written.
func (p *peer) given(id string) *call {
	canonical, ok := protocol.CanonicalID(id)
	if !ok {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[canonical]
}

// traced are the calls of a trace that the peer was given.
func (p *peer) traced(trace string) []*call {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.traces[trace])
}

// peer is the peer of a connection; nil if it has gone.
func (r *Router) peer(connection string) *peer {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.peers[connection]
}
