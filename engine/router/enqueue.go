package router

import (
	"context"
	"encoding/json"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/queue"
)

// submit stores a call on a queue and returns what waits for it. Calls of one caller are stored in the order of submit.
// Metadata does not travel with it. The result is {"messageReceiptId"}; every failure is an enqueue_error.
func (r *Router) submit(ctx context.Context, c *call, name, dedupID string) func(context.Context) (json.RawMessage, error) {
	fail := func(err error) func(context.Context) (json.RawMessage, error) {
		return func(context.Context) (json.RawMessage, error) { return nil, err }
	}
	if r.cfg.Queue == nil {
		return fail(enqueueError("there is no queue provider"))
	}
	if reg, _ := r.cfg.Registry.Resolve(c.Namespace, c.FunctionID); reg != nil {
		if err := r.reachable(c, reg); err != nil {
			return fail(err)
		}
	}
	if cfg, ok := r.cfg.Queue.Config(name); ok && (cfg.Internal && c.Connection != "" || !cfg.Subscription.IsZero()) {
		return fail(enqueueError(bus.AsError(&queue.UnknownError{Queue: name}).Error()))
	}
	receipt := r.cfg.IDs.UUID()
	sent := r.cfg.Queue.Submit(ctx, queue.Message{
		Queue: name, DedupID: dedupID, FunctionID: c.FunctionID, Namespace: c.Namespace, Data: c.Data,
		Principal: c.Principal, External: c.Connection != "" || c.external, Traceparent: c.Traceparent, Baggage: c.Baggage, ReceiptID: receipt,
	})
	return func(ctx context.Context) (json.RawMessage, error) {
		if _, err := sent.Wait(ctx); err != nil {
			return nil, enqueueError(bus.AsError(err).Error()) // as a provider of enqueue answers: code and message
		}
		return bus.Encode(struct {
			ID string `json:"messageReceiptId"`
		}{receipt})
	}
}

// handleEnqueue answers an enqueue of a socket when the message is stored.
func (r *Router) handleEnqueue(c *call, name string, w waiter) {
	wait := r.submit(r.base, c, name, "")
	r.background(func() {
		result, err := wait(r.base)
		w.deliver(outcome{result: result, err: err})
	})
}

func enqueueError(message string) *bus.Error {
	return &bus.Error{Code: protocol.CodeEnqueueError, Message: message}
}
