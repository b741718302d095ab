package router

import "github.com/iii-aws/harness/engine/registry"

// suspectAfter is how many calls in a row a worker may let time out before it is suspect.
const suspectAfter = 2

// suspect notes that a caller gave up on a socket.
func (r *Router) suspect(c *call) {
	c.mu.Lock()
	p := c.socket.root()
	c.mu.Unlock()
	if p == nil || !p.timedOut() {
		return
	}
	r.cfg.Registry.SetStatus(p.conn().ID(), registry.StatusSuspect)
	r.log.Error("a worker lets its calls time out", "alarm", "worker_suspect",
		"worker_id", p.conn().WorkerID(), "function_id", c.FunctionID)
}

// timedOut counts a timeout and reports whether the peer has become suspect by it.
func (p *peer) timedOut() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timeouts++
	return p.timeouts == suspectAfter
}

// answered resets the count and reports whether the peer was suspect.
func (p *peer) answered() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.timeouts >= suspectAfter
	p.timeouts = 0
	return was
}
