package agent

import "encoding/json"

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
