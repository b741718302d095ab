package agent

import (
	"bytes"
	"encoding/json"
)

// Role is who a message is from.
type Role string

// The roles of a message. Custom messages are never sent to a model.
const (
	RoleUser           Role = "user"
	RoleAssistant      Role = "assistant"
	RoleFunctionResult Role = "function_result"
	RoleCustom         Role = "custom"
)

// StopReason is why an assistant message ended.
type StopReason string

// The stop reasons.
const (
	StopEnd          StopReason = "end"
	StopLength       StopReason = "length"
	StopFunctionCall StopReason = "function_call"
	StopAborted      StopReason = "aborted"
	StopError        StopReason = "error"
)

// ErrorKind classifies a failed model call.
type ErrorKind string

// The error kinds.
const (
	ErrAuthExpired     ErrorKind = "auth_expired"
	ErrRateLimited     ErrorKind = "rate_limited"
	ErrContextOverflow ErrorKind = "context_overflow"
	ErrTransient       ErrorKind = "transient"
	ErrPermanent       ErrorKind = "permanent"
)

// Message is one message of a transcript: user, assistant, function_result or
// custom. Which members count depends on Role; MarshalJSON writes just those.
type Message struct {
	Role      Role
	Content   []Block
	Timestamp int64

	// Assistant.
	StopReason   StopReason
	ErrorMessage *string
	ErrorKind    *ErrorKind
	Usage        *Usage
	Model        string
	Provider     string

	// Function result.
	FunctionCallID string
	FunctionID     string
	IsError        bool

	// Custom.
	CustomType string
	Display    string

	// Details belongs to function results and custom messages; an assistant
	// message has it only when it was interrupted.
	Details json.RawMessage
}

// User is a user message of one text block.
func User(text string, atMS int64) Message {
	return Message{Role: RoleUser, Content: []Block{Text(text)}, Timestamp: atMS}
}

// EmptyAssistant is the template that a stream fills.
func EmptyAssistant(provider, model string, atMS int64) Message {
	return Message{Role: RoleAssistant, Content: []Block{}, StopReason: StopEnd, Provider: provider, Model: model, Timestamp: atMS}
}

// Calls is the function call blocks, in order.
func (m Message) Calls() []Block {
	var out []Block
	for _, b := range m.Content {
		if b.Type == BlockFunctionCall {
			out = append(out, b)
		}
	}
	return out
}

// Clone is a copy that shares no memory with m.
func (m Message) Clone() Message {
	m.Content = cloneBlocks(m.Content)
	m.ErrorMessage, m.ErrorKind, m.Usage = copied(m.ErrorMessage), copied(m.ErrorKind), m.Usage.clone()
	m.Details = bytes.Clone(m.Details)
	return m
}

func cloneBlocks(blocks []Block) []Block {
	if blocks == nil {
		return nil
	}
	out := make([]Block, len(blocks))
	for i, b := range blocks {
		b.Arguments, b.Raw, b.Content = bytes.Clone(b.Arguments), bytes.Clone(b.Raw), cloneBlocks(b.Content)
		out[i] = b
	}
	return out
}
