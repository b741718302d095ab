package agent

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

const roles = "user, assistant, function_result or custom"

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
		return nil, &MessageError{Field: "role", Allowed: roles, Got: clip(string(m.Role))}
	}
}

// messageWire is every member that a message may have.
type messageWire struct {
	Role           Role            `json:"role"`
	Content        json.RawMessage `json:"content"`
	Timestamp      whole           `json:"timestamp"`
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

// UnmarshalJSON reads a message; members of other roles are dropped. Content
// may be a text, which counts as one text block, or absent. A timestamp may be
// any JSON number; its fraction is dropped. An assistant message without a stop
// reason has ended. Errors: *MessageError.
func (m *Message) UnmarshalJSON(data []byte) error {
	var w messageWire
	if err := decode(data, &w, ""); err != nil {
		return err
	}
	content, err := blocks(w.Content, "content", 0)
	if err != nil {
		return err
	}
	out := Message{Role: w.Role, Content: content, Timestamp: int64(w.Timestamp)}
	switch w.Role {
	case RoleUser:
	case RoleAssistant:
		out.StopReason, out.ErrorMessage, out.ErrorKind, out.Usage = w.StopReason, w.ErrorMessage, w.ErrorKind, w.Usage
		out.Model, out.Provider, out.Details = w.Model, w.Provider, present(w.Details)
		if out.StopReason == "" {
			out.StopReason = StopEnd
		}
	case RoleFunctionResult:
		out.FunctionCallID, out.FunctionID, out.IsError, out.Details = w.FunctionCallID, w.FunctionID, w.IsError, present(w.Details)
	case RoleCustom:
		out.CustomType, out.Display, out.Details = w.CustomType, w.Display, present(w.Details)
	default:
		return &MessageError{Field: "role", Allowed: roles, Got: clip(string(w.Role))}
	}
	*m = out
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
	if isNull(raw) {
		return json.RawMessage("{}")
	}
	return raw
}

// present is a copy of a value, nil for null.
func present(raw json.RawMessage) json.RawMessage {
	if isNull(raw) {
		return nil
	}
	return kept(raw)
}

func isNull(raw json.RawMessage) bool {
	t := trim(raw)
	return len(t) == 0 || bytes.Equal(t, []byte("null"))
}

// trim takes off the white space that JSON allows; there is more in Unicode.
func trim(data []byte) []byte { return bytes.Trim(data, " \t\r\n") }

// kept is a copy of a value that goes out again as it came, but for bytes that
// are no UTF-8: a frame may not hold them.
func kept(raw []byte) json.RawMessage {
	if !utf8.Valid(raw) {
		return bytes.ToValidUTF8(raw, []byte("\uFFFD"))
	}
	return bytes.Clone(raw)
}
