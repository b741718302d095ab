package agent

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// Arguments is argument text as a value: {} when it is empty, null when it does
// not parse, is no UTF-8 or names a member twice.
func Arguments(text []byte) json.RawMessage {
	t := trim(text)
	if len(t) == 0 {
		return json.RawMessage("{}")
	}
	if !utf8.Valid(t) || !json.Valid(t) || repeatsKey(t) {
		return json.RawMessage("null")
	}
	return bytes.Clone(t)
}

// streamed is the value of the text that a model streamed. Some models write
// null where they mean no arguments.
func streamed(text string) json.RawMessage {
	if t := []byte(text); !isNull(t) {
		return Arguments(t)
	}
	return json.RawMessage("{}")
}

// level is an object or array that is being read.
type level struct {
	keys map[string]bool // nil for an array
	key  bool            // the next token is a key
}

// repeatsKey reports whether an object anywhere in valid JSON has a key twice:
// readers disagree on which one counts.
func repeatsKey(text []byte) bool {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var stack []level
	for {
		tok, err := dec.Token()
		if err != nil {
			return false // the end
		}
		top := len(stack) - 1
		switch tok {
		case json.Delim('{'):
			stack = append(stack, level{keys: map[string]bool{}, key: true})
			continue
		case json.Delim('['):
			stack = append(stack, level{})
			continue
		case json.Delim('}'), json.Delim(']'):
			stack = stack[:top]
			top--
		default:
			if top >= 0 && stack[top].key {
				k, _ := tok.(string)
				if stack[top].keys[k] {
					return true
				}
				stack[top].keys[k], stack[top].key = true, false
				continue
			}
		}
		// A value has ended: in an object a key comes next.
		if top >= 0 {
			stack[top].key = stack[top].keys != nil
		}
	}
}
