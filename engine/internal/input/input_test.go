package input

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
)

type request struct {
	Scope  string          `json:"scope"`
	Key    string          `json:"key"`
	Value  json.RawMessage `json:"value" alias:"data"`
	Size   *uint           `json:"size,omitempty"`
	Limit  int             `json:"limit,omitempty"`
	Deep   bool            `json:"deep,omitempty"`
	Names  []string        `json:"names,omitempty"`
	Expect *nested         `json:"expect,omitempty"`
}

type nested struct {
	Version int64 `json:"version"`
}

func TestDecode(t *testing.T) {
	t.Parallel()
	size := uint(7)
	for _, tc := range []struct {
		name, data string
		want       request
		err        string
	}{
		{name: "all", data: `{"scope":"s","key":"","value":null,"size":7,"limit":-1,"deep":true,"names":["a"],"expect":{"version":3},"more":1}`,
			want: request{Key: "", Scope: "s", Value: json.RawMessage("null"), Size: &size, Limit: -1, Deep: true, Names: []string{"a"}, Expect: &nested{Version: 3}}},
		{name: "alias", data: `{"scope":"s","key":"k","data":[1]}`, want: request{Scope: "s", Key: "k", Value: json.RawMessage("[1]")}},
		{name: "optional null", data: `{"scope":"s","key":"k","data":1,"size":null,"limit":null,"names":null}`, want: request{Scope: "s", Key: "k", Value: json.RawMessage("1")}},
		{name: "null", data: `null`, err: "missing field `scope`"},
		{name: "nothing", data: ``, err: "missing field `scope`"},
		{name: "first missing", data: `{}`, err: "missing field `scope`"},
		{name: "second missing", data: `{"scope":"s"}`, err: "missing field `key`"},
		{name: "third missing", data: `{"scope":"s","key":"k"}`, err: "missing field `value`"},
		{name: "integer for string", data: `{"scope":1,"key":"x"}`, err: "invalid type: integer `1`, expected a string"},
		{name: "null for string", data: `{"scope":null}`, err: "invalid type: null, expected a string"},
		{name: "array for the request", data: `[1]`, err: "invalid type: sequence, expected an object"},
		{name: "string for the request", data: `"x"`, err: `invalid type: string "x", expected an object`},
		{name: "string for size", data: `{"scope":"s","key":"k","value":1,"size":"x"}`, err: `invalid type: string "x", expected usize`},
		{name: "negative size", data: `{"scope":"s","key":"k","value":1,"size":-1}`, err: "invalid value: integer `-1`, expected usize"},
		{name: "float limit", data: `{"scope":"s","key":"k","value":1,"limit":1.5}`, err: "invalid type: floating point `1.5`, expected i64"},
		{name: "object for bool", data: `{"scope":"s","key":"k","value":1,"deep":{}}`, err: "invalid type: map, expected a boolean"},
		{name: "bool for list", data: `{"scope":"s","key":"k","value":1,"names":true}`, err: "invalid type: boolean `true`, expected a sequence"},
		{name: "number in list", data: `{"scope":"s","key":"k","value":1,"names":["a",2]}`, err: "invalid type: integer `2`, expected a string"},
		{name: "list for object", data: `{"scope":"s","key":"k","value":1,"expect":[]}`, err: "invalid type: sequence, expected an object"},
		{name: "long string", data: `{"scope":"s","key":"k","value":1,"limit":"` + strings.Repeat("x", 100) + `"}`,
			err: `invalid type: string "` + strings.Repeat("x", 63) + "…, expected i64"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var got request
			err := Decode("f::g", json.RawMessage(tc.data), &got)
			if tc.err != "" {
				want := "Failed to deserialize input for f::g: " + tc.err
				if e := bus.AsError(err); e == nil || e.Code != "deserialization_error" || e.Message != want {
					t.Errorf("got %v, want %s", err, want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestEndpoint(t *testing.T) {
	t.Parallel()
	e := Endpoint("f::g", func(_ context.Context, call *bus.Call, req nested) (nested, error) {
		if req.Version == 0 {
			return nested{}, &bus.Error{Code: "ZERO", Message: call.FunctionID}
		}
		return nested{Version: req.Version + 1}, nil
	})
	got, err := e.Handle(context.Background(), &bus.Call{Data: json.RawMessage(`{"version":1}`)})
	if err != nil || string(got) != `{"version":2}` {
		t.Errorf("got %s, %v", got, err)
	}
	if _, err := e.Handle(context.Background(), &bus.Call{Data: json.RawMessage(`{}`)}); bus.Code(err) != "deserialization_error" {
		t.Errorf("got %v, want deserialization_error", err)
	}
	if _, err := e.Handle(context.Background(), &bus.Call{FunctionID: "f::g", Data: json.RawMessage(`{"version":0}`)}); bus.Code(err) != "ZERO" {
		t.Errorf("got %v, want ZERO", err)
	}
	if !strings.Contains(string(e.Request), `"version"`) || !strings.Contains(string(e.Response), `"version"`) {
		t.Errorf("schemas %s and %s do not name the member", e.Request, e.Response)
	}
}

func TestSchemaOfRawIsAnything(t *testing.T) {
	t.Parallel()
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
	}
	if err := json.Unmarshal(Schema(reflect.TypeFor[request]()), &s); err != nil {
		t.Fatal(err)
	}
	if string(s.Properties["value"]) != "true" || !cmp.Equal(s.Required, []string{"scope", "key", "value"}) {
		t.Errorf("value is %s, required %v", s.Properties["value"], s.Required)
	}
	if got := Schema(reflect.TypeFor[func()]()); got != nil {
		t.Errorf("got %s for a function, want none", got)
	}
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{"": "nothing", " null": "null", "1e3": "floating point `1e3`", "-4": "integer `-4`", "false": "boolean `false`"} {
		if got := Describe(json.RawMessage(value)); got != want {
			t.Errorf("Describe(%q) = %q, want %q", value, got, want)
		}
	}
}
