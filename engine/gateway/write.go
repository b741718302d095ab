package gateway

import (
	"context"

	"github.com/coder/websocket"

	"github.com/iii-aws/harness/engine/protocol"
)

// write sends what is queued. Messages that are ready together leave together.
func (c *conn) write() error {
	for {
		select {
		case <-c.live.Done():
			return c.live.Err()
		case <-c.out.Ready():
			if err := c.flush(); err != nil {
				return err
			}
		}
	}
}

// flush sends until nothing is queued, or the peer takes nothing for too long.
func (c *conn) flush() error {
	for {
		b, more, ok := c.out.Take()
		if !ok {
			return nil
		}
		ctx, cancel := context.WithTimeout(c.ctx, WriteTimeout)
		stop := context.AfterFunc(ctx, func() { _ = c.wire.Close() }) // ends what is blocked
		err := c.post(ctx, b, more)
		stop()
		cancel()
		if err != nil {
			return err
		}
		c.unsent.written()
	}
}

// post sends a message, and those that are ready behind it, in as few writes as
// they need.
func (c *conn) post(ctx context.Context, b []byte, more bool) error {
	if !more {
		return c.message(ctx, b)
	}
	c.wire.cork()
	for n, ok := 1, true; ok; n++ {
		if err := c.message(ctx, b); err != nil {
			return err
		}
		if ok = n < protocol.OutboundQueue; ok {
			b, _, ok = c.out.Take()
		}
	}
	return c.wire.uncork()
}

// message sends one message: whole, in several frames, or in chunks to a peer
// that takes them.
func (c *conn) message(ctx context.Context, b []byte) error {
	c.unsent.begin(b)
	c.lastOut.Store(int64(c.server.cfg.Clock.Monotonic()))
	if c.chunks && len(b) > protocol.GatewayMaxFrame && len(b) <= protocol.MaxChunkedMessage {
		pieces, err := protocol.Split(b, c.server.cfg.IDs.UUID())
		if err != nil {
			return err
		}
		for _, p := range pieces {
			if err := c.ws.Write(ctx, websocket.MessageText, p); err != nil {
				return err
			}
		}
		return nil
	}
	return writeFrames(ctx, c.ws, b, c.limits.frame)
}

// writeFrames sends a text message in frames of at most size bytes.
func writeFrames(ctx context.Context, ws *websocket.Conn, b []byte, size int) error {
	if len(b) <= size {
		return ws.Write(ctx, websocket.MessageText, b)
	}
	w, err := ws.Writer(ctx, websocket.MessageText)
	if err != nil {
		return err
	}
	for len(b) > 0 {
		n := min(len(b), size)
		if _, err := w.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return w.Close()
}
