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

// TurnStateChanged tells of a saved record.
type TurnStateChanged struct {
	Type      string         `json:"type"`
	EventType string         `json:"event_type"`
	NewValue  TurnStateView  `json:"new_value"`
	OldValue  *TurnStateView `json:"old_value,omitempty"`
}
