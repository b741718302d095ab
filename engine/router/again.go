package router

import (
	"strings"
	"time"

	"github.com/iii-aws/harness/engine/protocol"
)

// crossing is how long the frame by which a worker takes a function back may stay behind the answer that it does not
// have it, where frames of a connection come in no promised order.
const crossing = 250 * time.Millisecond

// again hands a call on that its callee did not run, and reports whether it takes care of the call. A worker that takes
// a function back may be sent a call of it that crosses its frame: it answers that it has no such function, and who
// serves now gets the call. What a worker answers that keeps the function is its answer. The namespace in the text is the
// bus's own, when the handler ran and something that it called was not found.
func (r *Router) again(p *peer, c *call, f *protocol.InvocationResult) bool {
	e := f.Error
	if e == nil || e.Code != protocol.CodeFunctionNotFound || strings.Contains(e.Message, " in namespace ") || !c.takeBack() {
		return false
	}
	r.background(func() {
		if !r.takenBack(p, c) {
			r.complete(c, outcome{err: e})
			return
		}
		if err := r.dispatch(r.base, c); err != nil {
			r.complete(c, outcome{err: err})
		}
	})
	return true
}

// takenBack waits a moment for a peer to take the function of a call back.
func (r *Router) takenBack(p *peer, c *call) bool {
	timer := r.cfg.Clock.NewTimer(crossing)
	defer timer.Stop()
	for {
		changed := r.cfg.Registry.Changed()
		if !r.owns(p, c) {
			return true
		}
		select {
		case <-changed:
		case <-timer.C():
			return false
		case <-r.base.Done():
			return false
		}
	}
}

// owns reports whether a worker has the function of a call. What it has not registered again since it came back, and now
// does not know, it has not.
func (r *Router) owns(p *peer, c *call) bool {
	connection := p.conn().ID()
	r.cfg.Registry.Disown(connection, c.Namespace, c.FunctionID)
	return r.cfg.Registry.Owns(connection, c.FunctionID)
}

// takeBack undoes handOver, so that the call can be handed to another. It reports false if nobody waits for the call
// any more, or if it was handed on too often.
func (c *call) takeBack() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done || c.moves >= attempts {
		return false
	}
	c.moves++
	c.unhand()
	return true
}

// returned undoes handOver for a call that was not sent.
func (c *call) returned() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.done {
		c.unhand()
	}
}

// unhand undoes handOver. The caller holds mu.
func (c *call) unhand() {
	if c.counted {
		c.counted = false
		c.caller.add(-1)
		c.callee.add(-1)
	}
	c.callee, c.socket, c.cancel = nil, nil, nil
}
