// Package input reads the payload of built-in functions and answers bad ones in the words of the iii engine, which names
// the first member at fault in the order in which the request declares them.
package input

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
)

// Endpoint makes an endpoint of a built-in function. Its request is a struct whose members are required, in their order,
// unless their tag says omitempty; an optional member that is null counts as absent. A tag alias names a second name of
// a member. Unknown members are ignored.
func Endpoint[Req, Res any](function string, f func(ctx context.Context, call *bus.Call, req Req) (Res, error)) bus.Endpoint {
	return bus.Endpoint{
		Handle: func(ctx context.Context, call *bus.Call) (json.RawMessage, error) {
			var req Req
			if err := Decode(function, call.Data, &req); err != nil {
				return nil, err
			}
			res, err := f(ctx, call, req)
			if err != nil {
				return nil, err
			}
			return bus.Encode(res)
		},
		Request:  Schema(reflect.TypeFor[Req]()),
		Response: Schema(reflect.TypeFor[Res]()),
	}
}

// Decode reads data into the struct that v points to. Null and nothing count as {}. The error is a *protocol.Error with
// the code deserialization_error.
func Decode(function string, data json.RawMessage, v any) error {
	if detail := Read(data, v); detail != "" {
		return protocol.BadInput(function, detail)
	}
	return nil
}

// Read is Decode for callers with an error text of their own: it returns what is wrong with data, or nothing.
func Read(data json.RawMessage, v any) string {
	text := bytes.TrimSpace(data)
	if len(text) == 0 || string(text) == "null" {
		text = []byte("{}")
	}
	if text[0] != '{' {
		return "invalid type: " + Describe(text) + ", expected an object"
	}
	target := reflect.ValueOf(v).Elem()
	for i := range target.NumField() {
		if detail := readField(text, target.Field(i), target.Type().Field(i)); detail != "" {
			return detail
		}
	}
	return ""
}

func readField(obj json.RawMessage, target reflect.Value, f reflect.StructField) string {
	name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	if name == "" || name == "-" {
		return ""
	}
	optional := strings.Contains(options, "omitempty")
	value, ok := protocol.Member(obj, name)
	if alias := f.Tag.Get("alias"); !ok && alias != "" {
		value, ok = protocol.Member(obj, alias)
	}
	switch {
	case !ok && optional:
		return ""
	case !ok:
		return "missing field `" + name + "`"
	case f.Type == rawType:
		target.SetBytes(value)
		return ""
	case string(value) == "null" && optional:
		return ""
	case string(value) == "null" && f.Type.Kind() != reflect.Pointer:
		return "invalid type: null, expected " + expected(f.Type)
	}
	if json.Unmarshal(value, target.Addr().Interface()) == nil {
		return ""
	}
	return mismatch(value, f.Type)
}

var rawType = reflect.TypeFor[json.RawMessage]()

// mismatch says why value is no t.
func mismatch(value json.RawMessage, t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() == reflect.Slice && value[0] == '[' {
		var elements []json.RawMessage
		if json.Unmarshal(value, &elements) == nil {
			for _, e := range elements {
				if json.Unmarshal(e, reflect.New(t.Elem()).Interface()) != nil {
					return mismatch(e, t.Elem())
				}
			}
		}
	}
	word := "type"
	if isInteger(t) && value[0] != '"' && Describe(value) == "integer `"+string(value)+"`" {
		word = "value"
	}
	return "invalid " + word + ": " + Describe(value) + ", expected " + expected(t)
}

func isInteger(t reflect.Type) bool {
	return t.Kind() >= reflect.Int && t.Kind() <= reflect.Uintptr
}

// expected names a type.
func expected(t reflect.Type) string {
	switch k := t.Kind(); {
	case k == reflect.Pointer:
		return expected(t.Elem())
	case k == reflect.String:
		return "a string"
	case k == reflect.Bool:
		return "a boolean"
	case k >= reflect.Uint && k <= reflect.Uintptr:
		return "usize"
	case isInteger(t):
		return "i64"
	case k == reflect.Slice:
		return "a sequence"
	}
	return "an object"
}

// maxShown is how many bytes of a value an error quotes.
const maxShown = 64

// Describe names a JSON value as serde does, with which the iii engine reads. What it quotes is cut at 64 bytes.
func Describe(value json.RawMessage) string {
	text := bytes.TrimSpace(value)
	if len(text) == 0 {
		return "nothing"
	}
	shown := string(text)
	if len(shown) > maxShown {
		shown = strings.ToValidUTF8(shown[:maxShown], "") + "…"
	}
	switch c := text[0]; {
	case c == '"':
		return "string " + shown
	case c == '{':
		return "map"
	case c == '[':
		return "sequence"
	case c == 't', c == 'f':
		return "boolean `" + shown + "`"
	case c == 'n':
		return "null"
	case bytes.ContainsAny(text, ".eE"):
		return "floating point `" + shown + "`"
	}
	return "integer `" + shown + "`"
}

// Schema is the JSON Schema of a type; nil if it has none. Raw JSON is described as anything.
func Schema(t reflect.Type) json.RawMessage {
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{
		IgnoreInvalidTypes: true,
		TypeSchemas:        map[reflect.Type]*jsonschema.Schema{rawType: {}},
	})
	if err != nil || s == nil {
		return nil
	}
	b, err := json.Marshal(s)
	if err != nil {
		return nil
	}
	return b
}
