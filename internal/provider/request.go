package provider

import (
	"encoding/json"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/channel"
	"github.com/iii-aws/harness/internal/agent"
)

// Request is one model call.
type Request struct {
	WriterRef     *channel.Ref     `json:"writer_ref,omitempty"`
	SystemPrompt  *string          `json:"system_prompt,omitempty"`
	Model         string           `json:"model"`
	Messages      []agent.Message  `json:"messages"`
	Tools         []agent.Function `json:"tools,omitempty"`
	ThinkingLevel string           `json:"thinking_level,omitempty"`
	ModelMeta     json.RawMessage  `json:"model_meta,omitempty"`
	ResolutionKey string           `json:"resolution_key,omitempty"`
}

// Validate names the first wrong field.
func (r Request) Validate() error {
	if r.Model == "" {
		return bus.Missing("model")
	}
	return nil
}

// StreamResponse is the answer of a stream function.
type StreamResponse struct {
	OK     bool   `json:"ok"`
	Status string `json:"status,omitempty"`
}
