package router

import "time"

// Connections that are cut early, one after the other, are a loop: a frame too large in what a worker registers ends its
// connection each time it comes back.
const (
	// early is how long a connection lasts at least that is none of a loop.
	early = 10 * time.Second
	// calm is how long a loop is remembered after its last connection.
	calm = time.Minute
	// tolerated is how many of a row are nothing.
	tolerated = 3
	// firstHold doubles with every further one, up to lastHold.
	firstHold = time.Second
	lastHold  = 8 * time.Second
	maxLoops  = 256
)

// loopKey is who loops: a worker by its name, or by its address if it never said who it is.
type loopKey struct{ principal, name, ip string }

type loop struct {
	count int
	last  time.Duration // when the last connection ended
}

// loops are the connections that are cut again and again. Router.life guards it.
type loops map[loopKey]loop

func (r *Router) loopKey(on Conn) loopKey {
	k := loopKey{principal: on.Principal().ID}
	if w, ok := r.cfg.Registry.Worker(on.ID()); ok && w.Name != "" {
		k.name = w.Name
	} else {
		k.ip = on.RemoteIP()
	}
	return k
}

// churned counts a connection that has ended, and returns how long its socket is to be kept from closing, if the bus
// closes it: the worker comes back that much later. The caller holds life.
func (r *Router) churned(on *link) time.Duration {
	now := r.cfg.Clock.Monotonic()
	k := r.loopKey(on.conn)
	for other, l := range r.loops {
		if now-l.last >= calm {
			delete(r.loops, other)
		}
	}
	switch {
	case now-on.opened >= early:
		delete(r.loops, k)
		return 0
	case !on.conn.Cut(), len(r.loops) >= maxLoops && r.loops[k].count == 0:
		return 0
	}
	n := r.loops[k].count + 1
	r.loops[k] = loop{n, now}
	if n <= tolerated {
		return 0
	}
	if n == tolerated+1 {
		r.log.Error("a worker is cut as often as it comes", "alarm", "connection_churn",
			"worker_id", on.conn.WorkerID(), "worker_name", k.name, "principal", k.principal, "in_a_row", n)
	}
	return min(firstHold<<min(n-tolerated-1, 8), lastHold)
}

// Churn is how many connections of the worker of a connection were cut early in a row; 0 for one that is no loop.
func (r *Router) Churn(connection string) int {
	r.life.Lock()
	defer r.life.Unlock()
	p := r.peer(connection)
	if p == nil {
		return 0
	}
	l := r.loops[r.loopKey(p.conn())]
	if l.count <= tolerated || r.cfg.Clock.Monotonic()-l.last >= calm {
		return 0
	}
	return l.count
}
