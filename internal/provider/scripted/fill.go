package scripted

import (
	"bytes"
	"encoding/json"
)

// fill makes a call of a template.
func (c Call) fill(expand func(string) string) Call {
	c.Function = expand(c.Function)
	if len(c.Payload) > 0 {
		c.Payload = fillJSON(c.Payload, expand)
	}
	if c.Arguments != nil {
		a := expand(*c.Arguments)
		c.Arguments = &a
	}
	return c
}

// fillJSON fills in every text of a value; keys and numbers stay.
func fillJSON(raw json.RawMessage, expand func(string) string) json.RawMessage {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		panic(err) // it was written when the rules were read
	}
	return encode(walk(v, expand))
}

func walk(v any, expand func(string) string) any {
	switch x := v.(type) {
	case string:
		return expand(x)
	case []any:
		for i := range x {
			x[i] = walk(x[i], expand)
		}
	case map[string]any:
		for k := range x {
			x[k] = walk(x[k], expand)
		}
	}
	return v
}

// arguments is the argument text of a call to agent_trigger.
func (c Call) arguments() string {
	if c.Arguments != nil {
		return *c.Arguments
	}
	payload := c.Payload
	if len(payload) == 0 {
		payload = json.RawMessage("{}")
	}
	return string(encode(struct {
		Function string          `json:"function"`
		Payload  json.RawMessage `json:"payload"`
	}{c.Function, payload}))
}

// encode is a plain value as JSON, its signs as they are.
func encode(v any) json.RawMessage {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // plain values always encode
	}
	return bytes.TrimRight(buf.Bytes(), "\n")
}
