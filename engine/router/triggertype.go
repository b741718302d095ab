package router

import (
	"context"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
)

// RegisterTriggerType takes a registertriggertype of a socket. Nothing is answered; a refused one is logged.
func (r *Router) RegisterTriggerType(conn Conn, f *protocol.RegisterTriggerType) {
	p := r.current(conn)
	if p == nil {
		return
	}
	if err := r.provide(p, f); err != nil {
		r.log.Warn("a trigger type was refused", "trigger_type", f.ID, "worker_id", conn.WorkerID(),
			"principal", conn.Principal().ID, "error", err)
	}
}

func (r *Router) provide(p *peer, f *protocol.RegisterTriggerType) error {
	if protocol.IsBlankNamespace(f.Namespace) {
		return protocol.BlankNamespace("namespace")
	}
	if r.cfg.Triggers == nil {
		return &bus.Error{Code: protocol.CodeTriggerRegistrationFailed, Message: "this server has no triggers"}
	}
	namespace := r.FixNamespace(p.conn(), bus.DefaultNamespace)
	caller := r.caller(p)
	if r.cfg.Access != nil {
		if f.Namespace != nil && *f.Namespace != namespace {
			if err := r.cfg.Access.Namespace(caller, *f.Namespace); err != nil {
				return err
			}
		}
		if err := r.cfg.Access.Register(caller, namespace, f.ID); err != nil {
			return err
		}
	}
	return r.cfg.Triggers.RegisterType(caller, f)
}

// UnregisterTriggerType takes an unregistertriggertype of a socket: its own type goes.
func (r *Router) UnregisterTriggerType(conn Conn, f *protocol.UnregisterTriggerType) {
	if p := r.current(conn); p != nil && r.cfg.Triggers != nil {
		r.cfg.Triggers.UnregisterType(r.caller(p), f.ID)
	}
}

// HandleTriggerResult takes a triggerregistrationresult of a socket, which counts if the socket provides the binding.
func (r *Router) HandleTriggerResult(conn Conn, f *protocol.TriggerRegistrationResult) {
	if p := r.current(conn); p != nil && r.cfg.Triggers != nil {
		r.cfg.Triggers.Result(r.caller(p), f)
	}
}

// Tell puts a frame into the outbound queue of a connection, as Conn.Send does. It is for what hosts the trigger table.
// A worker that is back gets it behind what was kept for it. Errors: bus.ErrGone also while it is away.
func (r *Router) Tell(ctx context.Context, connection string, f protocol.Frame) error {
	p := r.peer(connection)
	if p == nil {
		return bus.ErrGone
	}
	p.mu.Lock()
	switch p.phase {
	case away, gone:
		p.mu.Unlock()
		return bus.ErrGone
	case returning:
		p.backlog.add(f)
		p.mu.Unlock()
		return nil
	}
	p.mu.Unlock()
	return p.conn().Send(ctx, f)
}
