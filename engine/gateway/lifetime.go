package gateway

import (
	"errors"
	"time"

	"github.com/coder/websocket"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
)

// age pings a quiet socket and ends one that is idle or old, as API Gateway
// does. It returns when the socket ends.
func (c *conn) age() {
	clk := c.server.cfg.Clock
	old := clk.Monotonic() + LifeLimit
	opened := c.opened
	for {
		now := clk.Monotonic()
		in, out := time.Duration(c.lastIn.Load()), time.Duration(c.lastOut.Load())
		next := min(old, max(in, out)+IdleLimit)
		switch {
		case now >= old:
			c.close(websocket.StatusGoingAway, "connections end after two hours")
			return
		case now >= next:
			c.close(websocket.StatusGoingAway, "connections end after ten minutes without a message")
			return
		case opened == nil && now >= out+Keepalive:
			if err := c.Send(c.live, &protocol.Ping{}); err != nil && !errors.Is(err, bus.ErrGone) {
				c.server.cfg.Logger.Debug("ping not sent", "connection", c.id, "error", err)
			}
			c.lastOut.CompareAndSwap(int64(out), int64(now))
			continue
		case opened == nil:
			next = min(next, out+Keepalive)
		}
		timer := clk.NewTimer(next - now)
		select {
		case <-timer.C():
		case <-opened: // from now on it can be pinged
			opened = nil
		case <-c.live.Done():
		}
		timer.Stop()
		if c.live.Err() != nil {
			return
		}
	}
}
