package agent

import "encoding/json"

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

// UnmarshalJSON reads an event. The message so far, which foreign providers
// repeat in every event, is passed over: reading it would cost the square of
// the answer's length.
func (e *LLMEvent) UnmarshalJSON(data []byte) error {
	type plain LLMEvent
	w := struct {
		*plain
		Partial skipped `json:"partial"`
	}{plain: new(plain)}
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	*e = LLMEvent(*w.plain)
	return nil
}

type skipped struct{}

func (*skipped) UnmarshalJSON([]byte) error { return nil }
