package agent

import "encoding/json"

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
