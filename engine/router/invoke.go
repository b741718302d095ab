package router

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
)

// invoker is the Invoker of one built-in worker, or of the bus itself.
type invoker struct {
	r      *Router
	worker string
}

// Invoke implements bus.Invoker.
func (i invoker) Invoke(ctx context.Context, in bus.Invocation) (json.RawMessage, error) {
	c, err := i.r.newCall(ctx, i.worker, in)
	if err != nil {
		return nil, bus.AsError(err)
	}
	var out json.RawMessage
	switch in.Action {
	case bus.Sync:
		out, err = i.r.invokeSync(ctx, c, in)
	case bus.Void:
		i.r.invokeVoid(ctx, c)
		return nil, nil
	case bus.Enqueue:
		out, err = i.r.submit(ctx, c, in.Queue, in.IdempotencyKey)(ctx)
	default:
		err = bus.Invalid("action", `"", "void" or "enqueue"`)
	}
	if err == nil || errors.Is(err, bus.ErrAwaiting) || err == context.Canceled {
		return out, err
	}
	return nil, bus.AsError(err)
}

// newCall is the call that an in-process caller makes.
func (r *Router) newCall(ctx context.Context, worker string, in bus.Invocation) (*call, error) {
	c := &call{caller: r.counter(worker), since: r.cfg.Clock.Monotonic()}
	c.FunctionID, c.Namespace, c.Worker, c.IdempotencyKey = in.FunctionID, in.Namespace, worker, in.IdempotencyKey
	if c.Namespace == "" {
		c.Namespace = bus.DefaultNamespace
	}
	c.Data = in.Data
	if len(c.Data) == 0 {
		c.Data = json.RawMessage("null")
	}
	var err error
	if c.Metadata, err = ownMetadata(in.Metadata); err != nil {
		return nil, err
	}
	parent := bus.CallFrom(ctx)
	switch {
	case in.Principal != nil:
		c.Principal = *in.Principal
	case parent != nil:
		c.Principal = parent.Principal
	case worker != "":
		c.Principal = bus.Principal{ID: worker, Role: bus.RoleWorker}
	default:
		c.Principal = bus.System()
	}
	if err := r.identify(c, in.InvocationID, "worker:"+worker); err != nil {
		return nil, err
	}
	c.setTrace(r.cfg.Trace(ctx))
	if in.Reply != nil && in.Action == bus.Sync {
		reply := *in.Reply
		c.Reply = &reply
	}
	return c, nil
}

// identify gives the call its id. A given one makes it repeatable for the caller.
func (r *Router) identify(c *call, id, caller string) error {
	if id == "" {
		c.InvocationID = r.cfg.IDs.UUID()
	} else {
		canonical, ok := protocol.CanonicalID(id)
		if !ok {
			return bus.Invalid("invocation_id", "a UUID")
		}
		c.InvocationID = canonical
		c.key = &dedupKey{caller: caller, id: canonical}
	}
	if c.IdempotencyKey == "" {
		c.IdempotencyKey = c.InvocationID
	}
	return nil
}

// setTrace gives the call its trace context as the callee sees it.
func (c *call) setTrace(traceparent, baggage string) {
	if traceparent == "" && baggage == "" {
		return
	}
	c.Traceparent, c.Baggage = traceparent, protocol.WithFunctionID(baggage, c.FunctionID)
	c.trace = traceID(traceparent)
}

// timeout is how long the caller waits, given what the target's metadata says.
func timeout(in bus.Invocation, meta bus.Meta) time.Duration {
	switch {
	case in.Timeout > 0:
		return in.Timeout
	case meta.TimeoutMS > 0:
		return time.Duration(meta.TimeoutMS) * time.Millisecond
	}
	return bus.DefaultTimeout
}

// invokeSync makes the call and waits for its end as long as the caller wants.
func (r *Router) invokeSync(ctx context.Context, c *call, in bus.Invocation) (json.RawMessage, error) {
	if err := ctx.Err(); err != nil {
		return nil, ended(err, c.FunctionID, 0)
	}
	reg, err := r.resolve(c.Namespace, c.FunctionID)
	if err != nil {
		return nil, err
	}
	if reg.Meta.Sensitive {
		c.Reply = nil // the result may not be stored, so the caller waits
	}
	wait := timeout(in, reg.Meta)
	c.Deadline = r.deadline(ctx, wait, c.Reply != nil)
	slow := c.Reply != nil && reg.Meta.Slow
	w := newChannel()
	if slow {
		c.rowTo = c.Reply
	} else {
		c.waiters = append(c.waiters, w)
	}
	first, err := r.begin(ctx, c, w)
	switch {
	case err != nil:
		return nil, err
	case slow && first == c:
		return nil, bus.ErrAwaiting
	case slow:
		if first == nil || !first.leave(w, c.Reply, nil) {
			r.writeRow(c, *c.Reply, <-w)
		}
		return nil, bus.ErrAwaiting
	case first == nil:
		out := <-w
		return out.result, out.err
	}
	return r.await(ctx, first, w, wait, c.Reply)
}

// deadline is when the caller stops waiting: after wait, when ctx ends, or when the call that it serves itself ends.
func (r *Router) deadline(ctx context.Context, wait time.Duration, goesOn bool) time.Time {
	at := r.cfg.Clock.Now().Add(wait)
	if goesOn {
		return at
	}
	if d, ok := ctx.Deadline(); ok && d.Before(at) {
		at = d
	}
	if parent := bus.CallFrom(ctx); parent != nil && !parent.Deadline.IsZero() && parent.Deadline.Before(at) {
		at = parent.Deadline
	}
	return at
}

// begin hands the call over, or joins the call that it repeats, and returns the one to wait for: nil if it repeats one
// that was answered, in which case w has the answer. With an error the call has ended with it, and its waiters were told.
func (r *Router) begin(ctx context.Context, c *call, w waiter) (*call, error) {
	if c.key != nil {
		first, last, repeat := r.dedup.begin(c)
		switch {
		case !repeat:
		case first != nil && first.FunctionID == c.FunctionID:
			first.join(w)
			return first, nil
		case last != nil && last.function == c.FunctionID:
			w.deliver(last.outcome)
			return nil, nil
		default:
			err := repeatError(first != nil || last != nil)
			w.deliver(outcome{err: err})
			return nil, err
		}
	}
	if err := r.dispatch(ctx, c); err != nil {
		r.fail(c, err)
		return nil, err
	}
	return c, nil
}

// repeatError is the answer to a repeat that has nothing to join.
func repeatError(other bool) *bus.Error {
	message := "The call was answered before, and its result is no longer kept."
	if other {
		message = "The invocation id was used for another function."
	}
	return &bus.Error{Code: protocol.CodeInvocationError, Message: message}
}

// await waits for the end of a call, for the time, or for ctx.
func (r *Router) await(ctx context.Context, c *call, w channel, wait time.Duration, reply *bus.Reply) (json.RawMessage, error) {
	own := wait
	if reply != nil {
		own = min(own, time.Duration(reply.AfterMS)*time.Millisecond)
	}
	timer := r.cfg.Clock.NewTimer(own)
	defer timer.Stop()
	var cause error
	select {
	case out := <-w:
		return out.result, out.err
	case <-timer.C():
		cause = ended(context.DeadlineExceeded, c.FunctionID, wait)
	case <-ctx.Done():
		cause = ended(ctx.Err(), c.FunctionID, wait)
	}
	rowTo := reply
	if own == wait && ctx.Err() == nil {
		rowTo = nil // not even the turn waits any longer
	}
	if !c.leave(w, rowTo, cause) {
		out := <-w
		return out.result, out.err
	}
	if rowTo != nil {
		return nil, bus.ErrAwaiting
	}
	if cause != context.Canceled {
		r.suspect(c)
	}
	return nil, cause
}

// ended is what a caller hears whose time or context has ended.
func ended(err error, functionID string, waited time.Duration) error {
	if errors.Is(err, context.Canceled) {
		return context.Canceled
	}
	return &bus.Error{
		Code:    protocol.CodeTimeoutClient,
		Message: fmt.Sprintf("Timeout: %s did not answer within %d ms", functionID, waited.Milliseconds()),
	}
}

// invokeVoid makes a call that nobody waits for.
func (r *Router) invokeVoid(ctx context.Context, c *call) {
	ctx = context.WithoutCancel(ctx)
	w := logged{r, c.FunctionID}
	c.waiters = append(c.waiters, w)
	r.background(func() { _, _ = r.begin(ctx, c, w) }) // w hears of errors
}

// logged is the waiter of a call that nobody waits for.
type logged struct {
	r          *Router
	functionID string
}

func (l logged) deliver(out outcome) {
	if out.err != nil {
		l.r.log.Info("a call that nobody waits for failed", "function_id", l.functionID, "code", bus.Code(out.err))
	}
}
