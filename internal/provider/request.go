package provider

import (
	"encoding/json"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/channel"
	"github.com/iii-aws/harness/internal/agent"
)

// Request is one model call. Members that it does not know are ignored.
type Request struct {
	// WriterRef is where the events go; required by stream, ignored by
	// complete.
	WriterRef     *channel.Ref     `json:"writer_ref,omitempty"`
	SystemPrompt  *string          `json:"system_prompt,omitempty"`
	Model         string           `json:"model"`
	Messages      []agent.Message  `json:"messages"`
	Tools         []agent.Function `json:"tools,omitempty"`
	ThinkingLevel string           `json:"thinking_level,omitempty"`
	// ModelMeta is the model's entry of the catalogue.
	ModelMeta json.RawMessage `json:"model_meta,omitempty"`
	// ResolutionKey tells runs apart: it is equal for all calls of one run.
	ResolutionKey string `json:"resolution_key,omitempty"`
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
