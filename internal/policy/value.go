package policy

import (
	"bytes"
	"encoding/json"
	"math/big"

	"github.com/iii-aws/harness/engine/bus"
)

// value is what an equals constraint compares with.
type value struct {
	raw json.RawMessage
	v   any
}

// newValue takes JSON that was just written.
func newValue(raw json.RawMessage) *value { return &value{raw, sure(decode(raw))} }

// sure is for what cannot fail.
func sure[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// equal is deep and strict: types must agree, numbers are equal if their
// values are.
func (v *value) equal(raw json.RawMessage) bool {
	other, err := decode(raw)
	return err == nil && deepEqual(v.v, other)
}

func decode(raw json.RawMessage) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	err := dec.Decode(&v)
	return v, err
}

func deepEqual(a, b any) bool {
	switch x := a.(type) {
	case json.Number:
		y, ok := b.(json.Number)
		return ok && sameNumber(x, y)
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for i := range x {
			if !deepEqual(x[i], y[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for k := range x {
			w, has := y[k]
			if !has || !deepEqual(x[k], w) {
				return false
			}
		}
		return true
	default:
		return a == b
	}
}

// maxDigits bounds the exact comparison: longer spellings must agree to the
// letter.
const maxDigits = 400

func sameNumber(a, b json.Number) bool {
	if a == b {
		return true
	}
	if len(a) > maxDigits || len(b) > maxDigits || bytes.ContainsAny([]byte(a+b), "eE") {
		x, errX := a.Float64()
		y, errY := b.Float64()
		return errX == nil && errY == nil && x == y && len(a) <= maxDigits && len(b) <= maxDigits
	}
	x, okX := new(big.Rat).SetString(string(a))
	y, okY := new(big.Rat).SetString(string(b))
	return okX && okY && x.Cmp(y) == 0
}

// quote is a text as JSON, with its signs as they are.
func quote(s string) json.RawMessage { return sure(bus.Encode(s)) }
