package bus

import "context"

// Role is what a token allows by default.
type Role string

// The roles of a token.
const (
	RoleClient   Role = "client"
	RoleApprover Role = "approver"
	RoleOperator Role = "operator"
	RoleWorker   Role = "worker"
	// RoleSystem is the bus itself: sweeps, timers and dead letters that
	// nobody asked for. No token carries it.
	RoleSystem Role = "system"
)

// Principal is who a call is made for. The bus sets it on every invocation and
// strips whatever a socket sent in its place.
type Principal struct {
	ID          string `json:"id"`
	Role        Role   `json:"role"`
	WorkspaceID string `json:"workspace_id,omitempty"`
	// OnBehalfOf is the person a trusted surface acts for, such as
	// "slack:T1:U1". Accepted only from a principal that may act for others.
	OnBehalfOf string `json:"on_behalf_of,omitempty"`
	// Sessions are globs over session ids that an approver may see.
	Sessions []string `json:"sessions,omitempty"`
}

// System is the principal of the bus itself.
func System() Principal { return Principal{ID: "system", Role: RoleSystem} }

// Actor names who decided: the person acted for, else the principal itself.
func (p Principal) Actor() string {
	if p.OnBehalfOf != "" {
		return p.OnBehalfOf
	}
	return p.ID
}

// SeesAll reports whether sessions of every owner are visible.
func (p Principal) SeesAll() bool { return p.Role == RoleOperator || p.Role == RoleSystem }

type callKey struct{}

// WithCall puts the call that is being served into the context, where nested
// calls find its principal, trace and deadline.
func WithCall(ctx context.Context, c *Call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

// CallFrom is the call that is being served, or nil.
func CallFrom(ctx context.Context) *Call {
	c, _ := ctx.Value(callKey{}).(*Call)
	return c
}
