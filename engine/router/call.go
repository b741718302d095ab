package router

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"github.com/iii-aws/harness/engine/bus"
)

// outcome is how a call ended.
type outcome struct {
	result json.RawMessage // nil: no value
	err    error
}

// waiter is told of the end of a call, once.
type waiter interface{ deliver(o outcome) }

// call is one invocation from before it is handed over until its end. Its bus.Call is what the callee sees and does not
// change once it is handed over.
type call struct {
	bus.Call
	// external: a connection had the bus make it, so internal functions are out of its reach.
	external bool
	// callerWorker is the worker id of a socket that calls.
	callerWorker string
	trace        string // trace id, empty if none
	since        time.Duration
	caller       *counter
	// key is how repeats find the call; nil if it cannot be repeated.
	key *dedupKey
	// calleeID is the id under which a socket answers. The peer's lock guards it.
	calleeID string

	mu      sync.Mutex
	meta    bus.Meta
	callee  *counter
	counted bool
	// cancel ends the context of a built-in handler.
	cancel context.CancelCauseFunc
	// socket: the callee is behind a socket.
	socket *peer
	// moves counts how often the call was handed on.
	moves   int
	done    bool
	out     outcome
	waiters []waiter
	// rowTo is where the result is written, because the caller no longer waits.
	rowTo *bus.Reply
}

// join adds a waiter. A call that has ended answers at once.
func (c *call) join(w waiter) {
	c.mu.Lock()
	if !c.done {
		c.waiters = append(c.waiters, w)
		c.mu.Unlock()
		return
	}
	out := c.out
	c.mu.Unlock()
	w.deliver(out)
}

// leave removes a waiter; the result will be written to rowTo, if that is set. A handler that nobody waits for any more
// sees its context end with cause. It reports false if the call has ended, in which case the waiter was or will be told.
func (c *call) leave(w waiter, rowTo *bus.Reply, cause error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done {
		return false
	}
	for i, other := range c.waiters {
		if other == w {
			c.waiters = append(c.waiters[:i:i], c.waiters[i+1:]...)
			break
		}
	}
	if rowTo != nil {
		c.rowTo = rowTo
	}
	if len(c.waiters) == 0 && c.rowTo == nil && c.cancel != nil {
		c.cancel(cause)
	}
	return true
}

// handOver notes who gets the call, and counts it for both sides. cancel is that of a built-in handler's context.
func (c *call) handOver(meta bus.Meta, callee *counter, socket *peer, cancel context.CancelCauseFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.meta, c.callee, c.socket, c.cancel = meta, callee, socket, cancel
	if !c.counted && !c.done {
		c.counted = true
		c.caller.add(1)
		c.callee.add(1)
	}
}

// complete ends a call. Only the first end counts.
func (r *Router) complete(c *call, out outcome) {
	c.mu.Lock()
	if c.done {
		c.mu.Unlock()
		return
	}
	c.done, c.out = true, out
	waiters, rowTo, sensitive := c.waiters, c.rowTo, c.meta.Sensitive
	c.waiters = nil
	if c.counted {
		c.caller.add(-1)
		c.callee.add(-1)
	}
	if c.cancel != nil {
		c.cancel(nil)
	}
	c.mu.Unlock()
	r.dedup.finish(c, out, !sensitive)
	if rowTo != nil {
		r.background(func() { r.writeRow(c, *rowTo, out) })
	}
	for _, w := range waiters {
		w.deliver(out)
	}
}

// fail ends a call that was given to nobody. A repeat of it may run.
func (r *Router) fail(c *call, err error) {
	c.mu.Lock()
	c.rowTo = nil
	c.mu.Unlock()
	r.dedup.cancel(c)
	r.complete(c, outcome{err: err})
}

// channel is a waiter in this process.
type channel chan outcome

func newChannel() channel { return make(channel, 1) }

func (c channel) deliver(out outcome) { c <- out }

// counter counts calls; nil counts nothing.
type counter struct{ n atomic.Int64 }

func (c *counter) add(d int64) {
	if c != nil {
		c.n.Add(d)
	}
}

func (c *counter) value() int { return int(c.n.Load()) }

// counter is the count of a built-in worker.
func (r *Router) counter(worker string) *counter {
	if worker == "" {
		return nil
	}
	r.mu.RLock()
	c := r.active[worker]
	r.mu.RUnlock()
	if c != nil {
		return c
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.active[worker] == nil {
		r.active[worker] = &counter{}
	}
	return r.active[worker]
}
