package queue

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// serve runs the handler and turns a panic into an error.
func (c *Consumer) serve(ctx context.Context, d Delivery) (err error) {
	defer func() {
		if v := recover(); v != nil {
			c.cfg.Logger.Error("handler panicked", "function", d.FunctionID, "message", d.ID, "panic", v, "stack", string(debug.Stack()))
			err = &PanicError{FunctionID: d.FunctionID, Value: v}
		}
	}()
	return c.cfg.Serve(ctx, d)
}

// finish ends a receive as the handler's result asks. cause is why the
// handler's context had ended, if it had.
func (c *Consumer) finish(ctx context.Context, h *Handle, err, cause error) {
	log := c.cfg.Logger.With("function", h.FunctionID, "message", h.ID, "receives", h.Receives)
	if p := h.ackPromise(); p != nil {
		_, ackErr := p.Wait(ctx)
		if ackErr == nil {
			if err != nil {
				log.Warn("handler failed after it acknowledged", "error", err)
			}
			return
		}
		if err == nil {
			err = fmt.Errorf("queue: acknowledge: %w", ackErr)
		}
	} else if err == nil {
		if _, err = c.q.Ack(ctx, h.Queue, h.Receipt).Wait(ctx); err != nil {
			log.Warn("acknowledgement failed, the message will come again", "error", err)
		}
		return
	}
	if errors.Is(err, context.Canceled) && cause != nil {
		err = cause
	}
	if errors.Is(cause, ErrStale) || errors.Is(err, ErrStale) {
		log.Warn("handler lost its message", "error", err)
		return
	}
	if fail := c.giveBack(ctx, h, err, cause); fail != nil {
		log.Warn("receive could not be ended, its visibility will end it", "error", fail, "handler_error", err)
	}
}

// giveBack ends a receive whose handler failed.
func (c *Consumer) giveBack(ctx context.Context, h *Handle, err, cause error) error {
	var delayed Delayed
	conf, _ := c.q.Config(h.Queue)
	switch {
	case errors.Is(cause, ErrDrained):
		return c.release(ctx, h, 0, false)
	case errors.Is(err, ErrNoTarget):
		c.cfg.Logger.Debug("nobody serves the target, the message waits", "function", h.FunctionID, "message", h.ID)
		return c.release(ctx, h, c.cfg.NoTargetPause, false)
	case errors.As(err, &delayed) && h.Receives < conf.MaxReceives:
		return c.release(ctx, h, min(max(delayed.RetryAfter(), 0), MaxVisibility), true)
	}
	dead, failErr := c.q.Fail(ctx, h.Queue, h.Receipt, err)
	switch {
	case failErr != nil:
		return failErr
	case dead:
		c.cfg.Logger.Error("message given up", "alarm", "dead_letter", "function", h.FunctionID, "message", h.ID, "receives", h.Receives, "error", err)
	default:
		c.cfg.Logger.Warn("handler failed, the message will come again", "function", h.FunctionID, "message", h.ID, "receives", h.Receives, "error", err)
	}
	return nil
}

// release makes a message visible after d, and the receive uncounted if the
// queue can do that.
func (c *Consumer) release(ctx context.Context, h *Handle, d time.Duration, counted bool) error {
	if r, ok := c.q.(Releaser); ok {
		return r.Release(ctx, h.Queue, h.Receipt, d, counted)
	}
	return c.q.Extend(ctx, h.Queue, h.Receipt, d)
}
