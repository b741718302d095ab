package agent

import "encoding/json"

// Types of the events of a session.
const (
	EventMessageUpdate    = "message_update"
	EventMessageComplete  = "message_complete"
	EventExecutionStart   = "function_execution_start"
	EventExecutionEnd     = "function_execution_end"
	EventTurnEnd          = "turn_end"
	EventAgentEnd         = "agent_end"
	EventTurnStateChanged = "turn_state_changed"
	EventCompactionDone   = "compaction_done"
)

// Types of the events that a provider streams.
const (
	LLMStart             = "start"
	LLMTextStart         = "text_start"
	LLMTextDelta         = "text_delta"
	LLMTextEnd           = "text_end"
	LLMThinkingStart     = "thinking_start"
	LLMThinkingDelta     = "thinking_delta"
	LLMThinkingEnd       = "thinking_end"
	LLMFunctionCallStart = "functioncall_start"
	LLMFunctionCallDelta = "functioncall_delta"
	LLMFunctionCallEnd   = "functioncall_end"
	LLMUsage             = "usage"
	LLMStop              = "stop"
	LLMDone              = "done"
	LLMError             = "error"
	// LLMSnapshot is sent only to a viewer that joins in mid-message.
	LLMSnapshot = "snapshot"
)

// LLMEvent is one event of a provider's stream, one JSON text per channel
// message. Terminal are done and error.
type LLMEvent struct {
	Type  string `json:"type"`
	Delta string `json:"delta,omitempty"`
	// Partial is what foreign providers repeat; it is never sent on.
	Partial *Message `json:"partial,omitempty"`

	// Block start of a function call carries its name and provider id; a
	// text or thinking block needs neither.
	ID         string `json:"id,omitempty"`
	FunctionID string `json:"function_id,omitempty"`
	// Signature may come with thinking_end.
	Signature string `json:"signature,omitempty"`

	Usage        *Usage     `json:"usage,omitempty"`
	StopReason   StopReason `json:"stop_reason,omitempty"`
	ErrorMessage *string    `json:"error_message,omitempty"`
	ErrorKind    *ErrorKind `json:"error_kind,omitempty"`
	// RetryAfterMS is the provider's own wish, with rate_limited and
	// transient errors.
	RetryAfterMS int64 `json:"retry_after_ms,omitempty"`

	// Message is the final one of done, Err that of error.
	Message *Message `json:"message,omitempty"`
	Err     *Message `json:"error,omitempty"`

	// Snapshot members.
	Kind string `json:"kind,omitempty"`
	Text string `json:"text,omitempty"`
	More bool   `json:"more,omitempty"`
}

// MessageUpdate is a pushed delta.
type MessageUpdate struct {
	Type      string   `json:"type"`
	MessageID string   `json:"message_id"`
	Attempt   int64    `json:"attempt"`
	Rev       int64    `json:"rev"`
	Block     int      `json:"block"`
	Offset    int      `json:"offset"`
	LLMEvent  LLMEvent `json:"llm_event"`
}

// MessageComplete is the final message of a model call.
type MessageComplete struct {
	Type         string  `json:"type"`
	Message      Message `json:"message"`
	BodyStreamed bool    `json:"body_streamed"`
}

// ExecutionStart announces a call.
type ExecutionStart struct {
	Type           string          `json:"type"`
	FunctionCallID string          `json:"function_call_id"`
	FunctionID     string          `json:"function_id"`
	Args           json.RawMessage `json:"args"`
}

// ExecutionEnd gives the result of a call.
type ExecutionEnd struct {
	Type           string         `json:"type"`
	FunctionCallID string         `json:"function_call_id"`
	FunctionID     string         `json:"function_id"`
	Result         FunctionResult `json:"result"`
	IsError        bool           `json:"is_error"`
	DurationMS     int64          `json:"duration_ms"`
}

// TurnEnd ends one turn of a run.
type TurnEnd struct {
	Type            string      `json:"type"`
	Message         Message     `json:"message"`
	FunctionResults []Message   `json:"function_results"`
	ModelLimit      *ModelLimit `json:"model_limit,omitempty"`
}

// ModelLimit is the model's window, in tokens.
type ModelLimit struct {
	Context int64 `json:"context"`
	Input   int64 `json:"input"`
	Output  int64 `json:"output"`
}

// AgentEnd ends a run.
type AgentEnd struct {
	Type     string    `json:"type"`
	Messages []Message `json:"messages"`
}

// TurnStateView is what clients see of a turn record.
type TurnStateView struct {
	SessionID        string             `json:"session_id"`
	State            string             `json:"state"`
	TurnCount        int64              `json:"turn_count"`
	MaxTurns         *int64             `json:"max_turns,omitempty"`
	AwaitingApproval []AwaitingApproval `json:"awaiting_approval,omitempty"`
	AwaitingResult   []AwaitingResult   `json:"awaiting_result,omitempty"`
	Error            *TurnError         `json:"error,omitempty"`
}

// AwaitingApproval is a call that waits for a person.
type AwaitingApproval struct {
	FunctionCallID string          `json:"function_call_id"`
	FunctionID     string          `json:"function_id"`
	Args           json.RawMessage `json:"args"`
}

// AwaitingResult is a call whose result will be stored.
type AwaitingResult struct {
	FunctionCallID string `json:"function_call_id"`
	FunctionID     string `json:"function_id"`
	DeadlineMS     int64  `json:"deadline_ms"`
}

// TurnError is why a run failed.
type TurnError struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

// TurnStateChanged tells of a saved record.
type TurnStateChanged struct {
	Type      string         `json:"type"`
	EventType string         `json:"event_type"`
	NewValue  TurnStateView  `json:"new_value"`
	OldValue  *TurnStateView `json:"old_value,omitempty"`
}

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
