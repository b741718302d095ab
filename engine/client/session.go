package client

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/coder/websocket"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
)

// session is one WebSocket. A single goroutine writes.
type session struct {
	ws     *websocket.Conn
	pieces *pieces
	ctx    context.Context
	cancel context.CancelFunc
}

// run keeps the client connected until it is closed.
func (c *Client) run(ws *websocket.Conn) {
	defer c.wg.Done()
	first := true
	for {
		err := c.serve(ws, first)
		first = false
		switch {
		case c.isClosing():
			c.finish(ErrClosed)
			return
		case c.opts.Once:
			c.finish(&ConnectError{URL: c.opts.URL, Err: err})
			return
		}
		c.opts.Logger.Info("connection lost", "error", err)
		if c.opts.OnLost != nil {
			c.opts.OnLost(err)
		}
		if ws, err = c.redial(); err != nil {
			c.finish(err)
			return
		}
	}
}

func (c *Client) isClosing() bool {
	select {
	case <-c.closing:
		return true
	default:
		return c.base.Err() != nil
	}
}

// redial tries until it is connected. The error is ErrClosed, or what the
// client was given up for.
func (c *Client) redial() (*websocket.Conn, error) {
	for attempt := 0; ; attempt++ {
		t := c.opts.Clock.NewTimer(c.pause(attempt))
		select {
		case <-c.closing:
			t.Stop()
			return nil, ErrClosed
		case <-t.C():
		}
		ws, err := c.redialOnce()
		if err == nil {
			return ws, nil
		}
		if c.opts.GiveUp != nil && !c.isClosing() && c.opts.GiveUp(err) {
			return nil, err
		}
		c.opts.Logger.Info("reconnect failed", "error", err)
	}
}

// redialOnce is one attempt, which a Close ends.
func (c *Client) redialOnce() (*websocket.Conn, error) {
	ctx, cancel := context.WithTimeout(c.base, handshakeLimit)
	defer cancel()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-c.closing:
			cancel()
		case <-ended:
		}
	}()
	if c.opts.Where == nil {
		return c.dial(ctx, c.url, c.opts.Token)
	}
	where, token, err := c.opts.Where(ctx)
	if err != nil {
		return nil, &ConnectError{URL: c.opts.URL, Err: err}
	}
	to, err := chunked(where)
	if err != nil {
		return nil, &ConnectError{URL: where, Err: err}
	}
	return c.dial(ctx, to, token)
}

// handshakeLimit is how long an attempt to come back may take.
const handshakeLimit = 10 * time.Second

// pause is 1 s doubled up to 30 s, with 30 % jitter either way.
func (c *Client) pause(attempt int) time.Duration {
	base := math.Min(1000*math.Pow(2, float64(min(attempt, 10))), 30000)
	var b [1]byte
	if _, err := c.opts.IDs.Read(b[:]); err != nil {
		b[0] = 128
	}
	return time.Duration(base*(0.7+0.6*float64(b[0])/255)) * time.Millisecond
}

func (c *Client) serve(ws *websocket.Conn, first bool) error {
	s := &session{ws: ws}
	s.ctx, s.cancel = context.WithCancel(c.base)
	defer s.cancel()
	s.pieces = newPieces(s.ctx, c.opts.Clock, c.start, func(e *protocol.ChunkError) { c.opts.Logger.Warn("chunked message dropped", "error", e) })
	frames := c.connected(s)
	failed := make(chan error, 1)
	go func() {
		err := c.write(s, frames)
		failed <- err
		if err != nil {
			s.cancel()
		}
	}()
	if c.opts.OnConnect != nil {
		c.start(func() { c.opts.OnConnect(s.ctx, first) })
	}
	err := c.read(s)
	s.cancel()
	c.disconnected()
	if cerr := ws.Close(websocket.StatusNormalClosure, ""); cerr != nil {
		_ = ws.CloseNow() // the peer is already gone
	}
	if werr := <-failed; werr != nil && !errors.Is(werr, context.Canceled) {
		return werr
	}
	return err
}

// start runs f on a goroutine that Close waits for.
func (c *Client) start(f func()) {
	c.wg.Add(1)
	go func() {
		defer c.wg.Done()
		f()
	}()
}

// connected is what a fresh connection must know, ahead of anything else.
func (c *Client) connected(s *session) [][]byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	var frames []protocol.Frame
	if p := c.previous; p != nil {
		frames = append(frames, &protocol.Reattach{PreviousWorkerID: p.WorkerID, ReattachToken: p.ReattachToken})
	}
	frames = append(frames, c.announce())
	for _, id := range c.order {
		frames = append(frames, register(id, c.functions[id].Endpoint))
	}
	texts := make([][]byte, 0, len(frames))
	for _, f := range frames {
		text, err := encode(f)
		if err != nil {
			c.opts.Logger.Error("frame not sent", "type", f.Type(), "error", err)
			continue
		}
		texts = append(texts, text)
	}
	c.conn = s
	close(c.up)
	return texts
}

// disconnected keeps what the next connection can do: results, calls that wait
// to be sent, and the hope for answers to those that were.
func (c *Client) disconnected() {
	c.mu.Lock()
	c.conn = nil
	c.up = make(chan struct{})
	c.mu.Unlock()
	c.out.Keep(func(o outgoing) bool { return !o.passing })
}

func (c *Client) finish(err error) {
	c.mu.Lock()
	c.err = err
	for id, p := range c.pending {
		delete(c.pending, id)
		p.result <- result{err: &LostError{FunctionID: p.functionID, Sent: p.sent}}
	}
	c.mu.Unlock()
	close(c.done)
	c.stop()
}

func (c *Client) read(s *session) error {
	for {
		kind, data, err := s.ws.Read(s.ctx)
		if err != nil {
			return err
		}
		if kind != websocket.MessageText {
			continue
		}
		frame, err := protocol.Decode(data)
		if piece, ok := frame.(*protocol.Chunk); ok && err == nil {
			var text []byte
			if text, err = s.pieces.add(piece); text == nil && err == nil {
				continue
			}
			if err == nil {
				frame, err = protocol.Decode(text)
			}
		}
		if err != nil {
			c.opts.Logger.Warn("frame not understood", "error", err)
			continue
		}
		c.frame(frame)
	}
}

// frame handles one frame of the bus.
func (c *Client) frame(frame protocol.Frame) {
	switch f := frame.(type) {
	case *protocol.WorkerRegistered:
		c.mu.Lock()
		c.previous = f
		c.mu.Unlock()
	case *protocol.Ping:
		// Not to wait for a full queue: that would stop the reader.
		if text, err := encode(&protocol.Pong{}); err == nil {
			c.out.Offer(outgoing{text: text, passing: true}, len(text))
		}
	case *protocol.InvocationResult:
		c.resolve(f)
	case *protocol.InvokeFunction:
		c.dispatch(f)
	case *protocol.RegistrationRejected:
		c.opts.Logger.Warn("registration refused: the token does not allow this id", "function_id", f.FunctionID)
	case *protocol.TriggerRegistrationResult:
		if f.Error != nil {
			c.opts.Logger.Warn("trigger refused", "id", f.ID, "error", f.Error)
		}
	}
}

func (c *Client) resolve(f *protocol.InvocationResult) {
	id, ok := protocol.CanonicalID(f.InvocationID)
	if !ok {
		return
	}
	c.mu.Lock()
	p := c.pending[id]
	delete(c.pending, id)
	c.mu.Unlock()
	if p == nil {
		return
	}
	if f.Error != nil {
		p.result <- result{err: f.Error}
		return
	}
	p.result <- result{value: f.Result}
}

var _ bus.Invoker = (*Client)(nil)
