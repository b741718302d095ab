package router

import (
	"context"
	"errors"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
)

// HandleInvoke takes an invokefunction of a socket. It returns when the call is handed over; the answer comes by the
// connection's Send. It waits only while the outbound queue of another connection is full, until ctx ends.
func (r *Router) HandleInvoke(ctx context.Context, conn Conn, f *protocol.InvokeFunction) {
	p := r.peer(conn.ID())
	if p == nil {
		return
	}
	void := f.Action != nil && f.Action.Type == protocol.ActionVoid
	w := r.answerTo(p, f, void)
	if protocol.IsBlankNamespace(f.Namespace) {
		w.deliver(outcome{err: protocol.BlankNamespace("namespace")})
		return
	}
	c, err := r.socketCall(p, f, void)
	if err != nil {
		w.deliver(outcome{err: err})
		return
	}
	if r.cfg.Access != nil {
		if err := r.cfg.Access.Call(r.caller(p), c.Namespace, c.FunctionID); err != nil {
			r.refused(p, f, w).deliver(outcome{err: err})
			return
		}
	}
	if f.Action != nil && f.Action.Type == protocol.ActionEnqueue {
		r.handleEnqueue(c, f.Action.Queue, w)
		return
	}
	c.callerWorker = conn.WorkerID()
	if void {
		w = &refusable{waiter: w, r: r, p: p, f: f}
	} else {
		c.caller = p.active
	}
	c.waiters = append(c.waiters, w)
	_, _ = r.begin(ctx, c, w) // w hears of errors
}

// socketCall is the call that a frame asks for.
func (r *Router) socketCall(p *peer, f *protocol.InvokeFunction, void bool) (*call, error) {
	c := &call{since: r.cfg.Clock.Monotonic()}
	c.FunctionID, c.Namespace, c.Data, c.Connection = f.FunctionID, bus.DefaultNamespace, f.Data, p.address()
	if len(c.Data) == 0 {
		c.Data = []byte("null")
	}
	if f.Namespace != nil {
		c.Namespace = *f.Namespace
	}
	c.Principal = principalOf(p, f)
	var err error
	if c.Metadata, err = ownMetadata(f.Metadata); err != nil {
		return nil, err
	}
	id := f.InvocationID
	if void {
		id = "" // the callee answers under an id of the bus
	}
	if err := r.identify(c, id, p.key); err != nil {
		return nil, err
	}
	c.setTrace(f.Traceparent, f.Baggage)
	return c, nil
}

// caller is the socket as Access sees it.
func (r *Router) caller(p *peer) Caller {
	w, _ := r.cfg.Registry.Worker(p.conn().ID())
	return Caller{Conn: p.conn(), Connection: p.conn().ID(), WorkerID: p.conn().WorkerID(), Namespace: w.Namespace, Principal: p.conn().Principal()}
}

// refused is who hears of a refusal: also a caller that waits for nothing, under a fresh id.
func (r *Router) refused(p *peer, f *protocol.InvokeFunction, w waiter) waiter {
	if _, ok := w.(*answer); ok {
		return w
	}
	return &answer{r: r, p: p, id: r.cfg.IDs.UUID(), frame: f}
}

// refusable is the waiter of a void call: only a refusal reaches the caller.
type refusable struct {
	waiter
	r *Router
	p *peer
	f *protocol.InvokeFunction
}

func (v *refusable) deliver(out outcome) {
	w := v.waiter
	var refusal *refusedError
	if errors.As(out.err, &refusal) {
		w = v.r.refused(v.p, v.f, w)
	}
	w.deliver(out)
}
