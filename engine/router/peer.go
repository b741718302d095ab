package router

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/protocol"
)

// phase is how a worker stands to its connection.
type phase uint8

const (
	attached phase = iota
	// returning: it has a new connection, which is being sent what was kept for it.
	returning
	// away: its connection is lost, and it may come back.
	away
	gone
)

// peer is a worker over all its connections, and the calls it was given. Its lock may be taken before that of a call,
// never after. Router.life guards what is said to be guarded by it.
type peer struct {
	// key names the worker: the worker id of its first connection.
	key string
	// first is its first connection, by which it is known to those that it has called.
	first  string
	active *counter
	link   atomic.Pointer[link]
	// called: it has made a call.
	called atomic.Bool
	// next is the worker that this one turned out to be; nil if it is itself.
	next atomic.Pointer[peer]

	mu    sync.Mutex
	phase phase
	// changed is closed when the phase or the link changes; nil while nobody waits.
	changed chan struct{}
	// calls are given and not answered, by the id under which they were given.
	calls  map[string]*call
	traces map[string][]*call
	// timeouts counts calls in a row that ended without an answer.
	timeouts int
	// waiting are calls that came while the worker was away; backlog is what it is to be sent first.
	waiting waiting
	backlog backlog
	// kept are results that may be for calls of who the worker turns out to be.
	kept kept
	// joined are the counters of what this worker was before it was known, while they count anything.
	joined []*counter

	// Guarded by Router.life.
	known []credential // what it may present, newest last
	// addresses are what its calls have as their Connection: its first connection, and behind it those on which it called
	// before it was known who it is.
	addresses []string
	stop      chan struct{} // ends the timer that runs; nil if none does
	// absent: the grace runs.
	absent bool

	hooking sync.Mutex
	hooks   []func() // guarded by Router.life; run in order, one at a time, under hooking
}

// link is one connection of a worker.
type link struct {
	conn   Conn
	opened time.Duration

	// telling orders the events of the connection; told: the last one was.
	telling sync.Mutex
	told    bool
}

// credential is what a worker presents to come back.
type credential struct{ connection, workerID, token string }

// maxKnown is how many connections of a worker are known at once: a worker that never heard of its last ones comes back
// with an older one.
const maxKnown = 4

// maxAddresses is how many addresses one worker may have.
const maxAddresses = 64

func newPeer(conn Conn, opened time.Duration) *peer {
	p := &peer{key: conn.WorkerID(), active: &counter{}, first: conn.ID(), calls: map[string]*call{}, traces: map[string][]*call{}, known: []credential{credentialOf(conn)}, addresses: []string{conn.ID()}}
	p.link.Store(&link{conn: conn, opened: opened})
	return p
}

func credentialOf(conn Conn) credential {
	return credential{conn.ID(), canonical(conn.WorkerID()), conn.ReattachToken()}
}

// canonical is a worker id as it is compared.
func canonical(id string) string {
	if c, ok := protocol.CanonicalID(id); ok {
		return c
	}
	return id
}

// address is what a call of the worker has as its Connection. It reaches the worker on whatever connection.
func (p *peer) address() string {
	p.called.Store(true) // before it is looked who the worker is, see take
	return p.root().first
}

// conn is the worker's connection, the last one while it is away.
func (p *peer) conn() Conn { return p.link.Load().conn }

// root is the worker that p is.
func (p *peer) root() *peer {
	for p != nil {
		next := p.next.Load()
		if next == nil {
			return p
		}
		p = next
	}
	return nil
}

// retired reports whether a connection is an earlier one of the worker. The caller holds Router.life.
func (p *peer) retired(conn Conn) bool {
	return slices.ContainsFunc(p.known, func(c credential) bool { return c.connection == conn.ID() && c.token == conn.ReattachToken() })
}

// wake tells those that wait for a change. The caller holds mu.
func (p *peer) wake() {
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// change is closed at the next change. The caller holds mu.
func (p *peer) change() <-chan struct{} {
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	return p.changed
}

// give notes a call before it is sent, and returns the connection to send it to. The id is the caller's, or a fresh one
// if the peer has a call of that id from somebody else. A worker that is away takes the call later: parked is true. ok is
// false if the peer is gone, or has more waiting than it may.
func (p *peer) give(c *call, meta bus.Meta, ids clock.IDs, resume func()) (to *link, parked, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch p.phase {
	case gone:
		return nil, false, false
	case away, returning:
		return nil, true, p.waiting.add(c, resume)
	}
	c.handOver(meta, p.active, p, nil)
	id := c.InvocationID
	for p.calls[id] != nil {
		id = ids.UUID()
	}
	c.calleeID = id
	p.calls[id] = c
	if c.trace != "" {
		p.traces[c.trace] = append(p.traces[c.trace], c)
	}
	return p.link.Load(), false, true
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

// drop removes a call that was not sent, and reports whether the peer still had it.
func (p *peer) drop(c *call) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	had := p.calls[c.calleeID] == c
	p.forget(c)
	return had
}

// has reports whether the peer was given a call of that id and has not answered it.
func (p *peer) has(id string) bool {
	canonical, ok := protocol.CanonicalID(id)
	p.mu.Lock()
	defer p.mu.Unlock()
	return ok && p.calls[canonical] != nil
}

// leave marks the peer as gone and returns what it has not answered, and what waited for it.
func (p *peer) leave() (left []*call, parked []parkedCall) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.phase = gone
	left = make([]*call, 0, len(p.calls))
	for _, c := range p.calls {
		left = append(left, c)
	}
	clear(p.calls)
	clear(p.traces)
	p.backlog = backlog{}
	p.wake()
	return left, p.waiting.take(nil)
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

// load is how many calls the worker serves or waits for.
func (p *peer) load() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.active.value()
	for _, c := range p.joined {
		n += c.value()
	}
	return n
}

// current is the worker of a connection; nil if it is gone, or has another connection now: that one registers all anew.
func (r *Router) current(conn Conn) *peer {
	if p := r.peer(conn.ID()); p != nil && p.conn() == conn {
		return p
	}
	return nil
}

// peer is the worker of a connection; nil if it is gone.
func (r *Router) peer(connection string) *peer {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.peers[connection]
}
