package agent

import (
	"encoding/json"
	"reflect"
)

// whole is an integer that may come as any JSON number. Fractions are dropped;
// what is out of range, and null, is 0.
type whole int64

func (w *whole) UnmarshalJSON(data []byte) error {
	var n json.Number
	data = trim(data)
	if len(data) > 0 && data[0] == '"' || json.Unmarshal(data, &n) != nil {
		return &json.UnmarshalTypeError{Value: jsonKind(data), Type: reflect.TypeFor[int64]()}
	}
	*w = 0
	if i, err := n.Int64(); err == nil {
		*w = whole(i)
	} else if f, err := n.Float64(); err == nil && f < 1<<63 && f >= -(1<<63) {
		*w = whole(f)
	}
	return nil
}

// jsonKind names what a JSON value is.
func jsonKind(data []byte) string {
	switch {
	case len(data) == 0:
		return "nothing"
	case data[0] == '"':
		return "string"
	case data[0] == '{':
		return "object"
	case data[0] == '[':
		return "array"
	case data[0] == 't', data[0] == 'f':
		return "bool"
	case data[0] == 'n':
		return "null"
	default:
		return "number"
	}
}
