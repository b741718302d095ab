package queue

import (
	"context"
	"time"
)

// cancelGrace is how long a cancelled handler may take to return.
const cancelGrace = time.Second

// drain waits for the handlers that run. Those that do not finish in time are
// cancelled, and their messages become visible again.
func (c *Consumer) drain() error {
	left := c.await(c.snapshot(), c.cfg.Drain)
	for _, r := range left {
		r.cancel(ErrDrained)
	}
	left = c.await(left, cancelGrace)
	ctx := context.Background()
	for _, r := range left {
		r.stopRenewing()
		if !r.h.settle() || r.h.ackPromise() != nil {
			continue
		}
		if err := c.release(ctx, r.h, 0, false); err != nil {
			c.cfg.Logger.Warn("message could not be given back", "message", r.h.ID, "error", err)
		}
	}
	if len(left) > 0 {
		c.cfg.Logger.Error("handlers did not finish in time", "unfinished", len(left))
		return &DrainError{Queue: c.cfg.Queue, Unfinished: len(left)}
	}
	return nil
}

func (c *Consumer) snapshot() []*run {
	c.mu.Lock()
	defer c.mu.Unlock()
	rs := make([]*run, 0, len(c.running))
	for r := range c.running {
		rs = append(rs, r)
	}
	return rs
}

// await waits up to d for runs to end and answers which have not.
func (c *Consumer) await(rs []*run, d time.Duration) (left []*run) {
	if len(rs) == 0 {
		return nil
	}
	t := c.cfg.Clock.NewTimer(d)
	defer t.Stop()
	for i, r := range rs {
		select {
		case <-r.done:
		case <-t.C():
			for _, r := range rs[i:] {
				select {
				case <-r.done:
				default:
					left = append(left, r)
				}
			}
			return left
		}
	}
	return nil
}
