package state

import (
	"bytes"
	"encoding/json"
	"math"
	"math/big"
	"strconv"
)

var zeroText = json.RawMessage("0")

// add is increment and decrement.
func (doc *document) add(op string, path []string, by json.RawMessage) *OpError {
	target := &doc.value
	if len(path) > 0 {
		if e := doc.wantObject(op, path); e != nil {
			return e
		}
		if target = doc.lookup(path[0]); target == nil {
			total, _ := sum(zeroText, by, op == OpDecrement)
			doc.plant(path, total)
			return nil
		}
	}
	old := zeroText
	if !target.missing {
		if target.kind() != kindNumber {
			return notNumber(op, path, target.kindName())
		}
		old = target.raw
	}
	total, ok := sum(old, by, op == OpDecrement)
	if !ok {
		return notNumber(op, path, "a number that is too large")
	}
	target.replace(total)
	return nil
}

func notNumber(op string, path []string, got string) *OpError {
	return &OpError{
		Code:    op + ".not_number",
		Message: "Expected number at path '" + label(path) + "', got " + got + ".",
	}
}

// sum is the number old plus, or minus, the integer by. It reports false if the result cannot be written.
func sum(old, by json.RawMessage, minus bool) (json.RawMessage, bool) {
	b, ok := new(big.Int).SetString(string(by), 10)
	if !ok || len(old) > MaxDigits {
		return nil, false
	}
	if minus {
		b.Neg(b)
	}
	if isInteger(old) {
		a, ok := new(big.Int).SetString(string(old), 10)
		if !ok {
			return nil, false
		}
		return a.Add(a, b).Append(nil, 10), true
	}
	a, err := strconv.ParseFloat(string(old), 64)
	if err != nil {
		return nil, false
	}
	f, _ := new(big.Float).SetInt(b).Float64()
	total := a + f
	if math.IsInf(total, 0) {
		return nil, false
	}
	return appendFloat(total), true
}

// isInteger reports whether a JSON number has neither point nor exponent.
func isInteger(number json.RawMessage) bool { return !bytes.ContainsAny(number, ".eE") }

// appendFloat writes f so that it reads as a float again.
func appendFloat(f float64) json.RawMessage {
	format := byte('f')
	if a := math.Abs(f); a != 0 && (a < 1e-5 || a >= 1e16) {
		format = 'e'
	}
	text := strconv.AppendFloat(nil, f, format, -1, 64)
	if isInteger(text) {
		text = append(text, '.', '0')
	}
	return text
}
