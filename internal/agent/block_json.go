package agent

import (
	"encoding/json"
	"fmt"
)

// MaxNesting is how deep the results in blocks may nest. Each level is read
// once more, so the depth has to be bounded.
const MaxNesting = 8

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
			return nil, &MessageError{Field: "content.type", Allowed: "a known block type", Got: clip(b.Type)}
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
// Errors: *MessageError.
func (b *Block) UnmarshalJSON(data []byte) error {
	out, err := block(data, "block", 0)
	if err == nil {
		*b = out
	}
	return err
}

// block reads the block at a path.
func block(data []byte, path string, depth int) (Block, error) {
	if t := trim(data); len(t) == 0 || t[0] != '{' {
		return Block{}, &MessageError{Field: path, Allowed: "an object with a type", Got: clip(string(data))}
	}
	var t struct {
		Type string `json:"type"`
	}
	if err := decode(data, &t, path); err != nil {
		return Block{}, err
	}
	switch t.Type {
	case BlockText, BlockImage, BlockThinking, BlockRedactedThinking, BlockFunctionCall, BlockFunctionResult:
	case "":
		return Block{}, &MessageError{Field: path + ".type", Allowed: "a block type such as text"}
	default:
		return Block{Type: t.Type, Raw: kept(data)}, nil
	}
	var w blockWire
	if err := decode(data, &w, path); err != nil {
		return Block{}, err
	}
	switch w.Type {
	case BlockText:
		return Text(w.Text), nil
	case BlockImage:
		return Block{Type: w.Type, MIME: w.MIME, Data: w.Data}, nil
	case BlockThinking:
		return Block{Type: w.Type, Text: w.Text, Signature: w.Signature}, nil
	case BlockRedactedThinking:
		return Block{Type: w.Type, Data: w.Data}, nil
	case BlockFunctionCall:
		b := Block{Type: w.Type, ID: w.ID, ProviderCallID: w.ProviderCallID, FunctionID: w.FunctionID, Arguments: json.RawMessage("{}")}
		if len(w.Arguments) > 0 {
			b.Arguments = kept(w.Arguments)
		}
		return b, nil
	default:
		content, err := blocks(w.Content, path+".content", depth+1)
		return Block{Type: w.Type, FunctionCallID: w.FunctionCallID, Content: content, IsError: w.IsError}, err
	}
}

// blocks reads a content: an array, a text, or nothing.
func blocks(raw json.RawMessage, path string, depth int) ([]Block, error) {
	b := trim(raw)
	switch {
	case isNull(b):
		return []Block{}, nil
	case b[0] == '"':
		var s string
		if err := decode(b, &s, path); err != nil {
			return nil, err
		}
		return []Block{Text(s)}, nil
	case b[0] != '[':
		return nil, &MessageError{Field: path, Allowed: "an array of blocks or a text", Got: clip(string(b))}
	case depth > MaxNesting:
		return nil, &MessageError{Field: path, Allowed: fmt.Sprintf("results nested at most %d deep", MaxNesting), Got: "deeper"}
	}
	var parts []json.RawMessage
	if err := decode(b, &parts, path); err != nil {
		return nil, err
	}
	out := make([]Block, len(parts))
	for i, p := range parts {
		var err error
		if out[i], err = block(p, fmt.Sprintf("%s[%d]", path, i), depth); err != nil {
			return nil, err
		}
	}
	return out, nil
}
