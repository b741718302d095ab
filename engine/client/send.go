package client

import (
	"context"
	"time"

	"github.com/coder/websocket"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
)

// outgoing is one frame that waits to be written.
type outgoing struct {
	text []byte
	// passing: it means nothing to another connection than the one it was made
	// for.
	passing bool
	// again: it may be written twice, if the first connection may have lost it.
	again bool
	// wanted, if set, is asked before the frame is written; false drops it.
	wanted func() bool
}

// encode is the text of a frame that fits a connection. Errors: those of
// protocol.Encode, bus.ErrTooLarge.
func encode(f protocol.Frame) ([]byte, error) {
	text, err := protocol.Encode(f)
	if err == nil && len(text) > protocol.MaxChunkedMessage {
		err = bus.ErrTooLarge
	}
	return text, err
}

// enqueue hands a frame to the connection, or to the next one. It waits while
// too much is queued: until ctx ends, timeout fires, or the client ends. It
// reports whether the frame was taken.
func (c *Client) enqueue(ctx context.Context, timeout <-chan time.Time, o outgoing) bool {
	for {
		ok, space := c.out.Offer(o, len(o.text))
		if ok {
			return true
		}
		select {
		case <-space:
		case <-timeout:
			return false
		case <-ctx.Done():
			return false
		case <-c.done:
			return false
		case <-c.base.Done():
			return false
		}
	}
}

// tell queues a frame that only this connection needs.
func (c *Client) tell(f protocol.Frame) {
	text, err := encode(f)
	if err != nil {
		c.opts.Logger.Error("frame not sent", "type", f.Type(), "error", err)
		return
	}
	c.enqueue(c.base, nil, outgoing{text: text, passing: true})
}

// answer queues the result of a call. It is kept while there is no connection.
func (c *Client) answer(text []byte) {
	c.enqueue(c.base, nil, outgoing{text: text, again: true})
}

// result is the text of an answer. One that cannot be sent becomes an error.
func (c *Client) result(a *protocol.InvocationResult) []byte {
	text, err := encode(a)
	if err == nil {
		return text
	}
	c.opts.Logger.Error("result not sent", "function_id", a.FunctionID, "error", err)
	a.Result, a.Error = nil, &bus.Error{Code: protocol.CodeSerialization, Message: "The result of " + a.FunctionID + " cannot be sent."}
	if err == bus.ErrTooLarge {
		a.Error = &bus.Error{Code: protocol.CodeValueTooLarge, Message: "The result of " + a.FunctionID + " does not fit a frame."}
	}
	if text, err = encode(a); err != nil {
		panic(err) // the ids of an answer were decoded from a frame
	}
	return text
}

// write sends the first frames of a connection, then what is queued. It ends
// with the connection, or, when the client is closed, once nothing is queued.
func (c *Client) write(s *session, first [][]byte) error {
	for _, text := range first {
		if err := c.message(s, text); err != nil {
			return err
		}
	}
	closing := c.closing
	for {
		o, _, ok := c.out.Take()
		if ok {
			if o.wanted != nil && !o.wanted() {
				continue
			}
			if err := c.message(s, o.text); err != nil {
				if o.again {
					c.out.Return(o, len(o.text))
				}
				return err
			}
			continue
		}
		if closing == nil {
			return s.ws.Close(websocket.StatusNormalClosure, "")
		}
		select {
		case <-c.out.Ready():
		case <-closing:
			closing = nil // one more look: a frame may have been queued before
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
	}
}

// message writes one frame, in chunks if it is large.
func (c *Client) message(s *session, text []byte) error {
	if len(text) <= protocol.GatewayMaxFrame {
		return s.ws.Write(s.ctx, websocket.MessageText, text)
	}
	pieces, err := protocol.Split(text, c.opts.IDs.UUID())
	if err != nil {
		return err
	}
	for _, p := range pieces {
		if err := s.ws.Write(s.ctx, websocket.MessageText, p); err != nil {
			return err
		}
	}
	return nil
}
