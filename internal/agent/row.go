package agent

import "encoding/json"

// Decision is a row of scope approvals.
type Decision struct {
	Decision  string  `json:"decision"` // allow, deny, aborted
	Reason    *string `json:"reason"`
	DecidedBy string  `json:"decided_by"`
	DecidedAt int64   `json:"decided_at"`
	Run       string  `json:"run"`
	ArgsHash  string  `json:"args_hash"`
}

// The decisions on a call.
const (
	DecisionAllow   = "allow"
	DecisionDeny    = "deny"
	DecisionAborted = "aborted"
)

// Grant is a row of scope approval_grants: a call with this function and these
// arguments passes in its session without asking. Its key is
// <session>/<args_hash>.
type Grant struct {
	FunctionID  string          `json:"function_id"`
	ArgsExcerpt json.RawMessage `json:"args_excerpt"`
	ArgsHash    string          `json:"args_hash"`
	// FunctionCallID is the call that it was given on.
	FunctionCallID string `json:"function_call_id"`
	GrantedBy      string `json:"granted_by"`
	GrantedAt      int64  `json:"granted_at"`
}

// ApprovalRequest is a row of scope approval_requests.
type ApprovalRequest struct {
	SessionID      string          `json:"session_id"`
	FunctionCallID string          `json:"function_call_id"`
	FunctionID     string          `json:"function_id"`
	ArgsExcerpt    json.RawMessage `json:"args_excerpt"`
	RequestedAt    int64           `json:"requested_at"`
	RequestedBy    string          `json:"requested_by"`
	ExpiresAt      int64           `json:"expires_at,omitempty"`
}

// CallResult is a row of scope call_results.
type CallResult struct {
	Run    string          `json:"run"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  *CallError      `json:"error,omitempty"`
	Source string          `json:"source"` // target, deadline, stopped
	AtMS   int64           `json:"at_ms"`
}

// CallError is the error of a stored result.
type CallError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Control is the item that a running step reads while it waits. Rev grows with
// every change that the step should look at.
type Control struct {
	Abort *Abort `json:"abort,omitempty"`
	Lease int64  `json:"lease"`
	Rev   int64  `json:"rev"`
}

// Abort asks the named run to end.
type Abort struct {
	Run  string `json:"run"`
	By   string `json:"by"`
	AtMS int64  `json:"at_ms"`
}
