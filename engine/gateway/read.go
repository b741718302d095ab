package gateway

import (
	"bytes"
	"errors"

	"github.com/coder/websocket"

	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/redact"
)

// errExpired: the token ran out while the socket was open.
var errExpired = errors.New("gateway: token expired")

// delivery is one frame on its way to the router. Call done when it is handled.
type delivery struct {
	frame protocol.Frame
	size  int // of its text, in bytes
	done  func()
}

// receive reads the socket until it ends and gives its frames to yield.
func (c *conn) receive(yield func(delivery)) error {
	for {
		kind, data, err := c.ws.Read(c.ctx)
		if err != nil {
			var broken *violation
			if errors.As(err, &broken) {
				c.server.cfg.Logger.Warn("connection closed", "connection", c.id, "principal", c.grant.Principal.ID, "code", int(broken.code), "reason", broken.reason)
				c.broken.Store(true)
				c.shut(broken.code, broken.reason) // who serves the socket closes it
				return broken
			}
			return err
		}
		if c.live.Err() != nil {
			continue // what comes while it is closed is not taken
		}
		if c.expired() {
			c.close(websocket.StatusPolicyViolation, "token expired")
			return errExpired
		}
		c.lastIn.Store(int64(c.server.cfg.Clock.Monotonic()))
		c.greet()
		if kind == websocket.MessageBinary && c.telemetry(data) {
			continue
		}
		if f := c.decode(data); f != nil {
			yield(delivery{f, len(data), func() {}})
		}
	}
}

// telemetryKinds are the first four bytes of a binary message of telemetry.
var telemetryKinds = []string{"OTLP", "MTRC", "LOGS"}

// telemetry hands on a binary message of telemetry and reports whether it was
// one.
func (c *conn) telemetry(data []byte) bool {
	for _, kind := range telemetryKinds {
		if bytes.HasPrefix(data, []byte(kind)) {
			if c.server.cfg.Telemetry != nil {
				c.server.cfg.Telemetry(c.id, c.workerID, kind, data[len(kind):])
			}
			return true
		}
	}
	return false
}

// decode reads a frame; nil is one that does not count.
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

// source starts to read. The channel ends with the socket, and then the error
// says why.
func (c *conn) source() (<-chan delivery, <-chan error) {
	ended := make(chan error, 1)
	out := make(chan delivery)
	if c.server.cfg.Strict != nil {
		s := newShuffle(c.server.cfg.Clock, c.server.cfg.Strict.Seed, c.ordinal)
		go s.run(c.live, out)
		go func() {
			ended <- c.receive(func(d delivery) { s.add(c.live, d) })
			close(s.in)
		}()
		return out, ended
	}
	go func() {
		defer close(out)
		ended <- c.receive(func(d delivery) {
			select {
			case out <- d:
			case <-c.live.Done():
			}
		})
	}()
	return out, ended
}
