package state

import (
	"bytes"
	"encoding/json"
)

// The types of an Op.
const (
	OpSet       = "set"
	OpMerge     = "merge"
	OpIncrement = "increment"
	OpDecrement = "decrement"
	OpAppend    = "append"
	OpRemove    = "remove"
)

// Limits of an Op.
const (
	// MaxPathDepth is the largest number of segments of a path.
	MaxPathDepth = 32
	// MaxPathSegment is the longest segment of a path in bytes.
	MaxPathSegment = 256
	// MaxMergeDepth is how deep the value of a merge may nest, itself included.
	MaxMergeDepth = 16
	// MaxMergeKeys is the largest number of members of the value of a merge.
	MaxMergeKeys = 1024
	// MaxDigits is how long a number may be that an op calculates with.
	MaxDigits = 4096
)

// CodeMalformedOp is the code of an op that CheckOps would have refused. The wire never lets one through.
const CodeMalformedOp = "op.malformed"

// Apply returns what ops make of current, in their order. A missing document (exists false) counts as {}, also when no
// op has an effect, but a root increment and a root append see it as missing. An op that fails changes nothing and gives
// one OpError; the others still apply.
//
// Members that no op touches keep their text, and objects keep the order of their members; new ones come last. Integers
// are of any size; a number written with a point or an exponent is a float64 and stays one. The result may share memory
// with current and with the ops.
func Apply(current json.RawMessage, exists bool, ops []Op) (json.RawMessage, []OpError) {
	doc := newDocument(current, exists)
	var failed []OpError
	for i, op := range ops {
		if e := doc.apply(op); e != nil {
			e.OpIndex = i
			failed = append(failed, *e)
		}
	}
	if doc.missing {
		return json.RawMessage("{}"), failed
	}
	return doc.text(), failed
}

// document is the root of a stored value.
type document struct{ value }

func newDocument(current json.RawMessage, exists bool) *document {
	if !exists {
		return &document{value{missing: true}}
	}
	text := bytes.TrimSpace(current)
	if len(text) == 0 {
		text = nullText
	}
	return &document{value{raw: text, broken: !json.Valid(text)}}
}

// apply runs one op on the document.
func (doc *document) apply(op Op) *OpError {
	if err := checkOp(op); err != nil {
		return &OpError{Code: CodeMalformedOp, Message: err.Detail}
	}
	path, _ := parsePath(op.Path)
	if e := checkPath(op.Type, path); e != nil {
		return e
	}
	switch op.Type {
	case OpSet:
		return doc.set(path, operand(op.Value))
	case OpRemove:
		return doc.remove(path)
	case OpIncrement, OpDecrement:
		return doc.add(op.Type, path, operand(op.By))
	case OpAppend:
		return doc.push(path, operand(op.Value))
	default:
		return doc.merge(path, operand(op.Value))
	}
}

// operand is the text of a member of an op.
func operand(raw json.RawMessage) json.RawMessage {
	if text := bytes.TrimSpace(raw); len(text) > 0 {
		return text
	}
	return nullText
}

// set replaces the root or one member of it.
func (doc *document) set(path []string, v json.RawMessage) *OpError {
	if len(path) == 0 {
		doc.replace(v)
		return nil
	}
	if e := doc.wantObject(OpSet, path); e != nil {
		return e
	}
	doc.open().put(path[0], v)
	return nil
}

// remove makes the root null or removes one member of it.
func (doc *document) remove(path []string) *OpError {
	if len(path) == 0 {
		doc.replace(nullText)
		return nil
	}
	if e := doc.wantObject(OpRemove, path); e != nil {
		return e
	}
	doc.open().delete(path[0])
	return nil
}

// wantObject is the error of an op that needs an object to step into; a missing value is one.
func (v *value) wantObject(op string, path []string) *OpError {
	if v.missing || v.kind() == kindObject {
		return nil
	}
	return &OpError{
		Code:    op + ".target_not_object",
		Message: "Cannot " + op + " at path '" + label(path) + "': target is " + v.kindName() + ", expected object.",
	}
}
