package turn

import (
	"encoding/json"
	"math"
	"strings"

	"github.com/iii-aws/harness/engine/bus"
)

// StartRequest is the payload of run::start. Members that are not listed are
// dropped.
type StartRequest struct {
	SessionID string `json:"session_id"`
	// MessageID makes the request idempotent; minted if empty.
	MessageID    string          `json:"message_id,omitempty"`
	AgentID      string          `json:"agent_id,omitempty"`
	Cwd          string          `json:"cwd,omitempty"`
	Provider     *string         `json:"provider"`
	Model        string          `json:"model"`
	Mode         *string         `json:"mode,omitempty"`
	Messages     json.RawMessage `json:"messages,omitempty"`
	MaxTurns     *float64        `json:"max_turns,omitempty"`
	SystemPrompt string          `json:"system_prompt,omitempty"`
	// ThinkingLevel is off, minimal, low, medium, high or xhigh.
	ThinkingLevel string          `json:"thinking_level,omitempty"`
	Sandbox       *SandboxRequest `json:"sandbox,omitempty"`

	messages []json.RawMessage
}

// SandboxRequest asks for a sandbox that lives as long as the run.
type SandboxRequest struct {
	Image           string `json:"image,omitempty"`
	IdleTimeoutSecs int64  `json:"idle_timeout_secs,omitempty"`
}

// Validate names the first wrong field.
func (r *StartRequest) Validate() error {
	switch {
	case r.SessionID == "":
		return bus.Missing("session_id")
	case strings.Contains(r.SessionID, "/"):
		return bus.Invalid("session_id", "a text without /")
	case r.Provider == nil:
		return bus.Missing("provider")
	case r.Model == "":
		return bus.Missing("model")
	case r.Mode != nil && *r.Mode != "plan" && *r.Mode != "ask" && *r.Mode != "agent":
		return bus.Invalid("mode", "plan, ask or agent")
	case r.MaxTurns != nil && (*r.MaxTurns < 0 || *r.MaxTurns != math.Trunc(*r.MaxTurns) || *r.MaxTurns > 1<<31):
		return bus.Invalid("max_turns", "a whole number, 0 or more")
	case len(r.Messages) > 0 && json.Unmarshal(r.Messages, &r.messages) != nil, string(r.Messages) == "null":
		return bus.Invalid("messages", "an array of messages")
	}
	return nil
}

func (r *StartRequest) maxTurns() *int64 {
	if r.MaxTurns == nil {
		return nil
	}
	n := int64(*r.MaxTurns)
	return &n
}

// runRequest is the stored form of a request, scope run_request. What it lacks
// has its zero.
type runRequest struct {
	Run           string            `json:"run"`
	Provider      string            `json:"provider"`
	Model         string            `json:"model"`
	Mode          *string           `json:"mode"`
	SystemPrompt  string            `json:"system_prompt"`
	Functions     []json.RawMessage `json:"function_schemas"`
	ThinkingLevel string            `json:"thinking_level,omitempty"`
	AgentID       string            `json:"agent_id,omitempty"`
	Cwd           string            `json:"cwd,omitempty"`
	Sandbox       *SandboxRequest   `json:"sandbox,omitempty"`
}

// stored is the request as the record keeps it until provisioning.
func (r *StartRequest) stored() json.RawMessage {
	return encode(runRequest{
		Provider: *r.Provider, Model: r.Model, Mode: r.Mode, SystemPrompt: r.SystemPrompt, Functions: []json.RawMessage{},
		ThinkingLevel: r.ThinkingLevel, AgentID: r.AgentID, Cwd: r.Cwd, Sandbox: r.Sandbox,
	})
}

// StartResponse is the result of run::start.
type StartResponse struct {
	SessionID string `json:"session_id"`
	MessageID string `json:"message_id,omitempty"`
	Started   bool   `json:"started"`
	// Duplicate: this message was accepted before; nothing was changed.
	Duplicate bool `json:"duplicate,omitempty"`
	// Reason is session_busy if the run was not started.
	Reason string `json:"reason,omitempty"`
}
