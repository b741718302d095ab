package state

import (
	"bytes"
	"encoding/json"
)

// kind is the type of a JSON value.
type kind uint8

const (
	kindNone kind = iota
	kindNull
	kindBool
	kindNumber
	kindString
	kindArray
	kindObject
)

const jsonSpace = " \t\r\n"

// kindOf tells the type of well-formed JSON text by its first byte.
func kindOf(text []byte) kind {
	if len(text) == 0 {
		return kindNone
	}
	switch c := text[0]; {
	case c == 'n':
		return kindNull
	case c == 't', c == 'f':
		return kindBool
	case c == '-', '0' <= c && c <= '9':
		return kindNumber
	case c == '"':
		return kindString
	case c == '[':
		return kindArray
	case c == '{':
		return kindObject
	}
	return kindNone
}

func kindName(k kind) string {
	switch k {
	case kindNull:
		return "null"
	case kindBool:
		return "boolean"
	case kindNumber:
		return "number"
	case kindString:
		return "string"
	case kindArray:
		return "array"
	case kindObject:
		return "object"
	}
	return "not JSON"
}

// parseObject reads the members of a well-formed object, not what is in them. Of members with one name the last value
// counts, in the place of the first.
func parseObject(text json.RawMessage) *object {
	o := &object{}
	for i := skipSpace(text, 1); text[i] == '"'; {
		end := skipString(text, i)
		quoted := text[i:end]
		start := skipSpace(text, skipSpace(text, end)+1)
		i = skipValue(text, start)
		name := unquote(quoted)
		m := o.find(name)
		if m == nil {
			m = o.add(quoted, name)
		}
		m.value.replace(text[start:i:i])
		if i = skipSpace(text, i); text[i] == ',' {
			i = skipSpace(text, i+1)
		}
	}
	return o
}

// skipValue is the index past the well-formed value at i.
func skipValue(text []byte, i int) int {
	switch text[i] {
	case '"':
		return skipString(text, i)
	case '{', '[':
		for open := 0; ; i++ {
			switch text[i] {
			case '"':
				i = skipString(text, i) - 1
			case '{', '[':
				open++
			case '}', ']':
				if open--; open == 0 {
					return i + 1
				}
			}
		}
	}
	for i < len(text) && !bytes.ContainsRune([]byte(",]}"+jsonSpace), rune(text[i])) {
		i++
	}
	return i
}

func skipString(text []byte, i int) int {
	for i++; text[i] != '"'; i++ {
		if text[i] == '\\' {
			i++
		}
	}
	return i + 1
}

func skipSpace(text []byte, i int) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\t' || text[i] == '\r' || text[i] == '\n') {
		i++
	}
	return i
}

// depth is how deep well-formed text nests; 0 for a scalar.
func depth(text []byte) int {
	deepest, open := 0, 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i = skipString(text, i) - 1
		case '{', '[':
			open++
			deepest = max(deepest, open)
		case '}', ']':
			open--
		}
	}
	return deepest
}

func unquote(quoted []byte) string {
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner)
	}
	var s string
	// The text is a well-formed string, which always reads.
	_ = json.Unmarshal(quoted, &s)
	return s
}

// quote writes a name as a JSON string without escaping what need not be.
func quote(name string) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	// A string always encodes.
	_ = enc.Encode(name)
	return bytes.TrimRight(buf.Bytes(), "\n")
}
