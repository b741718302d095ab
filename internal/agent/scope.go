package agent

// Scopes of the state store that more than one job reads or writes. The key is
// the session id unless shown.
const (
	ScopeTurnState          = "turn_state"
	ScopeRunRequest         = "run_request"
	ScopeControl            = "control"
	ScopeRunAccepted        = "run_accepted" // <session>/<message id>
	ScopeSandboxID          = "sandbox_id"
	ScopeSessionIndex       = "session_index"
	ScopeApprovals          = "approvals"         // <session>/<call id>
	ScopeCallResults        = "call_results"      // <session>/<call id>
	ScopeApprovalGrants     = "approval_grants"   // <session>/<args hash>
	ScopeApprovalReqs       = "approval_requests" // <session>/<call id>
	ScopeInbox              = "inbox"             // <session>/<name>
	ScopeSessionTree        = "session_tree:"     // + session; key entry id
	ScopeSessionTreeMeta    = "session_tree_meta"
	ScopeModelSubscriptions = "ui_model_subscriptions" // <connection>/<browser>
	ScopeSubscriptions      = "ui_subscriptions:"      // + session
)

// Streams of a session's events; the group is the session id.
const (
	StreamEvents  = "agent::events"
	StreamTurnEnd = "agent::turn_end"
)

// QueueTurnStep carries turn::step.
const QueueTurnStep = "turn-step"
