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
	out    chan outgoing
	ctx    context.Context
	cancel context.CancelFunc
}

type outgoing struct {
	frame protocol.Frame
	sent  func()
}

// enqueue hands a frame to the writer; it waits while the buffer is full and
// gives up when the session ends.
func (s *session) enqueue(f protocol.Frame) bool { return s.enqueueThen(f, nil) }

func (s *session) enqueueThen(f protocol.Frame, sent func()) bool {
	select {
	case s.out <- outgoing{f, sent}:
		return true
	case <-s.ctx.Done():
		return false
	}
}

func (s *session) write() error {
	for {
		select {
		case <-s.ctx.Done():
			return s.ctx.Err()
		case o := <-s.out:
			b, err := protocol.Encode(o.frame)
			if err != nil {
				return err
			}
			if o.sent != nil {
				o.sent()
			}
			if err := s.ws.Write(s.ctx, websocket.MessageText, b); err != nil {
				return err
			}
		}
	}
}

// run keeps the client connected until it is closed.
func (c *Client) run(ws *websocket.Conn) {
	defer c.wg.Done()
	first := true
	for {
		err := c.serve(ws, first)
		first = false
		if c.base.Err() != nil {
			c.finish(ErrClosed)
			return
		}
		c.opts.Logger.Info("connection lost", "error", err)
		if c.opts.Once {
			c.finish(&ConnectError{URL: c.opts.URL, Err: err})
			return
		}
		if ws = c.redial(); ws == nil {
			c.finish(ErrClosed)
			return
		}
	}
}

// redial tries until it is connected; nil means the client was closed.
func (c *Client) redial() *websocket.Conn {
	for attempt := 0; ; attempt++ {
		t := c.opts.Clock.NewTimer(c.pause(attempt))
		select {
		case <-c.base.Done():
			t.Stop()
			return nil
		case <-t.C():
		}
		ws, err := c.dial(c.base)
		if err == nil {
			return ws
		}
		c.opts.Logger.Info("reconnect failed", "error", err)
	}
}

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
	s := &session{ws: ws, out: make(chan outgoing, protocol.OutboundQueue)}
	s.ctx, s.cancel = context.WithCancel(c.base)
	defer s.cancel()
	failed := make(chan error, 1)
	writerDone := make(chan struct{})
	go func() {
		defer close(writerDone)
		if err := s.write(); err != nil {
			select {
			case failed <- err:
			default:
			}
			s.cancel()
		}
	}()
	c.connected(s)
	if c.opts.OnConnect != nil {
		c.wg.Add(1)
		go func() {
			defer c.wg.Done()
			c.opts.OnConnect(s.ctx, first)
		}()
	}
	err := c.read(s)
	s.cancel()
	c.disconnected(s)
	code := websocket.StatusNormalClosure
	if cerr := ws.Close(code, ""); cerr != nil {
		_ = ws.CloseNow() // the peer is already gone
	}
	<-writerDone
	select {
	case werr := <-failed:
		if !errors.Is(werr, context.Canceled) {
			return werr
		}
	default:
	}
	return err
}

// connected sends what a fresh connection must know, ahead of anything else.
func (c *Client) connected(s *session) {
	c.mu.Lock()
	var frames []protocol.Frame
	if p := c.previous; p != nil {
		frames = append(frames, &protocol.Reattach{PreviousWorkerID: p.WorkerID, ReattachToken: p.ReattachToken})
	}
	frames = append(frames, c.announce())
	for _, id := range c.order {
		frames = append(frames, register(id, c.functions[id].Endpoint))
	}
	c.conn = s
	up := c.up
	c.mu.Unlock()
	for _, f := range frames {
		s.enqueue(f)
	}
	close(up)
}

func (c *Client) disconnected(s *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn == s {
		c.conn = nil
		c.up = make(chan struct{})
	}
	for id, p := range c.pending {
		delete(c.pending, id)
		p.result <- result{err: &LostError{FunctionID: p.functionID, Sent: p.sent}}
	}
}

func (c *Client) finish(err error) {
	c.mu.Lock()
	c.err = err
	c.mu.Unlock()
	close(c.done)
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
		if err != nil {
			c.opts.Logger.Warn("frame not understood", "error", err)
			continue
		}
		switch f := frame.(type) {
		case *protocol.WorkerRegistered:
			c.mu.Lock()
			c.previous = f
			c.mu.Unlock()
		case *protocol.Ping:
			s.enqueue(&protocol.Pong{})
		case *protocol.InvocationResult:
			c.resolve(f)
		case *protocol.InvokeFunction:
			c.dispatch(s, f)
		case *protocol.RegistrationRejected:
			c.opts.Logger.Warn("registration refused: the token does not allow this id", "function_id", f.FunctionID)
		case *protocol.TriggerRegistrationResult:
			if f.Error != nil {
				c.opts.Logger.Warn("trigger refused", "id", f.ID, "error", f.Error)
			}
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
