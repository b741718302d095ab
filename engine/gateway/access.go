package gateway

import (
	"fmt"

	"github.com/iii-aws/harness/engine/access"
	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/router"
)

// Access decides what the sockets of a server may do, by their grants. It is
// made before the server, because the router needs it.
type Access struct{ server *Server }

// NewAccess is an Access that refuses everything until Use was called.
func NewAccess() *Access { return &Access{} }

// Use names the server whose connections are asked about. Call it before the
// server takes its first request.
func (a *Access) Use(s *Server) { a.server = s }

func (a *Access) grant(c router.Caller) (*access.Grant, error) {
	if a.server != nil {
		if conn := a.server.find(c.Connection); conn != nil {
			return conn.grant, nil
		}
		// A connection that was cut may come back; what it asked for goes on.
		if conn, ok := c.Conn.(*conn); ok && !conn.revoked.Load() && !conn.expired() {
			return conn.grant, nil
		}
	}
	return nil, &bus.Error{Code: protocol.CodeForbidden, Message: "the connection is closed"}
}

// Call decides about one call.
func (a *Access) Call(c router.Caller, _, functionID string) error {
	g, err := a.grant(c)
	if err != nil {
		return err
	}
	return g.MayCall(functionID, false)
}

// Register decides about a registration.
func (a *Access) Register(c router.Caller, _, functionID string) error {
	g, err := a.grant(c)
	if err != nil {
		return err
	}
	if g.MayRegister(functionID) {
		return nil
	}
	return &bus.Error{Code: protocol.CodeForbidden, Message: fmt.Sprintf("%q may not serve %s: add it to the token's register list (harness token create --register)", c.Principal.ID, functionID)}
}

// Namespace lets tokens of role worker and operator, and local peers, live in
// any namespace; others stay in the default one.
func (a *Access) Namespace(c router.Caller, namespace string) error {
	g, err := a.grant(c)
	if err != nil {
		return err
	}
	switch {
	case namespace == bus.DefaultNamespace, g.Principal.Role == bus.RoleWorker, g.Principal.Role == bus.RoleOperator, g.Principal.ID == access.LocalID:
		return nil
	}
	return &bus.Error{Code: protocol.CodeForbidden, Message: fmt.Sprintf("tokens of role %s stay in namespace %q", g.Principal.Role, bus.DefaultNamespace)}
}

// Bind decides about a trigger: whoever may call the function may have it
// called. A client's stream triggers are judged by the trigger worker, which
// knows whose session they watch.
func (a *Access) Bind(c router.Caller, triggerType, _, functionID string) error {
	g, err := a.grant(c)
	if err != nil {
		return err
	}
	role := g.Principal.Role
	if (role == bus.RoleClient || role == bus.RoleApprover) && g.Principal.ID != access.LocalID && triggerType != "stream" {
		return &bus.Error{Code: protocol.CodeForbidden, Message: fmt.Sprintf("tokens of role %s bind stream triggers only, not %s", role, triggerType)}
	}
	if g.MayRegister(functionID) {
		return nil
	}
	return g.MayCall(functionID, false)
}
