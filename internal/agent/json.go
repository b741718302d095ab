package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// MarshalJSON writes the members that the role has, in a fixed order.
func (m Message) MarshalJSON() ([]byte, error) {
	content := m.Content
	if content == nil {
		content = []Block{}
	}
	switch m.Role {
	case RoleUser:
		return encode(struct {
			Role      Role    `json:"role"`
			Content   []Block `json:"content"`
			Timestamp int64   `json:"timestamp"`
		}{m.Role, content, m.Timestamp})
	case RoleAssistant:
		return encode(struct {
			Role         Role            `json:"role"`
			Content      []Block         `json:"content"`
			StopReason   StopReason      `json:"stop_reason"`
			ErrorMessage *string         `json:"error_message"`
			ErrorKind    *ErrorKind      `json:"error_kind"`
			Usage        *Usage          `json:"usage"`
			Model        string          `json:"model"`
			Provider     string          `json:"provider"`
			Details      json.RawMessage `json:"details,omitempty"`
			Timestamp    int64           `json:"timestamp"`
		}{m.Role, content, m.StopReason, m.ErrorMessage, m.ErrorKind, m.Usage, m.Model, m.Provider, m.Details, m.Timestamp})
	case RoleFunctionResult:
		return encode(struct {
			Role           Role            `json:"role"`
			FunctionCallID string          `json:"function_call_id"`
			FunctionID     string          `json:"function_id"`
			Content        []Block         `json:"content"`
			Details        json.RawMessage `json:"details"`
			IsError        bool            `json:"is_error"`
			Timestamp      int64           `json:"timestamp"`
		}{m.Role, m.FunctionCallID, m.FunctionID, content, orEmpty(m.Details), m.IsError, m.Timestamp})
	case RoleCustom:
		return encode(struct {
			Role       Role            `json:"role"`
			CustomType string          `json:"custom_type"`
			Content    []Block         `json:"content"`
			Display    string          `json:"display,omitempty"`
			Details    json.RawMessage `json:"details,omitempty"`
			Timestamp  int64           `json:"timestamp"`
		}{m.Role, m.CustomType, content, m.Display, m.Details, m.Timestamp})
	default:
		return nil, &MessageError{Field: "role", Allowed: "user, assistant, function_result, custom", Got: string(m.Role)}
	}
}

// messageWire is every member that a message may have.
type messageWire struct {
	Role           Role            `json:"role"`
	Content        json.RawMessage `json:"content"`
	Timestamp      json.Number     `json:"timestamp"`
	StopReason     StopReason      `json:"stop_reason"`
	ErrorMessage   *string         `json:"error_message"`
	ErrorKind      *ErrorKind      `json:"error_kind"`
	Usage          *Usage          `json:"usage"`
	Model          string          `json:"model"`
	Provider       string          `json:"provider"`
	FunctionCallID string          `json:"function_call_id"`
	FunctionID     string          `json:"function_id"`
	IsError        bool            `json:"is_error"`
	CustomType     string          `json:"custom_type"`
	Display        string          `json:"display"`
	Details        json.RawMessage `json:"details"`
}

// UnmarshalJSON reads a message. Content may be a string, which counts as one
// text block. A timestamp may be any JSON number; its fraction is dropped.
func (m *Message) UnmarshalJSON(data []byte) error {
	var w messageWire
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	switch w.Role {
	case RoleUser, RoleAssistant, RoleFunctionResult, RoleCustom:
	default:
		return &MessageError{Field: "role", Allowed: "user, assistant, function_result, custom", Got: string(w.Role)}
	}
	content, err := blocks(w.Content)
	if err != nil {
		return err
	}
	*m = Message{
		Role: w.Role, Content: content, Timestamp: millis(w.Timestamp),
		StopReason: w.StopReason, ErrorMessage: w.ErrorMessage, ErrorKind: w.ErrorKind, Usage: w.Usage,
		Model: w.Model, Provider: w.Provider,
		FunctionCallID: w.FunctionCallID, FunctionID: w.FunctionID, IsError: w.IsError,
		CustomType: w.CustomType, Display: w.Display, Details: present(w.Details),
	}
	return nil
}

func millis(n json.Number) int64 {
	if i, err := n.Int64(); err == nil {
		return i
	}
	f, err := n.Float64()
	if err != nil || f != f || f > 1<<62 || f < -(1<<62) {
		return 0
	}
	return int64(f)
}

func blocks(raw json.RawMessage) ([]Block, error) {
	b := bytes.TrimSpace(raw)
	switch {
	case len(b) == 0 || bytes.Equal(b, []byte("null")):
		return []Block{}, nil
	case b[0] == '"':
		var s string
		if err := json.Unmarshal(b, &s); err != nil {
			return nil, err
		}
		return []Block{Text(s)}, nil
	case b[0] != '[':
		return nil, &MessageError{Field: "content", Allowed: "an array of blocks or a text", Got: clip(string(b))}
	}
	out := []Block{}
	err := json.Unmarshal(b, &out)
	return out, err
}

// MarshalJSON writes the members that the type has; a block of an unknown type
// as it came.
func (b Block) MarshalJSON() ([]byte, error) {
	switch b.Type {
	case BlockText:
		return encode(struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}{b.Type, b.Text})
	case BlockImage:
		return encode(struct {
			Type string `json:"type"`
			MIME string `json:"mime"`
			Data string `json:"data"`
		}{b.Type, b.MIME, b.Data})
	case BlockThinking:
		return encode(struct {
			Type      string `json:"type"`
			Text      string `json:"text"`
			Signature string `json:"signature,omitempty"`
		}{b.Type, b.Text, b.Signature})
	case BlockRedactedThinking:
		return encode(struct {
			Type string `json:"type"`
			Data string `json:"data"`
		}{b.Type, b.Data})
	case BlockFunctionCall:
		args := b.Arguments
		if len(args) == 0 {
			args = json.RawMessage("{}")
		}
		return encode(struct {
			Type           string          `json:"type"`
			ID             string          `json:"id"`
			ProviderCallID string          `json:"provider_call_id,omitempty"`
			FunctionID     string          `json:"function_id"`
			Arguments      json.RawMessage `json:"arguments"`
		}{b.Type, b.ID, b.ProviderCallID, b.FunctionID, args})
	case BlockFunctionResult:
		content := b.Content
		if content == nil {
			content = []Block{}
		}
		return encode(struct {
			Type           string  `json:"type"`
			FunctionCallID string  `json:"function_call_id"`
			Content        []Block `json:"content"`
			IsError        bool    `json:"is_error,omitempty"`
		}{b.Type, b.FunctionCallID, content, b.IsError})
	default:
		if len(b.Raw) == 0 {
			return nil, &MessageError{Field: "content.type", Allowed: "a known block type", Got: b.Type}
		}
		return b.Raw, nil
	}
}

type blockWire struct {
	Type           string          `json:"type"`
	Text           string          `json:"text"`
	Signature      string          `json:"signature"`
	MIME           string          `json:"mime"`
	Data           string          `json:"data"`
	ID             string          `json:"id"`
	ProviderCallID string          `json:"provider_call_id"`
	FunctionID     string          `json:"function_id"`
	Arguments      json.RawMessage `json:"arguments"`
	FunctionCallID string          `json:"function_call_id"`
	Content        json.RawMessage `json:"content"`
	IsError        bool            `json:"is_error"`
}

// UnmarshalJSON reads a block. A type that is not known is kept as it came.
func (b *Block) UnmarshalJSON(data []byte) error {
	var t struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(data, &t); err != nil {
		return &MessageError{Field: "content", Allowed: "objects with a type", Got: clip(string(data)), Err: err}
	}
	switch t.Type {
	case BlockText, BlockImage, BlockThinking, BlockRedactedThinking, BlockFunctionCall, BlockFunctionResult:
	case "":
		return &MessageError{Field: "content.type", Allowed: "a block type such as text", Got: ""}
	default:
		*b = Block{Type: t.Type, Raw: append(json.RawMessage(nil), data...)}
		return nil
	}
	var w blockWire
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	*b = Block{
		Type: w.Type, Text: w.Text, Signature: w.Signature, MIME: w.MIME, Data: w.Data,
		ID: w.ID, ProviderCallID: w.ProviderCallID, FunctionID: w.FunctionID,
		FunctionCallID: w.FunctionCallID, IsError: w.IsError,
	}
	switch w.Type {
	case BlockFunctionCall:
		b.Arguments = json.RawMessage("{}")
		if len(w.Arguments) > 0 {
			b.Arguments = append(json.RawMessage(nil), w.Arguments...)
		}
	case BlockFunctionResult:
		var err error
		b.Content, err = blocks(w.Content)
		return err
	}
	return nil
}

// MarshalJSON never writes null members.
func (r FunctionResult) MarshalJSON() ([]byte, error) {
	content := r.Content
	if content == nil {
		content = []Block{}
	}
	return encode(struct {
		Content   []Block         `json:"content"`
		Details   json.RawMessage `json:"details"`
		Terminate bool            `json:"terminate"`
	}{content, orEmpty(r.Details), r.Terminate})
}

// MessageError is a message that cannot be read or written.
type MessageError struct {
	Field, Allowed, Got string
	Err                 error
}

// Error is the text of the error.
func (e *MessageError) Error() string {
	return fmt.Sprintf("agent: invalid message: %s is %q, must be %s", e.Field, e.Got, e.Allowed)
}

// Unwrap is the cause.
func (e *MessageError) Unwrap() error { return e.Err }

// ErrorCode is invalid_payload.
func (e *MessageError) ErrorCode() string { return "invalid_payload" }

func encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(buf.Bytes(), "\n"), nil
}

func orEmpty(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("{}")
	}
	return raw
}

func present(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 || bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
		return nil
	}
	return append(json.RawMessage(nil), raw...)
}

func clip(s string) string {
	r := []rune(s)
	if len(r) > 40 {
		return string(r[:40]) + "…"
	}
	return s
}
