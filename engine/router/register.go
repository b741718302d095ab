package router

import (
	"context"
	"errors"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/registry"
)

// RegisterFunction takes a registerfunction of a socket. A refused one is answered and logged, and not stored.
func (r *Router) RegisterFunction(ctx context.Context, conn Conn, f *protocol.RegisterFunction) {
	p := r.current(conn)
	if p == nil {
		return
	}
	namespace := r.FixNamespace(conn, bus.DefaultNamespace)
	if err := r.register(ctx, p, namespace, f); err != nil {
		r.log.Warn("a registration was refused", "function_id", f.ID, "namespace", namespace,
			"worker_id", conn.WorkerID(), "principal", conn.Principal().ID, "error", err)
		// The one code that leaves every SDK connected.
		r.tell(ctx, p, &protocol.RegistrationRejected{Code: protocol.RejectedFunction, Namespace: namespace, FunctionID: f.ID})
		return
	}
	r.Reconsider(namespace, f.ID)
}

func (r *Router) register(ctx context.Context, p *peer, namespace string, f *protocol.RegisterFunction) error {
	if registry.IsReserved(f.ID) {
		return &registry.ReservedError{FunctionID: f.ID}
	}
	if f.Invocation != nil {
		if r.cfg.Remote == nil {
			return bus.Invalid("invocation", "absent: this server calls no functions over HTTP")
		}
		if err := r.cfg.Remote.Check(f.Invocation); err != nil {
			return err
		}
	}
	if r.cfg.Access != nil {
		if err := r.cfg.Access.Register(r.caller(p), namespace, f.ID); err != nil {
			return err
		}
	}
	return r.cfg.Registry.Register(ctx, p.conn().ID(), namespace, f.ID, registry.Function{
		Description: f.Description, Meta: registry.MetaOf(f.Metadata), Metadata: f.Metadata,
		RequestSchema: f.RequestFormat, ResponseSchema: f.ResponseFormat, Remote: f.Invocation,
	})
}

// UnregisterFunction takes an unregisterfunction of a socket: its own entry goes.
func (r *Router) UnregisterFunction(conn Conn, f *protocol.UnregisterFunction) {
	if r.current(conn) == nil {
		return
	}
	r.cfg.Registry.Unregister(conn.ID(), r.FixNamespace(conn, bus.DefaultNamespace), f.ID)
}

// RegisterTrigger takes a registertrigger of a socket. Only a failure is answered.
func (r *Router) RegisterTrigger(ctx context.Context, conn Conn, f *protocol.RegisterTrigger) {
	p := r.current(conn)
	if p == nil {
		return
	}
	if err := r.bind(ctx, p, f); err != nil {
		failed := bus.AsError(err)
		r.log.Info("a trigger was refused", "trigger_id", f.ID, "trigger_type", f.TriggerType,
			"function_id", f.FunctionID, "worker_id", conn.WorkerID(), "code", failed.Code)
		r.tell(ctx, p, &protocol.TriggerRegistrationResult{ID: f.ID, TriggerType: f.TriggerType, FunctionID: f.FunctionID, Error: failed})
	}
}

func (r *Router) bind(ctx context.Context, p *peer, f *protocol.RegisterTrigger) error {
	switch {
	case protocol.IsBlankNamespace(f.Namespace):
		return protocol.BlankNamespace("namespace")
	case protocol.IsBlankNamespace(f.TriggerNamespace):
		return protocol.BlankNamespace("trigger_namespace")
	case r.cfg.Triggers == nil:
		return &bus.Error{Code: protocol.CodeTriggerRegistrationFailed, Message: "this server has no triggers"}
	}
	r.FixNamespace(p.conn(), bus.DefaultNamespace)
	namespace := bus.DefaultNamespace
	if f.Namespace != nil {
		namespace = *f.Namespace
	}
	caller := r.caller(p)
	if r.cfg.Access != nil {
		if err := r.cfg.Access.Bind(caller, f.TriggerType, namespace, f.FunctionID); err != nil {
			return err
		}
		for _, id := range protocol.TriggerFunctions(f.Config) {
			if err := r.cfg.Access.Call(caller, namespace, id); err != nil {
				return err
			}
		}
	}
	return r.cfg.Triggers.Register(ctx, caller, f)
}

// UnregisterTrigger takes an unregistertrigger of a socket: its own binding goes.
func (r *Router) UnregisterTrigger(conn Conn, f *protocol.UnregisterTrigger) {
	p := r.current(conn)
	if p == nil || r.cfg.Triggers == nil {
		return
	}
	r.cfg.Triggers.Unregister(r.caller(p), f.ID)
}

// tell posts a frame that nobody waits for.
func (r *Router) tell(ctx context.Context, p *peer, f protocol.Frame) {
	if err := p.conn().Send(ctx, f); err != nil && !errors.Is(err, bus.ErrGone) {
		r.log.Warn("a frame could not be sent", "type", f.Type(), "worker_id", p.conn().WorkerID(), "error", err)
	}
}
