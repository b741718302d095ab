package router

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/registry"
)

// attempts is how often a call looks for its target when connections go just then.
const attempts = 3

// dispatch hands a call to who serves it now. Without an error the call ends by complete; with one it was given to
// nobody.
func (r *Router) dispatch(ctx context.Context, c *call) error {
	for range attempts {
		reg, err := r.resolve(c.Namespace, c.FunctionID)
		if err != nil {
			return err
		}
		if err := r.reachable(c, reg); err != nil {
			return err
		}
		if c.Data, err = payload(c, reg); err != nil {
			return err
		}
		if reg.Handler != nil {
			r.run(ctx, c, reg, r.counter(reg.WorkerID), reg.Handler)
			return nil
		}
		if reg.Remote != nil {
			r.runRemote(ctx, c, reg)
			return nil
		}
		if p := r.peer(reg.Connection); p != nil {
			if done, err := r.give(ctx, c, reg, p); done {
				return err
			}
		}
		// The worker went after it was looked up.
	}
	return protocol.InvocationStopped()
}

// give hands a call to a worker, or has it wait for one that is away. done is false if it is to be looked for anew.
func (r *Router) give(ctx context.Context, c *call, reg *registry.Registration, p *peer) (done bool, err error) {
	resume := func() { r.resume(context.WithoutCancel(ctx), c) }
	to, parked, ok := p.give(c, reg.Meta, r.cfg.IDs, resume)
	switch {
	case parked && !ok:
		return true, overfull(c.FunctionID)
	case parked:
		return true, nil
	case !ok:
		return false, nil
	}
	err = r.send(ctx, c, p, to)
	if !errors.Is(err, bus.ErrGone) {
		return true, err
	}
	// Nothing was sent: the connection closes, and the call waits with those that come later.
	c.returned()
	return p.park(to, c, resume), nil
}

// reachable refuses calls of internal functions from sockets other than the one that serves it. What a socket had stored
// to be called later may reach those that its own principal serves: the connection may be another by then.
func (r *Router) reachable(c *call, reg *registry.Registration) error {
	switch {
	case !reg.Meta.Internal, c.Connection == "" && !c.external:
		return nil
	case c.external:
		if p := r.peer(reg.Connection); p != nil && p.conn().Principal().ID == c.Principal.ID {
			return nil
		}
	case reg.Connection != "" && r.peer(reg.Connection) == r.peer(c.Connection):
		return nil
	}
	return internalFunction(c.FunctionID)
}

func internalFunction(id string) error {
	return &refusedError{&bus.Error{
		Code:    protocol.CodeForbidden,
		Message: "Function " + id + " is internal to the bus: no connection may call it.",
	}}
}

// payload is the data as the target gets it: a built-in takes null as {}, and a socket that calls is named in data that
// is an object.
func payload(c *call, reg *registry.Registration) (json.RawMessage, error) {
	data := c.Data
	if reg.Handler != nil && string(data) == "null" {
		data = json.RawMessage("{}")
	}
	if c.callerWorker == "" || !isObject(data) {
		return data, nil
	}
	id, err := bus.Encode(c.callerWorker)
	if err != nil {
		return nil, err
	}
	return protocol.SetMember(data, protocol.CallerWorkerID, id)
}

func isObject(data json.RawMessage) bool {
	for _, c := range data {
		switch c {
		case ' ', '\t', '\r', '\n':
			continue
		}
		return c == '{'
	}
	return false
}

// send posts a call that the peer was given. After an error the call is no longer given to it. bus.ErrGone comes back as
// it is; the call then still is the caller's.
func (r *Router) send(ctx context.Context, c *call, p *peer, to *link) error {
	frame := &protocol.InvokeFunction{
		InvocationID: p.idOf(c), FunctionID: c.FunctionID, Data: c.Data, Traceparent: c.Traceparent, Baggage: c.Baggage,
	}
	var err error
	if frame.Metadata, err = busMetadata(&c.Call); err == nil {
		err = to.conn.Send(ctx, frame)
	}
	switch {
	case err == nil:
		return nil
	case !p.root().drop(c):
		return nil // the worker has gone meanwhile, and the call with it
	case errors.Is(err, bus.ErrGone):
		return err
	}
	return sendError(c.FunctionID, err)
}

// sendError is what the caller hears when a call could not be posted.
func sendError(functionID string, err error) error {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return ended(err, functionID, 0)
	case errors.Is(err, bus.ErrTooLarge):
		return &bus.Error{Code: protocol.CodeValueTooLarge, Message: "The call of " + functionID + " does not fit a frame of its worker."}
	}
	return &bus.Error{Code: protocol.CodeChannelSendFailed, Message: err.Error()}
}

// run starts a handler in this process. Its context carries the call and ends when nobody waits for it any more. What goes on
// without its caller ends at its deadline, or with the router.
func (r *Router) run(ctx context.Context, c *call, reg *registry.Registration, callee *counter, h bus.Handler) {
	goesOn := c.Reply != nil || c.key != nil || c.Connection != ""
	if goesOn {
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	c.handOver(reg.Meta, callee, nil, cancel)
	r.background(func() {
		defer context.AfterFunc(r.base, func() { cancel(context.Canceled) })()
		if c.Reply != nil {
			r.expire(ctx, c, cancel)
		}
		out := outcome{err: &bus.Error{Code: protocol.CodeInvocationFailed, Message: "The handler of " + c.FunctionID + " ended without an answer."}}
		// Also when the handler ends its goroutine: nobody must wait for ever.
		defer func() { r.complete(c, out) }()
		out = r.handle(ctx, c, h)
	})
}

// runRemote has a web server serve the call. It counts for the worker that registered the function.
func (r *Router) runRemote(ctx context.Context, c *call, reg *registry.Registration) {
	var callee *counter
	if p := r.peer(reg.Connection); p != nil {
		callee = p.active
	}
	r.run(ctx, c, reg, callee, func(ctx context.Context, call *bus.Call) (json.RawMessage, error) {
		return r.cfg.Remote.Call(ctx, reg.Remote, call)
	})
}

// expire ends the context of a handler at the call's deadline.
func (r *Router) expire(ctx context.Context, c *call, cancel context.CancelCauseFunc) {
	timer := r.cfg.Clock.NewTimer(c.Deadline.Sub(r.cfg.Clock.Now()))
	r.background(func() {
		defer timer.Stop()
		select {
		case <-timer.C():
			cancel(context.DeadlineExceeded)
		case <-ctx.Done():
		}
	})
}

// handle calls a handler and contains its panics.
func (r *Router) handle(ctx context.Context, c *call, h bus.Handler) (out outcome) {
	defer func() {
		value := recover()
		if value == nil {
			return
		}
		attrs := []any{"alarm", "handler_panic", "function_id", c.FunctionID, "invocation_id", c.InvocationID, "stack", string(debug.Stack())}
		if r.cfg.Redact != nil {
			attrs = append(attrs, "panic", r.cfg.Redact(fmt.Sprint(value)))
		}
		r.log.Error("a handler panicked", attrs...)
		out = outcome{err: &bus.Error{Code: protocol.CodeInvocationFailed, Message: "The handler of " + c.FunctionID + " panicked."}}
	}()
	result, err := h(bus.WithCall(ctx, &c.Call), &c.Call)
	switch {
	case err != nil:
		return outcome{err: err}
	case len(result) == 0:
		return outcome{}
	}
	return outcome{result: result}
}
