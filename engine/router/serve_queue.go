package router

import (
	"context"
	"errors"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/queue"
)

// ServeQueue calls the function that a message names, for the principal that sent it. It waits for the answer as long as
// ctx lasts. The error is queue.ErrNoTarget if nobody serves the function now, else that of the function, unchanged.
func (r *Router) ServeQueue(ctx context.Context, d queue.Delivery) error {
	c, err := r.newCall(ctx, "", bus.Invocation{
		FunctionID: d.FunctionID, Namespace: d.Namespace, Data: d.Data, Principal: &d.Principal,
	})
	if err != nil {
		return err
	}
	c.external = d.External
	c.IdempotencyKey = d.ID // equal for every receive of the message
	c.Traceparent, c.Baggage, c.trace = "", "", ""
	c.setTrace(d.Traceparent, d.Baggage)
	if at, ok := ctx.Deadline(); ok {
		c.Deadline = at
	}
	w := newChannel()
	c.waiters = append(c.waiters, w)
	if _, err := r.begin(ctx, c, w); err != nil {
		return queueError(err)
	}
	select {
	case out := <-w:
		return queueError(out.err)
	case <-ctx.Done():
	}
	if !c.leave(w, nil, ctx.Err()) {
		return queueError((<-w).err)
	}
	return context.Cause(ctx)
}

// queueError is the error of a call as a queue takes it.
func queueError(err error) error {
	var nobody *noTargetError
	if errors.As(err, &nobody) {
		return queue.ErrNoTarget
	}
	return err
}
