package gateway

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"

	"github.com/coder/websocket"

	"github.com/iii-aws/harness/engine/access"
	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/internal/outbox"
	"github.com/iii-aws/harness/engine/protocol"
)

// conn is one socket. It is the router's Conn.
type conn struct {
	server   *Server
	ws       *websocket.Conn
	wire     *wire
	id       string
	workerID string
	token    string // with which the worker comes back
	remote   string
	grant    *access.Grant
	limits   limits
	chunks   bool // the peer takes and sends chunk frames
	ordinal  uint64

	// ctx ends with the socket, live once a close of it has begun: from then
	// on nothing is taken from the peer or queued for it.
	ctx    context.Context
	cancel context.CancelFunc
	live   context.Context
	end    context.CancelFunc
	shuts  sync.Once // sets code and reason, and ends live
	code   websocket.StatusCode
	reason string
	closes sync.Once
	out    *outbox.Box[[]byte]
	unsent unsent
	// broken: the peer broke a limit; revoked: its token is no more; left: it closed the socket.
	broken  atomic.Bool
	revoked atomic.Bool
	left    atomic.Bool

	fixed   chan struct{} // closed once the namespace is known
	fixOnce sync.Once
	opened  chan struct{} // closed once the peer was greeted
	greeted sync.Once
	// lastIn and lastOut are the monotonic times of the last messages.
	lastIn, lastOut atomic.Int64
}

func (s *Server) newConn(ws *websocket.Conn, w *wire, g *access.Grant, remote string, chunks bool) *conn {
	c := &conn{server: s, ws: ws, wire: w, id: s.cfg.IDs.UUID(), workerID: s.cfg.IDs.UUID(), token: s.cfg.IDs.UUID(), grant: g, limits: s.limits(), chunks: chunks,
		fixed: make(chan struct{}), opened: make(chan struct{})}
	if host, _, err := net.SplitHostPort(remote); err == nil {
		c.remote = host
	}
	c.ctx, c.cancel = context.WithCancel(s.base)
	c.live, c.end = context.WithCancel(c.ctx)
	c.out = outbox.New[[]byte](protocol.OutboundQueue, protocol.MaxMessage)
	now := int64(s.cfg.Clock.Monotonic())
	c.lastIn.Store(now)
	c.lastOut.Store(now)
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

// Send queues a frame. A strict server has nothing to post to before the peer
// has sent something: its handshake may not have ended.
func (c *conn) Send(ctx context.Context, f protocol.Frame) error {
	select {
	case <-c.opened:
	default:
		return bus.ErrGone
	}
	if c.expired() && c.live.Err() == nil {
		c.shut(websocket.StatusPolicyViolation, "token expired")
		go c.close(websocket.StatusPolicyViolation, "token expired")
		return bus.ErrGone
	}
	return c.queue(ctx, f)
}

func (c *conn) queue(ctx context.Context, f protocol.Frame) error {
	b, err := protocol.Encode(f)
	if err != nil {
		return err
	}
	if len(b) > c.limits.message && !(c.chunks && len(b) <= protocol.MaxChunkedMessage) {
		return bus.ErrTooLarge
	}
	for {
		if c.live.Err() != nil {
			return bus.ErrGone
		}
		ok, space, err := c.offer(b)
		if ok || err != nil {
			return err
		}
		select {
		case <-space:
		case <-c.live.Done():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (c *conn) expired() bool { return c.grant.Expired(c.server.cfg.Clock.Now()) }

// greet tells the peer who it is: the first frame it gets.
func (c *conn) greet() {
	c.greeted.Do(func() {
		if err := c.queue(c.live, &protocol.WorkerRegistered{WorkerID: c.workerID, ReattachToken: c.token}); err != nil {
			c.server.cfg.Logger.Debug("greeting not sent", "connection", c.id, "error", err)
		}
		close(c.opened)
	})
}

// serve runs the socket until it ends.
func (c *conn) serve() {
	log := c.server.cfg.Logger.With("connection", c.id, "principal", c.grant.Principal.ID)
	var helpers sync.WaitGroup
	helpers.Go(func() {
		if err := c.write(); err != nil && c.live.Err() == nil {
			log.Info("connection cut while writing", "error", err)
			c.cancel()
		}
	})
	c.server.cfg.Router.Attach(c)
	if c.server.cfg.Strict == nil {
		c.greet()
	} else {
		helpers.Go(c.age)
	}
	err := c.read()
	c.left.Store(websocket.CloseStatus(err) != -1)
	hold := c.server.cfg.Router.Detach(c)
	if c.broken.Load() {
		c.pause(hold)
	}
	c.close(websocket.StatusNormalClosure, "")
	helpers.Wait()
	if websocket.CloseStatus(err) == -1 && !errors.Is(err, context.Canceled) {
		log.Debug("connection lost", "error", err)
	}
}

// close ends the socket with a code, once. It returns when the socket has
// ended: the peer has some seconds to answer.
func (c *conn) close(code websocket.StatusCode, reason string) {
	c.shut(code, reason)
	c.closes.Do(func() {
		if err := c.ws.Close(c.code, c.reason); err != nil {
			_ = c.ws.CloseNow() // the peer did not finish the handshake
		}
		c.cancel()
	})
}

// shut decides with which code the socket ends. From then on the peer is
// neither heard nor sent anything; close follows.
func (c *conn) shut(code websocket.StatusCode, reason string) {
	c.shuts.Do(func() {
		c.code, c.reason = code, reason
		c.end()
	})
}
