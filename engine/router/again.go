package router

import (
	"strings"

	"github.com/iii-aws/harness/engine/protocol"
)

// again hands a call on that its callee did not run, and reports whether it did. A worker that takes a function back
// may be sent a call of it that crosses its frame: it answers that it has no such function, and who serves now gets the
// call. The namespace in the text is the bus's own, when the handler ran and something that it called was not found.
func (r *Router) again(p *peer, c *call, f *protocol.InvocationResult) bool {
	e := f.Error
	if e == nil || e.Code != protocol.CodeFunctionNotFound || strings.Contains(e.Message, " in namespace ") ||
		r.owns(p, c) || !c.takeBack() {
		return false
	}
	r.background(func() {
		if err := r.dispatch(r.base, c); err != nil {
			r.complete(c, outcome{err: err})
		}
	})
	return true
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
