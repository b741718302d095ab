package access

import (
	"fmt"
	"strings"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/pattern"
	"github.com/iii-aws/harness/engine/protocol"
)

// Grant is what a connection may do.
type Grant struct {
	Principal bus.Principal
	// TokenID is empty for the local exception and for dev's own token.
	TokenID string
	// ActAs allows metadata.principal.on_behalf_of.
	ActAs bool
	// Expires is zero if the token never does.
	Expires time.Time

	local                bool // of a peer without a token
	call, deny, register []pattern.Pattern
	callGlobs            []string // the token's own
	sessions             []string
}

// always may be called by every connection.
var always = mustCompile("engine::channels::create", "engine::workers::register", "auth::connect_ticket",
	"engine::log::info", "engine::log::warn", "engine::log::error", "engine::log::debug", "engine::log::trace",
	"engine::baggage::get", "engine::baggage::set", "engine::baggage::get_all")

// operatorOnly is out of reach of the local exception and of every role but
// operator, whatever a token's globs say.
var operatorOnly = mustCompile("auth::api_tokens::*", "auth::set_token", "auth::delete_token",
	"engine::registrations::release", "iii::queue::*", "queue::define")

var pushIDs = []string{"ui::session::event::*", "ui::sessions::changed::*", "ui::models::changed::*"}

var roleCalls = map[bus.Role][]string{
	bus.RoleClient: {
		"harness::trigger", "run::start", "run::abort", "router::abort", "turn::get_state",
		"ui::subscribe", "ui::unsubscribe", "ui::models::subscribe", "ui::models::unsubscribe",
		"session-tree::*", "session-inbox::push", "session-inbox::peek",
		"models::list", "models::get", "models::supports",
		"directory::skills::list", "directory::skills::get", "directory::skills::index",
		"directory::prompts::list", "directory::prompts::get",
		"budget::list", "budget::get", "budget::check", "budget::usage", "budget::forecast",
		"blob::read", "blob::create_upload",
	},
	bus.RoleApprover: {"approval::resolve", "approval::list", "approval::grants", "approval::revoke", "turn::get_state"},
	bus.RoleOperator: {"*"},
	bus.RoleWorker:   {},
}

var roleRegisters = map[bus.Role][]string{
	bus.RoleClient:   pushIDs,
	bus.RoleApprover: pushIDs,
	bus.RoleOperator: pushIDs,
	bus.RoleWorker:   {},
}

// New makes the grant of a token.
func New(t Token) (*Grant, error) {
	role := t.Role
	if _, ok := roleCalls[role]; !ok {
		return nil, bus.Invalid("role", "client, approver, operator, worker")
	}
	g := &Grant{
		Principal: bus.Principal{ID: t.PrincipalID(), Role: role, WorkspaceID: t.WorkspaceID},
		TokenID:   t.ID, ActAs: t.ActAs, Expires: t.expires(), sessions: t.Sessions,
	}
	if role == bus.RoleApprover {
		g.Principal.Sessions = t.Sessions
	}
	if role != bus.RoleOperator {
		g.deny = operatorOnly
	}
	g.callGlobs = t.Call
	var err error
	if g.call, err = compile("call", append(append([]string(nil), roleCalls[role]...), t.Call...)); err != nil {
		return nil, err
	}
	if g.register, err = compile("register", append(append([]string(nil), roleRegisters[role]...), t.Register...)); err != nil {
		return nil, err
	}
	return g, nil
}

// Local is the grant of a peer on the loopback interface without a token: it
// may call all but what is the operator's, register anything, and owns the
// sessions it starts.
func Local() *Grant {
	return &Grant{
		Principal: bus.Principal{ID: LocalID, Role: bus.RoleClient}, local: true,
		call: mustCompile("*"), callGlobs: []string{"*"}, deny: operatorOnly, register: mustCompile("*"),
	}
}

// LocalID is the principal of the local exception and of dev's own token, so
// that owners survive a restart.
const LocalID = "local"

// Operator is the grant of dev's own token.
func Operator() *Grant {
	return &Grant{
		Principal: bus.Principal{ID: LocalID, Role: bus.RoleOperator},
		call:      mustCompile("*"), callGlobs: []string{"*"}, register: mustCompile("*"),
	}
}

// MayCall is nil, or an error FORBIDDEN that tells which list to edit. An id
// that nobody serves is judged like any other.
func (g *Grant) MayCall(functionID string, internal bool) error {
	if internal {
		return g.forbidden(functionID, "it is internal to the harness and cannot be called from a connection")
	}
	if matches(g.deny, functionID) {
		return g.forbidden(functionID, "it is reserved for tokens of role operator")
	}
	if matches(always, functionID) || matches(g.call, functionID) {
		return nil
	}
	return g.forbidden(functionID, fmt.Sprintf("add it to the token's call list (harness token create --call), which beside its role's is %s", list(g.callGlobs)))
}

// MayRegister reports whether the connection may serve an id. engine::* can
// never be registered.
func (g *Grant) MayRegister(functionID string) bool {
	return !strings.HasPrefix(functionID, "engine::") && matches(g.register, functionID)
}

// SeesSession reports whether a session of the given owner is visible.
func (g *Grant) SeesSession(owner, session string) bool {
	return Sees(g.Principal, owner, session)
}

// Expired reports whether the token has run out.
func (g *Grant) Expired(now time.Time) bool { return !g.Expires.IsZero() && !now.Before(g.Expires) }

func (g *Grant) forbidden(functionID, why string) error {
	return &bus.Error{Code: protocol.CodeForbidden, Message: fmt.Sprintf("%s %q may not call %s: %s", g.Principal.Role, g.Principal.ID, functionID, why)}
}

// Sees is the rule of visibility: an operator sees every session, an owner its
// own, an approver those that its globs name.
func Sees(p bus.Principal, owner, session string) bool {
	if p.SeesAll() || (p.ID != "" && p.ID == owner) {
		return true
	}
	for _, s := range p.Sessions {
		if g, err := pattern.Compile(s); err == nil && g.Match(session) {
			return true
		}
	}
	return false
}

func compile(field string, globs []string) ([]pattern.Pattern, error) {
	out := make([]pattern.Pattern, 0, len(globs))
	for i, s := range globs {
		p, err := pattern.Compile(s)
		if err != nil {
			return nil, &bus.InvalidError{Field: fmt.Sprintf("%s[%d]", field, i), Allowed: "a glob over function ids, * as the only wildcard", Err: err}
		}
		out = append(out, p)
	}
	return out, nil
}

func mustCompile(globs ...string) []pattern.Pattern {
	out, err := compile("", globs)
	if err != nil {
		panic(err)
	}
	return out
}

func matches(set []pattern.Pattern, id string) bool {
	for _, p := range set {
		if p.Match(id) {
			return true
		}
	}
	return false
}

func list(globs []string) string {
	if len(globs) == 0 {
		return "empty"
	}
	return strings.Join(globs, ", ")
}
