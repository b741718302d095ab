package state

import (
	"bytes"
	"encoding/json"
)

// push appends to the value at path.
//
// Where nothing is yet, a root and a path of one segment keep a string as it is, so that the next append lengthens it;
// everything else starts an array.
func (doc *document) push(path []string, v json.RawMessage) *OpError {
	target := &doc.value
	for i, segment := range path {
		if e := target.wantObject(OpAppend, path[:i+1]); e != nil {
			return e
		}
		next := target.lookup(segment)
		if next == nil {
			doc.plant(path, first(v, len(path) == 1))
			return nil
		}
		target = next
	}
	if target.missing {
		target.replace(first(v, true))
		return nil
	}
	switch target.kind() {
	case kindNull:
		target.replace(first(v, true))
	case kindArray:
		target.replace(pushed(target.raw, v))
	case kindString:
		if kindOf(v) != kindString {
			return &OpError{
				Code:    "append.type_mismatch",
				Message: "Expected string append value at path '" + label(path) + "', got " + kindName(kindOf(v)) + ".",
			}
		}
		text := make(json.RawMessage, 0, len(target.raw)+len(v))
		text = append(text, target.raw[:len(target.raw)-1]...)
		target.replace(append(text, v[1:]...))
	default:
		return &OpError{
			Code: "append.type_mismatch",
			Message: "Cannot append at path '" + label(path) + "': target is " + target.kindName() +
				", expected array, string, null, or missing field.",
		}
	}
	return nil
}

// first is what the first append leaves.
func first(v json.RawMessage, keepString bool) json.RawMessage {
	if keepString && kindOf(v) == kindString {
		return v
	}
	text := append(make(json.RawMessage, 0, len(v)+2), '[')
	return append(append(text, v...), ']')
}

// pushed is array with v at its end; the other elements are not looked into.
func pushed(array, v json.RawMessage) json.RawMessage {
	head := bytes.TrimRight(array[:len(array)-1], jsonSpace)
	text := make(json.RawMessage, 0, len(head)+len(v)+2)
	text = append(text, head...)
	if len(head) > 1 {
		text = append(text, ',')
	}
	return append(append(text, v...), ']')
}
