package queue

import (
	"context"
	"errors"
	"math"
	"time"
)

// keep renews the visibility of a message and watches its timeout until the
// handler has returned or is left behind. It ends the handler's context when
// the message is lost.
func (c *Consumer) keep(ctx context.Context, r *run, conf Config) {
	const never = time.Duration(math.MaxInt64)
	now := c.cfg.Clock.Monotonic()
	renewAt, timeoutAt := now+c.cfg.RenewEvery, never
	if conf.Timeout > 0 {
		timeoutAt = now + conf.Timeout
	}
	for {
		if !c.sleepUntil(min(renewAt, timeoutAt), r.stop) {
			return
		}
		now := c.cfg.Clock.Monotonic()
		if now >= timeoutAt {
			// The handler gets to return, so the renewals go on.
			r.cancel(&TimeoutError{Queue: r.h.Queue, FunctionID: r.h.FunctionID, After: conf.Timeout})
			timeoutAt = never
		}
		if now < renewAt {
			continue
		}
		next, lost := c.renew(ctx, r.h)
		if lost != nil {
			r.cancel(lost)
			return
		}
		renewAt = now + next
	}
}

// sleepUntil waits for a time on the monotonic clock; false if stop came first.
func (c *Consumer) sleepUntil(at time.Duration, stop <-chan struct{}) bool {
	t := c.cfg.Clock.NewTimer(at - c.cfg.Clock.Monotonic())
	defer t.Stop()
	if c.cfg.Clock.Monotonic() >= at {
		return true // The clock has moved before the timer was set.
	}
	select {
	case <-stop:
		return false
	case <-t.C():
		return true
	}
}

// renew extends the visibility once. It answers when to do it again, or why the
// message is lost.
func (c *Consumer) renew(ctx context.Context, h *Handle) (next time.Duration, lost error) {
	wall, mono := c.cfg.Clock.Now(), c.cfg.Clock.Monotonic()
	err := c.q.Extend(ctx, h.Queue, h.Receipt, c.cfg.Visibility)
	switch {
	case err == nil:
		h.renewed(wall, mono)
		return c.cfg.RenewEvery, nil
	case errors.Is(err, ErrStale):
		if h.ackPromise() != nil {
			// The handler acknowledged: the message is gone, not lost.
			return c.cfg.RenewEvery, nil
		}
		c.cfg.Logger.Warn("message lost to a later receive", "message", h.ID, "function", h.FunctionID)
		return 0, err
	case h.RenewalAge() >= c.cfg.Visibility:
		c.cfg.Logger.Error("visibility ended, it could not be renewed", "message", h.ID, "error", err)
		return 0, err
	default:
		c.cfg.Logger.Warn("renewal failed", "message", h.ID, "error", err)
		return max(c.cfg.RenewEvery/4, time.Millisecond), nil
	}
}
