package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type request struct {
	Name  string         `json:"name"`
	Count int            `json:"count"`
	List  []string       `json:"list"`
	On    bool           `json:"on"`
	Map   map[string]int `json:"map"`
	In    struct {
		Deep float64 `json:"deep"`
	} `json:"in"`
}

func (r request) Validate() error {
	if r.Name == "" {
		return Missing("name")
	}
	return nil
}

func TestTyped(t *testing.T) {
	t.Parallel()
	e := Typed(func(_ context.Context, c *Call, r request) (map[string]any, error) {
		return map[string]any{"hello": r.Name + "<", "by": c.Principal.ID}, nil
	})
	got, err := e.Handle(t.Context(), &Call{Data: json.RawMessage(`{"name":"a","unknown":1}`), Principal: Principal{ID: "p"}})
	if err != nil || string(got) != `{"by":"p","hello":"a<"}` {
		t.Errorf("got %s, %v", got, err)
	}
	if !json.Valid(e.Request) || !strings.Contains(string(e.Request), `"count"`) {
		t.Errorf("request schema = %s", e.Request)
	}
	failing := Typed(func(context.Context, *Call, request) (None, error) { return None{}, errors.New("no") })
	if _, err := failing.Handle(t.Context(), &Call{Data: json.RawMessage(`{"name":"a"}`)}); err == nil {
		t.Error("the error was lost")
	}
}

func TestDecodeNamesTheField(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, data, want string }{
		{"missing", `{}`, "missing required field: name"},
		{"null is an empty object", `null`, "missing required field: name"},
		{"absent is an empty object", ``, "missing required field: name"},
		{"number", `{"count":"x"}`, "invalid count: must be a number"},
		{"list", `{"list":1}`, "invalid list: must be an array"},
		{"bool", `{"on":1}`, "invalid on: must be true or false"},
		{"object", `{"map":1}`, "invalid map: must be an object"},
		{"text", `{"name":1}`, "invalid name: must be a string"},
		{"nested", `{"in":{"deep":"x"}}`, "invalid in.deep: must be a number"},
		{"no object", `[]`, "invalid payload: must be an object"},
		{"no JSON", `{`, "invalid payload: must be a JSON object"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var r request
			err := Decode(json.RawMessage(tt.data), &r)
			if err == nil || err.Error() != tt.want || Code(err) != "invalid_payload" {
				t.Errorf("error = %v (%s), want %s", err, Code(err), tt.want)
			}
		})
	}
}

func TestUnwrapped(t *testing.T) {
	t.Parallel()
	var seen string
	e := Unwrapped(Raw(func(_ context.Context, c *Call) (json.RawMessage, error) {
		seen = string(c.Data)
		return nil, nil
	}))
	for data, want := range map[string]string{
		`{"a":1}`:             `{"a":1}`,
		`{"body":{"a":1}}`:    `{"a":1}`,
		`{"body":"text"}`:     `{"body":"text"}`,
		`[1]`:                 `[1]`,
		`{"body": {"b":{}} }`: `{"b":{}}`,
	} {
		if _, err := e.Handle(t.Context(), &Call{Data: json.RawMessage(data)}); err != nil || seen != want {
			t.Errorf("%s became %s, %v; want %s", data, seen, err, want)
		}
	}
}

func TestEncode(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		in   any
		want string
	}{
		{nil, ""}, {json.RawMessage(nil), ""}, {json.RawMessage(`{"b":1,"a":2}`), `{"b":1,"a":2}`}, {None{}, "null"}, {"<&>", `"<&>"`},
	} {
		got, err := Encode(tt.in)
		if err != nil || string(got) != tt.want {
			t.Errorf("Encode(%v) = %q, %v; want %q", tt.in, got, err, tt.want)
		}
	}
	if _, err := Encode(func() {}); err == nil {
		t.Error("a func was encoded")
	}
}

type coded struct{}

func (coded) Error() string     { return "text" }
func (coded) ErrorCode() string { return "mine" }
func (coded) Retryable() bool   { return true }

func TestErrors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		err  error
		want *Error
	}{
		{"nil", nil, nil},
		{"bus error", fmt.Errorf("x: %w", &Error{Code: "c", Message: "m"}), &Error{Code: "c", Message: "m"}},
		{"coded", fmt.Errorf("x: %w", coded{}), &Error{Code: "mine", Message: "x: text"}},
		{"deadline", context.DeadlineExceeded, &Error{Code: "timeout", Message: "context deadline exceeded"}},
		{"plain", errors.New("p"), &Error{Code: "invocation_failed", Message: "p"}},
	} {
		if diff := cmp.Diff(tt.want, AsError(tt.err)); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
	if !Retryable(fmt.Errorf("x: %w", coded{})) || Retryable(errors.New("p")) {
		t.Error("Retryable is wrong")
	}
	if e := Invalid("f", "g"); e.Unwrap() != nil {
		t.Error("Invalid has a cause")
	}
}

func TestPrincipal(t *testing.T) {
	t.Parallel()
	if !System().SeesAll() || !(Principal{Role: RoleOperator}).SeesAll() || (Principal{Role: RoleClient}).SeesAll() {
		t.Error("SeesAll is wrong")
	}
	if (Principal{ID: "a"}).Actor() != "a" || (Principal{ID: "a", OnBehalfOf: "b"}).Actor() != "b" {
		t.Error("Actor is wrong")
	}
	if CallFrom(t.Context()) != nil {
		t.Error("a call out of nowhere")
	}
	c := &Call{}
	if CallFrom(WithCall(t.Context(), c)) != c {
		t.Error("the call was lost")
	}
}

type picky struct{}

func (*picky) UnmarshalJSON([]byte) error { return Invalid("color", "red or blue") }

func TestMembersThatReadThemselvesAreHeard(t *testing.T) {
	t.Parallel()
	var v struct {
		P picky `json:"p"`
	}
	if err := Decode(json.RawMessage(`{"p":1}`), &v); err == nil || err.Error() != "invalid color: must be red or blue" {
		t.Errorf("error = %v", err)
	}
}
