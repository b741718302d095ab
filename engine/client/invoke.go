package client

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
)

// Invoke calls a function, see bus.Invoker. Principal, IdempotencyKey and Reply
// of the invocation are the bus's own business and are not sent.
func (c *Client) Invoke(ctx context.Context, in bus.Invocation) (json.RawMessage, error) {
	timeout := in.Timeout
	if timeout <= 0 {
		timeout = bus.DefaultTimeout
	}
	timer := c.opts.Clock.NewTimer(timeout)
	defer timer.Stop()
	if err := c.connection(ctx, timer.C(), in.FunctionID); err != nil {
		return nil, err
	}
	frame := &protocol.InvokeFunction{FunctionID: in.FunctionID, Data: in.Data, Metadata: in.Metadata}
	if in.Namespace != "" {
		frame.Namespace = &in.Namespace
	}
	if call := bus.CallFrom(ctx); call != nil {
		frame.Traceparent, frame.Baggage = call.Traceparent, call.Baggage
	}
	if in.Action == bus.Void {
		frame.Action = &protocol.Action{Type: protocol.ActionVoid}
		text, err := encode(frame)
		if err != nil {
			return nil, err
		}
		if !c.enqueue(ctx, timer.C(), outgoing{text: text}) {
			return nil, c.notSent(ctx, in.FunctionID)
		}
		return nil, nil
	}
	if in.Action == bus.Enqueue {
		frame.Action = &protocol.Action{Type: protocol.ActionEnqueue, Queue: in.Queue}
	}
	frame.InvocationID = in.InvocationID
	if frame.InvocationID == "" {
		frame.InvocationID = c.opts.IDs.UUID()
	}
	id, ok := protocol.CanonicalID(frame.InvocationID)
	if !ok {
		return nil, bus.Invalid("invocation id", "a UUID")
	}
	text, err := encode(frame)
	if err != nil {
		return nil, err
	}
	p := &pendingCall{functionID: in.FunctionID, result: make(chan result, 1)}
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return nil, c.Err()
	}
	if c.pending[id] != nil {
		c.mu.Unlock()
		return nil, bus.Invalid("invocation id", "one that no call of this client waits with")
	}
	c.pending[id] = p
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.pending, id)
		c.mu.Unlock()
	}()
	// A call that nobody waits for any more when its turn comes is not sent.
	wanted := func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		p.sent = c.pending[id] == p
		return p.sent
	}
	if !c.enqueue(ctx, timer.C(), outgoing{text: text, wanted: wanted}) {
		return nil, c.notSent(ctx, in.FunctionID)
	}
	select {
	case r := <-p.result:
		return r.value, r.err
	case <-timer.C():
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.conn == nil {
			return nil, &LostError{FunctionID: in.FunctionID, Sent: p.sent}
		}
		return nil, &TimeoutError{FunctionID: in.FunctionID}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// notSent is why a call was not taken by the queue.
func (c *Client) notSent(ctx context.Context, functionID string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := c.Err(); err != nil {
		return err
	}
	return &TimeoutError{FunctionID: functionID}
}

// connection waits until there is one.
func (c *Client) connection(ctx context.Context, timeout <-chan time.Time, functionID string) error {
	for {
		c.mu.Lock()
		s, up := c.conn, c.up
		c.mu.Unlock()
		if s != nil {
			return nil
		}
		select {
		case <-up:
		case <-c.done:
			return c.Err()
		case <-ctx.Done():
			return ctx.Err()
		case <-timeout:
			return &LostError{FunctionID: functionID}
		}
	}
}

// handle runs one call of the bus and answers it if an answer is wanted.
func (c *Client) handle(f *protocol.InvokeFunction) {
	value, err := c.call(c.base, f)
	if f.InvocationID == "" {
		if err != nil {
			c.opts.Logger.Warn("handler failed", "function_id", f.FunctionID, "error", err)
		}
		return
	}
	a := &protocol.InvocationResult{InvocationID: f.InvocationID, FunctionID: f.FunctionID, Traceparent: f.Traceparent, Baggage: f.Baggage}
	if err != nil {
		a.Error = bus.AsError(err)
	} else {
		a.Result = value
	}
	text := c.result(a)
	c.ran.end(f.InvocationID, text)
	c.answer(text)
}

func (c *Client) call(ctx context.Context, f *protocol.InvokeFunction) (value json.RawMessage, err error) {
	c.mu.Lock()
	e, ok := c.functions[f.FunctionID]
	c.mu.Unlock()
	if !ok {
		return nil, &bus.Error{Code: protocol.CodeFunctionNotFound, Message: "Function not found"}
	}
	defer func() {
		if p := recover(); p != nil {
			c.opts.Logger.Error("panic in a handler", "function_id", f.FunctionID, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = &bus.Error{Code: protocol.CodeInvocationFailed, Message: "the handler panicked"}
		}
	}()
	var meta struct {
		Principal      bus.Principal `json:"principal"`
		IdempotencyKey string        `json:"idempotency_key"`
		DeadlineMS     int64         `json:"deadline_ms"`
	}
	if len(f.Metadata) > 0 {
		if err := json.Unmarshal(f.Metadata, &meta); err != nil {
			c.opts.Logger.Warn("metadata not understood", "function_id", f.FunctionID, "error", err)
		}
	}
	call := &bus.Call{
		InvocationID: f.InvocationID, FunctionID: f.FunctionID, Namespace: bus.DefaultNamespace, Data: f.Data, Metadata: f.Metadata,
		Principal: meta.Principal, IdempotencyKey: meta.IdempotencyKey, Traceparent: f.Traceparent, Baggage: f.Baggage,
	}
	if meta.DeadlineMS > 0 {
		call.Deadline = time.UnixMilli(meta.DeadlineMS)
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, call.Deadline)
		defer cancel()
	}
	return e.Handle(bus.WithCall(ctx, call), call)
}
