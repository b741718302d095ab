package router

import "github.com/iii-aws/harness/engine/protocol"

// Limits of what is kept of results that came before it was known who the worker is.
const (
	maxKept      = 64
	maxKeptBytes = 4 << 20
)

// kept are results that came on a new connection and belong to no call of it.
type kept struct {
	results []*protocol.InvocationResult
	bytes   int
}

// keepResult keeps a result of a new connection, and reports whether it did: where frames come in no promised order,
// those of a worker that comes back may overtake its reattach.
func (r *Router) keepResult(p *peer, f *protocol.InvocationResult) bool {
	young := r.cfg.Clock.Monotonic()-p.link.Load().opened < r.patience()
	p.mu.Lock()
	defer p.mu.Unlock()
	size := len(f.Result)
	switch {
	case !young:
		p.kept = kept{}
		return false
	case p.phase != attached, len(p.kept.results) >= maxKept, p.kept.bytes+size > maxKeptBytes:
		return false
	}
	p.kept = kept{append(p.kept.results, f), p.kept.bytes + size}
	return true
}
