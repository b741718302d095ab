package gateway

import (
	"sync"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/protocol"
)

// Bounds of the registrations that wait for the namespace of their connection.
// Above them it is the default one at once.
const (
	maxWaiting      = 10_000
	maxWaitingBytes = 32 << 20
)

// intake gives the frames of one socket to the router. Registrations wait until
// the namespace of the connection is known; calls and results do not.
type intake struct {
	*conn
	fixed   <-chan struct{} // nil once nothing waits any more
	waiting []protocol.Frame
	bytes   int
	pieces  *protocol.Assembler
	expiry  clock.Timer
	running sync.WaitGroup
}

// read handles frames until the socket ends.
func (c *conn) read() error {
	in := &intake{conn: c, fixed: c.fixed}
	in.pieces = protocol.NewAssembler(func() time.Time { return time.Time{}.Add(c.server.cfg.Clock.Monotonic()) }, func(e *protocol.ChunkError) {
		c.server.cfg.Logger.Warn("chunked message dropped", "connection", c.id, "error", e)
	})
	defer in.running.Wait()
	defer in.stopExpiry()
	grace := c.server.cfg.Clock.NewTimer(c.server.cfg.NamespaceGrace)
	defer grace.Stop()
	source, ended := c.source()
	for {
		select {
		case <-in.fixed:
			in.settle()
		case <-grace.C():
			c.server.cfg.Router.FixNamespace(c, bus.DefaultNamespace)
		case <-in.expires():
			in.pieces.Expire()
			in.expiry = nil
			in.watchPieces()
		case d, ok := <-source:
			if !ok {
				in.running.Wait()
				select {
				case err := <-ended:
					return err
				case <-c.live.Done():
					return c.live.Err()
				}
			}
			in.take(d)
		case <-c.live.Done():
			return c.live.Err() // it is closed, cut, or the server ends
		}
	}
}

// take handles a frame, or puts it aside.
func (in *intake) take(d delivery) {
	if piece, ok := d.frame.(*protocol.Chunk); ok {
		whole := in.assemble(piece)
		d.done()
		if whole == nil {
			return
		}
		d = delivery{whole, d.size, func() {}}
	}
	if immediate(d.frame) {
		in.do(d, in.call)
		return
	}
	if in.fixed != nil {
		select {
		case <-in.conn.fixed:
			in.settle()
		default:
			in.wait(d)
			return
		}
	}
	in.do(d, in.registration)
}

// do handles a frame: here, in order, or where no order is promised beside the
// others.
func (in *intake) do(d delivery, handle func(protocol.Frame)) {
	if in.server.cfg.Strict == nil {
		handle(d.frame)
		d.done()
		return
	}
	in.running.Go(func() {
		defer d.done()
		handle(d.frame)
	})
}

func (in *intake) wait(d delivery) {
	in.waiting = append(in.waiting, d.frame)
	in.bytes += d.size
	d.done()
	if len(in.waiting) >= maxWaiting || in.bytes >= maxWaitingBytes {
		in.server.cfg.Logger.Warn("too many registrations before an announce: the namespace is the default one", "connection", in.id)
		in.server.cfg.Router.FixNamespace(in.conn, bus.DefaultNamespace)
	}
}

// settle handles what waited for the namespace.
func (in *intake) settle() {
	for _, f := range in.waiting {
		in.registration(f)
	}
	in.fixed, in.waiting, in.bytes = nil, nil, 0
}

// assemble is the frame that a piece completes, or nil.
func (in *intake) assemble(piece *protocol.Chunk) protocol.Frame {
	log := in.server.cfg.Logger
	if !in.chunks {
		log.Warn("frame dropped: the connection did not ask for chunks", "connection", in.id)
		return nil
	}
	text, err := in.pieces.Add(piece)
	in.watchPieces()
	if err != nil {
		log.Warn("chunk dropped", "connection", in.id, "error", err)
		return nil
	}
	if text == nil {
		return nil
	}
	f := in.decode(text)
	if _, nested := f.(*protocol.Chunk); nested {
		log.Warn("frame dropped: a chunk in chunks", "connection", in.id)
		return nil
	}
	return f
}

// watchPieces has unfinished messages dropped also if nothing more comes.
func (in *intake) watchPieces() {
	if in.expiry == nil && in.pieces.Open() > 0 {
		in.expiry = in.server.cfg.Clock.NewTimer(protocol.ChunkTTL)
	}
}

func (in *intake) expires() <-chan time.Time {
	if in.expiry == nil {
		return nil
	}
	return in.expiry.C()
}

func (in *intake) stopExpiry() {
	if in.expiry != nil {
		in.expiry.Stop()
	}
}

// immediate reports whether a frame does not depend on the namespace.
func immediate(f protocol.Frame) bool {
	switch f.(type) {
	case *protocol.RegisterFunction, *protocol.UnregisterFunction, *protocol.RegisterTrigger, *protocol.UnregisterTrigger,
		*protocol.RegisterTriggerType, *protocol.UnregisterTriggerType:
		return false
	}
	return true
}

// call handles an immediate frame.
func (c *conn) call(f protocol.Frame) {
	r := c.server.cfg.Router
	switch f := f.(type) {
	case *protocol.InvokeFunction:
		r.HandleInvoke(c.live, c, f)
	case *protocol.InvocationResult:
		r.HandleResult(c, f)
	case *protocol.TriggerRegistrationResult:
		r.HandleTriggerResult(c, f)
	case *protocol.Ping:
		if err := c.Send(c.live, &protocol.Pong{}); err != nil {
			c.server.cfg.Logger.Debug("pong not sent", "connection", c.id, "error", err)
		}
	case *protocol.Reattach:
		r.Reattach(c, f)
	case *protocol.Pong, *protocol.RegisterService:
	default:
		c.server.cfg.Logger.Warn("frame dropped: only the bus sends it", "connection", c.id, "type", f.Type())
	}
}

func (c *conn) registration(f protocol.Frame) {
	r := c.server.cfg.Router
	switch f := f.(type) {
	case *protocol.RegisterFunction:
		r.RegisterFunction(c.live, c, f)
	case *protocol.UnregisterFunction:
		r.UnregisterFunction(c, f)
	case *protocol.RegisterTrigger:
		r.RegisterTrigger(c.live, c, f)
	case *protocol.UnregisterTrigger:
		r.UnregisterTrigger(c, f)
	case *protocol.RegisterTriggerType:
		r.RegisterTriggerType(c, f)
	case *protocol.UnregisterTriggerType:
		r.UnregisterTriggerType(c, f)
	}
}
