package approval

import (
	"fmt"
	"unicode/utf8"

	"github.com/iii-aws/harness/internal/agent"
)

// maxReason is the longest reason, in code points.
const maxReason = 4000

// Request is a decision. Unknown members are ignored.
type Request struct {
	SessionID      string  `json:"session_id"`
	FunctionCallID string  `json:"function_call_id"`
	Decision       string  `json:"decision"`
	Reason         *string `json:"reason,omitempty"`
	// Remember "session" with an allow also lets the same call, by function and
	// arguments, pass in this session from now on.
	Remember *string `json:"remember,omitempty"`
}

// check says what is wrong with a request, empty if nothing is.
func (r Request) check() string {
	if allowed := validID(r.SessionID); allowed != "" {
		return "session_id must be " + allowed
	}
	if allowed := validID(r.FunctionCallID); allowed != "" {
		return "function_call_id must be " + allowed
	}
	switch {
	case r.Decision != agent.DecisionAllow && r.Decision != agent.DecisionDeny:
		return "decision must be allow or deny"
	case r.Reason != nil && utf8.RuneCountInString(*r.Reason) > maxReason:
		return fmt.Sprintf("reason must have at most %d characters", maxReason)
	case r.Remember != nil && *r.Remember != rememberSession:
		return `remember must be "session"; what holds for every session is a rule in iii-permissions.yaml`
	case r.Remember != nil && r.Decision != agent.DecisionAllow:
		return "remember goes with the decision allow only"
	}
	return ""
}

// rememberSession is the only reach of a grant.
const rememberSession = "session"

// Response is what became of a request.
type Response struct {
	OK    bool   `json:"ok"`
	Error string `json:"error,omitempty"`
	// Message says what is wrong with an invalid payload.
	Message string `json:"message,omitempty"`
	// Decision and DecidedBy are those of the decision that stands.
	Decision  string `json:"decision,omitempty"`
	DecidedBy string `json:"decided_by,omitempty"`
}

// The errors of a Response.
const (
	// InvalidPayload: the request is wrong.
	InvalidPayload = "invalid_payload"
	// AlreadyDecided: another decision was first; nothing has changed.
	AlreadyDecided = "already_decided"
	// NotFound: no such call waits in a session that the caller may see.
	NotFound = "not_found"
	// ResumeFailed: the decision may not be stored; ask again.
	ResumeFailed = "resume_failed"
)

func decided(row agent.Decision) Response {
	return Response{Error: AlreadyDecided, Decision: row.Decision, DecidedBy: row.DecidedBy}
}
