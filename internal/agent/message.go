package agent

import "encoding/json"

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

// Usage counts the tokens of a model call; absent numbers are unknown.
type Usage struct {
	Input      *int64   `json:"input,omitempty"`
	Output     *int64   `json:"output,omitempty"`
	CacheRead  *int64   `json:"cache_read,omitempty"`
	CacheWrite *int64   `json:"cache_write,omitempty"`
	CostUSD    *float64 `json:"cost_usd,omitempty"`
}

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

// Block is one content block; which members count depends on Type. A block of
// an unknown type is kept as it came in Raw.
type Block struct {
	Type string

	Text      string // text, thinking
	Signature string // thinking
	MIME      string // image
	Data      string // image (base64), redacted_thinking

	// Function call.
	ID             string
	ProviderCallID string
	FunctionID     string
	// Arguments is any JSON: null when the streamed text did not parse, {}
	// when it was empty.
	Arguments json.RawMessage

	// Nested function result.
	FunctionCallID string
	Content        []Block
	IsError        bool

	Raw json.RawMessage
}

// The types of a block.
const (
	BlockText             = "text"
	BlockImage            = "image"
	BlockThinking         = "thinking"
	BlockRedactedThinking = "redacted_thinking"
	BlockFunctionCall     = "function_call"
	BlockFunctionResult   = "function_result"
)

// Text is a text block.
func Text(s string) Block { return Block{Type: BlockText, Text: s} }

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
