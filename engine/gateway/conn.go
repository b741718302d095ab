package gateway

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/coder/websocket"

	"github.com/iii-aws/harness/engine/access"
	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
)

// conn is one socket. It is the router's Conn.
type conn struct {
	server   *Server
	ws       *websocket.Conn
	id       string
	workerID string
	remote   string
	grant    *access.Grant

	ctx    context.Context
	cancel context.CancelFunc
	out    chan []byte
	closes sync.Once

	fixed   chan struct{} // closed once the namespace is known
	fixOnce sync.Once
}

func (s *Server) newConn(ws *websocket.Conn, g *access.Grant, remote string) *conn {
	c := &conn{server: s, ws: ws, id: s.cfg.IDs.UUID(), workerID: s.cfg.IDs.UUID(), grant: g,
		out: make(chan []byte, protocol.OutboundQueue), fixed: make(chan struct{})}
	if host, _, err := net.SplitHostPort(remote); err == nil {
		c.remote = host
	}
	c.ctx, c.cancel = context.WithCancel(s.base)
	return c
}

// ID names the connection.
func (c *conn) ID() string { return c.id }

// WorkerID is the UUID of the connection.
func (c *conn) WorkerID() string { return c.workerID }

// Principal is who the connection is.
func (c *conn) Principal() bus.Principal { return c.grant.Principal }

// MayActForOthers reports whether the token has the scope act_as.
func (c *conn) MayActForOthers() bool { return c.grant.ActAs }

// RemoteIP is the address of the peer.
func (c *conn) RemoteIP() string { return c.remote }

// NamespaceFixed lets the registrations that waited go on.
func (c *conn) NamespaceFixed(string) { c.fixOnce.Do(func() { close(c.fixed) }) }

// Send queues a frame.
func (c *conn) Send(ctx context.Context, f protocol.Frame) error {
	b, err := protocol.Encode(f)
	if err != nil {
		return err
	}
	if len(b) > protocol.MaxMessage {
		return bus.ErrTooLarge
	}
	if c.ctx.Err() != nil {
		return bus.ErrGone
	}
	select {
	case c.out <- b:
		return nil
	case <-c.ctx.Done():
		return bus.ErrGone
	case <-ctx.Done():
		return ctx.Err()
	}
}

// serve runs the socket until it ends.
func (c *conn) serve() {
	log := c.server.cfg.Logger.With("connection", c.id, "principal", c.grant.Principal.ID)
	var writer sync.WaitGroup
	writer.Add(1)
	go func() {
		defer writer.Done()
		if err := c.write(); err != nil && c.ctx.Err() == nil {
			log.Info("connection cut while writing", "error", err)
		}
		c.cancel()
	}()
	c.server.cfg.Router.Attach(c)
	err := c.greet()
	if err == nil {
		err = c.read()
	}
	c.cancel()
	c.server.cfg.Router.Detach(c)
	writer.Wait()
	c.close(websocket.StatusNormalClosure, "")
	if status := websocket.CloseStatus(err); status == -1 && !errors.Is(err, context.Canceled) {
		log.Debug("connection lost", "error", err)
	}
}

func (c *conn) greet() error {
	return c.Send(c.ctx, &protocol.WorkerRegistered{WorkerID: c.workerID, ReattachToken: c.server.cfg.IDs.UUID()})
}

// write sends what is queued. Frames that are ready together leave together:
// the socket has no delay of its own.
func (c *conn) write() error {
	for {
		select {
		case <-c.ctx.Done():
			return c.ctx.Err()
		case b := <-c.out:
			ctx, cancel := context.WithTimeout(c.ctx, WriteTimeout)
			err := c.ws.Write(ctx, websocket.MessageText, b)
			cancel()
			if err != nil {
				return err
			}
		}
	}
}

// close ends the socket with a code, once; later calls wait for nothing.
func (c *conn) close(code websocket.StatusCode, reason string) {
	c.closes.Do(func() {
		if err := c.ws.Close(code, reason); err != nil {
			_ = c.ws.CloseNow() // the peer did not finish the handshake
		}
		c.cancel()
	})
}
