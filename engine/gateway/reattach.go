package gateway

import (
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
)

// unsent is what a socket has taken and may not have sent.
type unsent struct {
	// sealed guards ended: nothing is queued any more.
	sealed sync.RWMutex
	ended  bool

	mu sync.Mutex
	// writing are the messages that are being written; whether the peer gets them is not known if that fails.
	writing [][]byte
}

// offer queues a message, unless the socket has ended.
func (c *conn) offer(b []byte) (ok bool, space <-chan struct{}, err error) {
	c.unsent.sealed.RLock()
	defer c.unsent.sealed.RUnlock()
	if c.unsent.ended {
		return false, nil, bus.ErrGone
	}
	ok, space = c.out.Offer(b, len(b))
	return ok, space, nil
}

// begin notes that a message is being written.
func (u *unsent) begin(b []byte) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.writing = append(u.writing, b)
}

// written forgets what was written.
func (u *unsent) written() {
	u.mu.Lock()
	defer u.mu.Unlock()
	clear(u.writing)
	u.writing = u.writing[:0]
}

// Unsent ends the queue. Of the messages whose writing has begun only results come back: workers ignore those that they
// have, but would run a call twice.
func (c *conn) Unsent() []protocol.Frame {
	c.end()
	c.unsent.sealed.Lock()
	c.unsent.ended = true
	c.unsent.sealed.Unlock()
	var out []protocol.Frame
	c.unsent.mu.Lock()
	for _, b := range c.unsent.writing {
		if f, ok := c.again(b).(*protocol.InvocationResult); ok {
			out = append(out, f)
		}
	}
	c.unsent.mu.Unlock()
	for {
		b, _, ok := c.out.Take()
		if !ok {
			return out
		}
		if f := c.again(b); f != nil {
			out = append(out, f)
		}
	}
}

// again is the frame of a message of the bus itself.
func (c *conn) again(b []byte) protocol.Frame {
	f, err := protocol.Decode(b)
	if err != nil {
		c.server.cfg.Logger.Error("a frame that was not sent is lost", "alarm", "frame_lost", "connection", c.id, "error", err)
		return nil
	}
	return f
}

// ReattachToken is the secret with which the worker comes back.
func (c *conn) ReattachToken() string { return c.token }

// Cut reports whether the socket ended otherwise than by a Close of its peer.
func (c *conn) Cut() bool { return !c.left.Load() }

// Close closes the socket of a worker that has another.
func (c *conn) Close() {
	go c.close(websocket.StatusNormalClosure, "the worker has another connection")
}

// pause keeps the socket from closing for a time, unless the server ends.
func (c *conn) pause(d time.Duration) {
	if d <= 0 {
		return
	}
	timer := c.server.cfg.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-c.ctx.Done():
	}
}
