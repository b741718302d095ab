package bus

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// Endpoint is a handler and the schemas that describe it.
type Endpoint struct {
	Handle Handler
	// Request and Response are JSON Schemas; nil if not described.
	Request  json.RawMessage
	Response json.RawMessage
}

// Validator is implemented by requests that check themselves. The error names
// the field and what is allowed.
type Validator interface{ Validate() error }

// Typed makes an endpoint of a typed function. The payload null counts as {}.
// Unknown members are ignored; a member of the wrong type is an
// *InvalidError that names it.
func Typed[Req, Res any](f func(ctx context.Context, call *Call, req Req) (Res, error)) Endpoint {
	return Endpoint{
		Handle: func(ctx context.Context, call *Call) (json.RawMessage, error) {
			var req Req
			if err := Decode(call.Data, &req); err != nil {
				return nil, err
			}
			res, err := f(ctx, call, req)
			if err != nil {
				return nil, err
			}
			return Encode(res)
		},
		Request:  schema[Req](),
		Response: schema[Res](),
	}
}

// Raw makes an endpoint of a plain handler.
func Raw(h Handler) Endpoint { return Endpoint{Handle: h} }

// Unwrapped accepts the bare object or an HTTP-like {body: {...}}.
func Unwrapped(e Endpoint) Endpoint {
	inner := e.Handle
	e.Handle = func(ctx context.Context, call *Call) (json.RawMessage, error) {
		c := *call
		c.Data = unwrapBody(call.Data)
		return inner(ctx, &c)
	}
	return e
}

func unwrapBody(data json.RawMessage) json.RawMessage {
	var w struct {
		Body json.RawMessage `json:"body"`
	}
	if json.Unmarshal(data, &w) != nil {
		return data
	}
	if b := bytes.TrimSpace(w.Body); len(b) > 0 && b[0] == '{' {
		return w.Body
	}
	return data
}

// Decode reads a payload into v and validates it. Null and absent count as {}.
func Decode(data json.RawMessage, v any) error {
	if b := bytes.TrimSpace(data); len(b) == 0 || bytes.Equal(b, []byte("null")) {
		data = json.RawMessage("{}")
	}
	if err := json.Unmarshal(data, v); err != nil {
		var c Coded
		if errors.As(err, &c) {
			return err // a member that reads itself has said what is wrong
		}
		var t *json.UnmarshalTypeError
		if errors.As(err, &t) {
			field := t.Field
			if field == "" {
				field = "payload"
			}
			return &InvalidError{Field: field, Allowed: allowed(t), Err: err}
		}
		return &InvalidError{Field: "payload", Allowed: "a JSON object", Err: err}
	}
	if val, ok := v.(Validator); ok {
		return val.Validate()
	}
	return nil
}

func allowed(t *json.UnmarshalTypeError) string {
	switch k := t.Type.Kind().String(); {
	case strings.HasPrefix(k, "int"), strings.HasPrefix(k, "uint"), strings.HasPrefix(k, "float"):
		return "a number"
	case k == "struct", k == "map":
		return "an object"
	case k == "slice", k == "array":
		return "an array"
	case k == "bool":
		return "true or false"
	default:
		return "a " + k
	}
}

// Encode is v as a result; a nil pointer, map or RawMessage is "no value" only
// if v is an untyped nil or an empty RawMessage.
func Encode(v any) (json.RawMessage, error) {
	switch r := v.(type) {
	case nil:
		return nil, nil
	case json.RawMessage:
		if len(r) == 0 {
			return nil, nil
		}
		return r, nil
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("bus: encode result: %w", err)
	}
	return bytes.TrimRight(buf.Bytes(), "\n"), nil
}

// None is the result type of functions that return no value.
type None struct{}

// MarshalJSON gives null.
func (None) MarshalJSON() ([]byte, error) { return []byte("null"), nil }

func schema[T any]() json.RawMessage {
	s, err := jsonschema.For[T](&jsonschema.ForOptions{IgnoreInvalidTypes: true, TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[json.RawMessage](): {Description: "any JSON value"}, // by default an array of bytes
	}})
	if err != nil {
		return nil
	}
	b, err := json.Marshal(s)
	if err != nil {
		return nil
	}
	return b
}

// InvalidError is bad input. Its text names the field and what is allowed.
type InvalidError struct {
	Field   string
	Allowed string
	Err     error
}

// Invalid is an InvalidError without a cause.
func Invalid(field, allowed string) *InvalidError {
	return &InvalidError{Field: field, Allowed: allowed}
}

// Error is the text of the error.
func (e *InvalidError) Error() string {
	return fmt.Sprintf("invalid %s: must be %s", e.Field, e.Allowed)
}

// Unwrap is the cause.
func (e *InvalidError) Unwrap() error { return e.Err }

// ErrorCode is invalid_payload.
func (e *InvalidError) ErrorCode() string { return "invalid_payload" }

// MissingError is a required field that is absent or empty.
type MissingError struct{ Field string }

// Missing is a MissingError.
func Missing(field string) *MissingError { return &MissingError{Field: field} }

// Error is the text every handler gives for a missing argument.
func (e *MissingError) Error() string { return "missing required field: " + e.Field }

// ErrorCode is invalid_payload.
func (e *MissingError) ErrorCode() string { return "invalid_payload" }
