package state

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// OpSyntaxError is an op that is no op at all. An update with one is refused as a whole.
type OpSyntaxError struct {
	// Index of the op.
	Index int
	// Detail says what is wrong, in the words the iii engine uses.
	Detail string
}

// Error is the text of the error.
func (e *OpSyntaxError) Error() string { return fmt.Sprintf("state: op %d: %s", e.Index, e.Detail) }

// ErrorCode is deserialization_error.
func (e *OpSyntaxError) ErrorCode() string { return "deserialization_error" }

// CheckOps checks the form of ops, not whether they can be applied. The error is an *OpSyntaxError.
func CheckOps(ops []Op) error {
	for i, op := range ops {
		if err := checkOp(op); err != nil {
			err.Index = i
			return err
		}
	}
	return nil
}

func checkOp(op Op) *OpSyntaxError {
	fail := func(format string, args ...any) *OpSyntaxError {
		return &OpSyntaxError{Detail: fmt.Sprintf(format, args...)}
	}
	switch op.Type {
	case "":
		return fail("missing field `type`")
	case OpSet, OpMerge, OpIncrement, OpDecrement, OpAppend, OpRemove:
	default:
		return fail("unknown variant `%s`, expected one of `set`, `merge`, `increment`, `decrement`, `append`, `remove`", op.Type)
	}
	nested := op.Type == OpMerge || op.Type == OpAppend
	if _, ok := parsePath(op.Path); !ok {
		if nested {
			return fail("invalid path: expected a string or an array of strings")
		}
		return fail("invalid type: %s, expected a string", describe(op.Path))
	}
	if !nested && kindOf(bytes.TrimSpace(op.Path)) == kindArray {
		return fail("invalid type: sequence, expected a string")
	}
	switch op.Type {
	case OpIncrement, OpDecrement:
		return checkBy(op.By)
	case OpMerge, OpAppend:
		if len(op.Value) == 0 {
			return fail("missing field `value`")
		}
	}
	if len(op.Value) > 0 && !json.Valid(op.Value) {
		return fail("invalid value: expected JSON")
	}
	return nil
}

func checkBy(raw json.RawMessage) *OpSyntaxError {
	by := bytes.TrimSpace(raw)
	switch {
	case len(by) == 0:
		return &OpSyntaxError{Detail: "missing field `by`"}
	case kindOf(by) != kindNumber || !json.Valid(by) || !isInteger(by):
		return &OpSyntaxError{Detail: "invalid type: " + describe(by) + ", expected i64"}
	case len(by) > MaxDigits:
		return &OpSyntaxError{Detail: fmt.Sprintf("invalid value: integer of %d digits, expected at most %d", len(by), MaxDigits)}
	}
	return nil
}

// describe names a JSON value as serde, which the iii engine reads with, does.
func describe(raw json.RawMessage) string {
	text := bytes.TrimSpace(raw)
	switch kindOf(text) {
	case kindNull:
		return "null"
	case kindString:
		return "string " + clip(text)
	case kindArray:
		return "sequence"
	case kindObject:
		return "map"
	case kindBool:
		return "boolean `" + clip(text) + "`"
	case kindNumber:
		if isInteger(text) {
			return "integer `" + clip(text) + "`"
		}
		return "floating point `" + clip(text) + "`"
	}
	return "nothing"
}

// clip bounds what an error quotes.
func clip(text []byte) string {
	const limit = 64
	if len(text) <= limit {
		return string(text)
	}
	return string(bytes.ToValidUTF8(text[:limit], nil)) + "…"
}
