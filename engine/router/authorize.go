package router

import (
	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
)

// MayCall decides whether who made a call may have the bus call a function later: by a queue, a topic or a condition of a
// trigger. It is the decision about a direct call, internal functions included; a built-in worker may everything.
// Errors: FORBIDDEN, also when the connection has closed since.
func (r *Router) MayCall(made *bus.Call, namespace, functionID string) error {
	return r.authorize(made, namespace, functionID, func(c Caller) error {
		return r.cfg.Access.Call(c, namespace, functionID)
	})
}

// MayBind is MayCall for the function of a trigger of a type.
func (r *Router) MayBind(made *bus.Call, triggerType, namespace, functionID string) error {
	return r.authorize(made, namespace, functionID, func(c Caller) error {
		return r.cfg.Access.Bind(c, triggerType, namespace, functionID)
	})
}

// Visible reports whether lists show a function to a caller: what a direct call would be refused, by the rights of the
// connection, they do not. Internal functions are left to who makes the list.
func (r *Router) Visible(caller *bus.Call, namespace, functionID string) bool {
	if caller.Connection == "" || r.cfg.Access == nil {
		return true
	}
	p := r.peer(caller.Connection)
	return p != nil && r.cfg.Access.Call(r.caller(p), namespace, functionID) == nil
}

func (r *Router) authorize(made *bus.Call, namespace, functionID string, access func(Caller) error) error {
	if made.Connection == "" {
		return nil
	}
	p := r.peer(made.Connection)
	if p == nil {
		return &bus.Error{Code: protocol.CodeForbidden, Message: "the connection is closed"}
	}
	if reg, _ := r.cfg.Registry.Resolve(namespace, functionID); reg != nil && reg.Meta.Internal && r.peer(reg.Connection) != p {
		return internalFunction(functionID)
	}
	if r.cfg.Access == nil {
		return nil
	}
	return access(r.caller(p))
}
