package agent

import "encoding/json"

// Function describes a tool to a model.
type Function struct {
	Name                      string          `json:"name"`
	Description               string          `json:"description"`
	Parameters                json.RawMessage `json:"parameters"`
	Label                     string          `json:"label,omitempty"`
	ExecutionMode             string          `json:"execution_mode,omitempty"`
	PrepareArgumentsSupported bool            `json:"prepare_arguments_supported"`
}

// FunctionCall is a call to dispatch.
type FunctionCall struct {
	ID         string          `json:"id"`
	FunctionID string          `json:"function_id"`
	Arguments  json.RawMessage `json:"arguments"`
}

// FunctionResult is what a call gave.
type FunctionResult struct {
	Content   []Block         `json:"content"`
	Details   json.RawMessage `json:"details"`
	Terminate bool            `json:"terminate"`
}
