package router

import (
	"context"
	"errors"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
)

// Bounds of what is kept for one worker that is away. The bytes are those of data and results.
const (
	maxWaiting      = 4096
	maxWaitingBytes = 32 << 20
	maxBacklogBytes = 32 << 20
)

// parkedCall is a call that waits for its worker to come back or to be gone.
type parkedCall struct {
	call *call
	// resume looks for the target anew.
	resume func()
}

// waiting are calls in the order in which they came.
type waiting struct {
	calls []parkedCall
	bytes int
}

// add reports false if there is no room.
func (w *waiting) add(c *call, resume func()) bool {
	if len(w.calls) >= maxWaiting || w.bytes+len(c.Data) > maxWaitingBytes {
		return false
	}
	w.calls = append(w.calls, parkedCall{c, resume})
	w.bytes += len(c.Data)
	return true
}

// take removes and returns the calls that pick names; nil names all.
func (w *waiting) take(pick func(*call) bool) []parkedCall {
	if pick == nil {
		all := w.calls
		*w = waiting{}
		return all
	}
	var taken, kept []parkedCall
	for _, c := range w.calls {
		if pick(c.call) {
			taken = append(taken, c)
			w.bytes -= len(c.call.Data)
		} else {
			kept = append(kept, c)
		}
	}
	w.calls = kept
	return taken
}

// park has a call wait that could not be sent because the connection closes. It reports false if the worker is gone, has
// come back since, or has too many waiting.
func (p *peer) park(on *link, c *call, resume func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.phase != gone && p.link.Load() == on && p.waiting.add(c, resume)
}

// resume looks anew for the target of a call that has waited. One that nobody waits for any more ends.
func (r *Router) resume(ctx context.Context, c *call) {
	var err error = context.Canceled
	if !c.abandoned() {
		err = r.dispatch(ctx, c)
	}
	if err != nil {
		// Its caller may have gone on, and then reads the row of it.
		r.dedup.cancel(c)
		r.complete(c, outcome{err: err})
	}
}

// abandoned reports whether nobody is to hear of the end of a call, or that has come.
func (c *call) abandoned() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.done || len(c.waiters) == 0 && c.rowTo == nil
}

// overfull is the answer to a call that may not wait, because too many do.
func overfull(functionID string) error {
	return &bus.Error{Code: protocol.CodeChannelSendFailed, Message: "The worker of " + functionID + " is away, and too many calls wait for it."}
}

// backlog is what a worker that is away is to be sent first, in order.
type backlog struct {
	frames []protocol.Frame
	bytes  int
}

func (b *backlog) add(f protocol.Frame) {
	size := sizeOf(f)
	if res, ok := f.(*protocol.InvocationResult); ok && b.bytes+size > maxBacklogBytes {
		f = &protocol.InvocationResult{
			InvocationID: res.InvocationID, FunctionID: res.FunctionID, Traceparent: res.Traceparent, Baggage: res.Baggage,
			Error: &protocol.Error{Code: protocol.CodeValueTooLarge, Message: "The result of " + res.FunctionID + " could not be kept while its caller was away."},
		}
		size = 0
	}
	b.frames = append(b.frames, f)
	b.bytes += size
}

func (b *backlog) first() protocol.Frame {
	f := b.frames[0]
	b.frames = b.frames[1:]
	b.bytes -= sizeOf(f)
	return f
}

// back puts a frame at the front again.
func (b *backlog) back(f protocol.Frame) {
	b.frames = append([]protocol.Frame{f}, b.frames...)
	b.bytes += sizeOf(f)
}

func sizeOf(f protocol.Frame) int {
	switch f := f.(type) {
	case *protocol.InvocationResult:
		return len(f.Result)
	case *protocol.InvokeFunction:
		return len(f.Data)
	}
	return 0
}

// post sends a frame to the worker, or keeps it until the worker is back. Errors: bus.ErrGone once the worker is gone for
// good, else those of Conn.Send.
func (p *peer) post(ctx context.Context, f protocol.Frame) error {
	for {
		p = p.root()
		p.mu.Lock()
		on := p.link.Load()
		switch {
		case p.next.Load() != nil:
			p.mu.Unlock()
			continue
		case p.phase == gone:
			p.mu.Unlock()
			return bus.ErrGone
		case p.phase != attached:
			p.backlog.add(f)
			p.mu.Unlock()
			return nil
		}
		p.mu.Unlock()
		err := on.conn.Send(ctx, f)
		if !errors.Is(err, bus.ErrGone) {
			return err
		}
		// The connection closes; the worker may come back, or has.
		p.mu.Lock()
		same := p.next.Load() == nil && p.link.Load() == on && p.phase != gone
		if same {
			p.backlog.add(f)
		}
		p.mu.Unlock()
		if same {
			return nil
		}
	}
}

// flush sends a worker that is back what was kept for it, on the connection that it came back on.
func (r *Router) flush(p *peer, on *link) {
	for {
		p.mu.Lock()
		if p.phase != returning || p.link.Load() != on {
			p.mu.Unlock()
			return
		}
		if len(p.backlog.frames) == 0 {
			p.phase = attached
			parked := p.waiting.take(nil)
			p.wake()
			p.mu.Unlock()
			r.resumeAll(parked)
			return
		}
		f := p.backlog.first()
		p.mu.Unlock()
		if call, ok := f.(*protocol.InvokeFunction); ok && call.InvocationID != "" && !p.has(call.InvocationID) {
			continue // it has ended meanwhile
		}
		err := on.conn.Send(r.base, f)
		switch {
		case err == nil:
		case errors.Is(err, bus.ErrGone):
			p.mu.Lock()
			p.backlog.back(f)
			if p.phase == returning && p.link.Load() == on {
				p.phase = away // its Detach is on the way
			}
			p.mu.Unlock()
		default:
			r.unfit(p, on, f, err)
		}
	}
}

// unfit ends what a kept frame was for that its new connection does not take.
func (r *Router) unfit(p *peer, on *link, f protocol.Frame, err error) {
	r.log.Warn("a frame that was kept could not be sent", "type", f.Type(), "worker_id", on.conn.WorkerID(), "error", err)
	switch f := f.(type) {
	case *protocol.InvokeFunction:
		if id, ok := protocol.CanonicalID(f.InvocationID); ok {
			if c := p.take(id); c != nil {
				r.complete(c, outcome{err: sendError(f.FunctionID, err)})
			}
		}
	case *protocol.InvocationResult:
		failed := *f
		failed.Result, failed.Error = nil, unsendable(f.FunctionID, err)
		if err := on.conn.Send(r.base, &failed); err != nil && !errors.Is(err, bus.ErrGone) {
			r.log.Error("a caller waits for ever", "alarm", "result_lost", "function_id", f.FunctionID, "error", err)
		}
	}
}

func (r *Router) resumeAll(parked []parkedCall) {
	for _, c := range parked {
		r.background(c.resume)
	}
}

// Waiting is how many calls wait for the worker of a connection to come back.
func (r *Router) Waiting(connection string) int {
	p := r.peer(connection)
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.waiting.calls)
}

// Reconsider looks anew for the targets of calls that wait for a worker of a function: somebody else may serve it now.
func (r *Router) Reconsider(namespace, functionID string) {
	if r.absent.Load() == 0 {
		return
	}
	r.mu.RLock()
	peers := make([]*peer, 0, len(r.peers))
	for _, p := range r.peers {
		peers = append(peers, p)
	}
	r.mu.RUnlock()
	for _, p := range peers {
		p.mu.Lock()
		parked := p.waiting.take(func(c *call) bool { return c.Namespace == namespace && c.FunctionID == functionID })
		p.mu.Unlock()
		r.resumeAll(parked)
	}
}
