package gateway

import (
	"bytes"
	"errors"

	"github.com/coder/websocket"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/redact"
)

// errExpired: the token ran out while the socket was open.
var errExpired = errors.New("gateway: token expired")

// incoming is one message, or the end of the socket.
type incoming struct {
	data []byte
	err  error
}

// read handles frames in their order. Registrations wait until the namespace
// of the connection is known; calls and results do not.
func (c *conn) read() error {
	messages := make(chan incoming)
	go c.receive(messages)
	grace := c.server.cfg.Clock.NewTimer(AnnounceGrace)
	defer grace.Stop()
	fixed := c.fixed
	var waiting []protocol.Frame
	for {
		select {
		case <-fixed:
			fixed = nil
			for _, f := range waiting {
				c.registration(f)
			}
			waiting = nil
		case <-grace.C():
			c.server.cfg.Router.FixNamespace(c, bus.DefaultNamespace)
		case <-c.ctx.Done():
			return c.ctx.Err() // the writer failed, or the server ends
		case m := <-messages:
			if m.err != nil {
				return m.err
			}
			if c.grant.Expired(c.server.cfg.Clock.Now()) {
				c.close(websocket.StatusPolicyViolation, "token expired")
				return errExpired
			}
			f := c.decode(m.data)
			if f == nil || c.immediate(f) {
				continue
			}
			select {
			case <-c.fixed:
				for _, w := range waiting {
					c.registration(w)
				}
				fixed, waiting = nil, nil
				c.registration(f)
			default:
				waiting = append(waiting, f)
			}
		}
	}
}

func (c *conn) receive(messages chan<- incoming) {
	for {
		_, data, err := c.ws.Read(c.ctx)
		select {
		case messages <- incoming{data, err}:
		case <-c.ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

func (c *conn) decode(data []byte) protocol.Frame {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil
	}
	f, err := protocol.Decode(data)
	if err != nil {
		c.server.cfg.Logger.Warn("frame dropped", "connection", c.id, "bytes", len(data), "error", redact.Text(err.Error()))
		return nil
	}
	return f
}

// immediate handles the frames that do not depend on the namespace.
func (c *conn) immediate(f protocol.Frame) bool {
	r := c.server.cfg.Router
	switch f := f.(type) {
	case *protocol.InvokeFunction:
		r.HandleInvoke(c.ctx, c, f)
	case *protocol.InvocationResult:
		r.HandleResult(c, f)
	case *protocol.TriggerRegistrationResult:
		r.HandleTriggerResult(c, f)
	case *protocol.Ping:
		if err := c.Send(c.ctx, &protocol.Pong{}); err != nil {
			c.server.cfg.Logger.Debug("pong not sent", "connection", c.id, "error", err)
		}
	case *protocol.Pong, *protocol.Reattach, *protocol.RegisterService, *protocol.Chunk:
	case *protocol.WorkerRegistered, *protocol.RegistrationRejected:
		c.server.cfg.Logger.Warn("frame dropped: only the bus sends it", "connection", c.id, "type", f.Type())
	default:
		return false
	}
	return true
}

func (c *conn) registration(f protocol.Frame) {
	r := c.server.cfg.Router
	switch f := f.(type) {
	case *protocol.RegisterFunction:
		r.RegisterFunction(c.ctx, c, f)
	case *protocol.UnregisterFunction:
		r.UnregisterFunction(c, f)
	case *protocol.RegisterTrigger:
		r.RegisterTrigger(c.ctx, c, f)
	case *protocol.UnregisterTrigger:
		r.UnregisterTrigger(c, f)
	case *protocol.RegisterTriggerType:
		r.RegisterTriggerType(c, f)
	case *protocol.UnregisterTriggerType:
		r.UnregisterTriggerType(c, f)
	default:
		c.server.cfg.Logger.Warn("frame dropped: not served", "connection", c.id, "type", f.Type())
	}
}
