package state_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/commit"
	"github.com/iii-aws/harness/engine/embedded"
	"github.com/iii-aws/harness/engine/state"
)

func newStore(t testing.TB) state.Store {
	t.Helper()
	db, err := embedded.Open(t.Context(), embedded.Options{Dir: t.TempDir(), NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db.State()
}

func call(t testing.TB, e map[string]bus.Endpoint, function, data string) (string, error) {
	t.Helper()
	out, err := e[function].Handle(t.Context(), &bus.Call{FunctionID: function, Data: json.RawMessage(data), Principal: bus.Principal{ID: "p"}, Traceparent: "tp", Baggage: "b"})
	return string(out), err
}

// exchange is one recorded call and its answer.
type exchange struct {
	Function string          `json:"function_id"`
	ID       string          `json:"invocation_id"`
	Data     json.RawMessage `json:"data"`
	Result   json.RawMessage `json:"result"`
	Error    *bus.Error      `json:"error"`
}

// TestRecordedAnswers replays what the iii engine answered.
func TestRecordedAnswers(t *testing.T) {
	t.Parallel()
	file, err := os.Open("../protocol/testdata/frames/17-state.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	e := state.Endpoints(newStore(t))
	type answer struct {
		exchange
		got string
		err error
	}
	answers := map[string]answer{}
	compared := 0
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var line struct {
			Dir   string
			Frame struct {
				exchange
				Type string
			}
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		if line.Frame.Type == "registerfunction" {
			break // from here on another worker serves the stream
		}
		if _, known := e[line.Frame.Function]; !known {
			continue
		}
		if line.Dir == "w>e" {
			got, err := call(t, e, line.Frame.Function, string(line.Frame.Data))
			answers[line.Frame.ID] = answer{line.Frame.exchange, got, err}
			continue
		}
		asked, ok := answers[line.Frame.ID]
		if !ok || differs(asked.exchange) {
			continue
		}
		compared++
		if want := line.Frame.Error; want != nil {
			if diff := cmp.Diff(want, bus.AsError(asked.err)); diff != "" {
				t.Errorf("%s %s (-want +got):\n%s", asked.Function, asked.Data, diff)
			}
			continue
		}
		if asked.err != nil {
			t.Errorf("%s %s: %v", asked.Function, asked.Data, asked.err)
			continue
		}
		if diff := cmp.Diff(loose(t, string(line.Frame.Result)), loose(t, asked.got)); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", asked.Function, asked.Data, diff)
		}
	}
	if compared < 30 {
		t.Errorf("only %d answers were compared", compared)
	}
}

// differs reports the calls whose answer is another one by intent: null counts as {}, and neither scopes nor keys are
// empty; what else is stored in the engine is not known.
func differs(x exchange) bool {
	return string(x.Data) == "null" || strings.Contains(string(x.Data), `"key":""`) || x.Function == state.FunctionListGroups
}

// loose is text decoded, without where the engine documents its errors.
func loose(t testing.TB, text string) any {
	t.Helper()
	if text == "" {
		return "no value"
	}
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if obj, ok := v.(map[string]any); ok {
		if list, ok := obj["errors"].([]any); ok {
			for _, e := range list {
				delete(e.(map[string]any), "doc_url")
			}
		}
	}
	return v
}

func TestEndpoints(t *testing.T) {
	t.Parallel()
	e := state.Endpoints(newStore(t))
	for _, tc := range []struct{ name, function, data, want, code, message string }{
		{name: "create", function: "state::set", data: `{"scope":"s","key":"k","value":{"z":1,"a":12345678901234567890123},"expect":{"absent":true}}`,
			want: `{"old_value":null,"new_value":{"z":1,"a":12345678901234567890123}}`},
		{name: "create again", function: "state::set", data: `{"scope":"s","key":"k","value":1,"expect":{"absent":true}}`, code: "CONFLICT", message: "state: conflict on s/k"},
		{name: "wrong version", function: "state::set", data: `{"scope":"s","key":"k","value":1,"expect":{"version":7}}`, code: "CONFLICT", message: "state: conflict on s/k"},
		{name: "get with version", function: "state::get", data: `{"scope":"s","key":"k","with_version":true}`, want: `{"value":{"z":1,"a":12345678901234567890123},"version":1}`},
		{name: "get nothing with version", function: "state::get", data: `{"scope":"s","key":"no","with_version":true}`},
		{name: "right version", function: "state::update", data: `{"scope":"s","key":"k","expect":{"version":1},"ops":[{"type":"increment","path":"z","by":1}]}`,
			want: `{"old_value":{"z":1,"a":12345678901234567890123},"new_value":{"z":2,"a":12345678901234567890123}}`},
		{name: "skipped op", function: "state::update", data: `{"scope":"s","key":"n","ops":[{"type":"increment","path":"prototype","by":1}]}`,
			want: `{"old_value":null,"new_value":{},"errors":[{"op_index":0,"code":"increment.path.proto_polluted","message":"Path segment 'prototype' is not allowed (prototype pollution)."}]}`},
		{name: "delete of another version", function: "state::delete", data: `{"scope":"s","key":"k","expect":{"version":1}}`, code: "CONFLICT", message: "state: conflict on s/k"},
		{name: "delete", function: "state::delete", data: `{"scope":"s","key":"k","expect":{"version":2}}`, want: `{"z":2,"a":12345678901234567890123}`},
		{name: "null value", function: "state::set", data: `{"scope":"s","key":"nul","value":null,"expect":null}`, want: `{"old_value":null,"new_value":null}`},
		{name: "stored null", function: "state::get", data: `{"scope":"s","key":"nul"}`, want: `null`},
		{name: "list", function: "state::list", data: `{"scope":"s"}`, want: `[{},null]`},
		{name: "list nothing", function: "state::list", data: `{"scope":"none"}`, want: `[]`},
		{name: "groups", function: "state::list_groups", data: `null`, want: `{"groups":["s"]}`},
		{name: "null payload names the field", function: "state::get", data: `null`, code: "deserialization_error",
			message: "Failed to deserialize input for state::get: missing field `scope`"},
		{name: "bad expect", function: "state::set", data: `{"scope":"s","key":"k","value":1,"expect":{}}`, code: "deserialization_error",
			message: "Failed to deserialize input for state::set: invalid `expect`, expected {absent: true} or {version: n} with n from 1 on"},
		{name: "both expects", function: "state::update", data: `{"scope":"s","key":"k","ops":[],"expect":{"absent":true,"version":1}}`, code: "deserialization_error",
			message: "Failed to deserialize input for state::update: invalid `expect`, expected {absent: true} or {version: n} with n from 1 on"},
		{name: "expect of another type", function: "state::delete", data: `{"scope":"s","key":"k","expect":{"version":"1"}}`, code: "deserialization_error",
			message: "Failed to deserialize input for state::delete: invalid type: string \"1\", expected i64"},
		{name: "empty key", function: "state::set", data: `{"scope":"s","key":"","value":1}`, code: "SET_ERROR", message: "state: invalid key: must be 1 to 1024 bytes of UTF-8 without NUL"},
		{name: "scope of the bus", function: "state::set", data: `{"scope":"engine:triggers","key":"k","value":1}`, code: "SET_ERROR", message: "Scopes that start with engine: belong to the bus."},
		{name: "read scope of the bus", function: "state::get", data: `{"scope":"engine:triggers","key":"k"}`, code: "GET_ERROR", message: "Scopes that start with engine: belong to the bus."},
		{name: "list scope of the bus", function: "state::list", data: `{"scope":"engine:triggers"}`, code: "LIST_ERROR", message: "Scopes that start with engine: belong to the bus."},
		{name: "delete in scope of the bus", function: "state::delete", data: `{"scope":"engine:x","key":"k"}`, code: "DELETE_ERROR", message: "Scopes that start with engine: belong to the bus."},
		{name: "update in scope of the bus", function: "state::update", data: `{"scope":"engine:x","key":"k","ops":[]}`, code: "UPDATE_ERROR", message: "Scopes that start with engine: belong to the bus."},
	} {
		// In order, on one store.
		t.Run(tc.name, func(t *testing.T) {
			got, err := call(t, e, tc.function, tc.data)
			if tc.code != "" {
				if diff := cmp.Diff(&bus.Error{Code: tc.code, Message: tc.message}, bus.AsError(err)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				return
			}
			if err != nil || got != tc.want {
				t.Errorf("got %s, %v\nwant %s", got, err, tc.want)
			}
		})
	}
}

// faulty fails as it is told.
type faulty struct {
	state.Store
	errs   []error // one per call, then none
	writes []state.Write
}

func (f *faulty) next() error {
	if len(f.errs) == 0 {
		return nil
	}
	err := f.errs[0]
	f.errs = f.errs[1:]
	return err
}

func (f *faulty) Submit(ctx context.Context, w []state.Write, after ...commit.Ticket) *state.Pending {
	f.writes = append(f.writes, w...)
	if err := f.next(); err != nil {
		return commit.Resolved[[]state.Change](nil, err)
	}
	return f.Store.Submit(ctx, w, after...)
}

func (f *faulty) Get(context.Context, state.Key, ...state.ReadOption) (state.Item, bool, error) {
	return state.Item{}, false, f.next()
}

func (f *faulty) List(context.Context, string, state.ListOptions) ([]state.Item, error) {
	return nil, f.next()
}

func (f *faulty) Groups(context.Context) ([]string, error) { return nil, f.next() }

func TestErrorCodes(t *testing.T) {
	t.Parallel()
	broken := errors.New("disk")
	conflict := &state.ConflictError{Key: state.Key{Scope: "s", Key: "k"}}
	for _, tc := range []struct {
		name, function, data string
		errs                 []error
		code                 string
		writes               int
	}{
		{"set", "state::set", `{"scope":"s","key":"k","value":1}`, []error{broken}, "SET_ERROR", 1},
		{"too large", "state::set", `{"scope":"s","key":"k","value":1}`, []error{&state.TooLargeError{}}, "VALUE_TOO_LARGE", 1},
		{"get", "state::get", `{"scope":"s","key":"k"}`, []error{broken}, "GET_ERROR", 0},
		{"delete", "state::delete", `{"scope":"s","key":"k"}`, []error{broken}, "DELETE_ERROR", 1},
		{"update", "state::update", `{"scope":"s","key":"k","ops":[]}`, []error{broken}, "UPDATE_ERROR", 1},
		{"list", "state::list", `{"scope":"s"}`, []error{broken}, "LIST_ERROR", 0},
		{"list_groups", "state::list_groups", `{}`, []error{broken}, "LIST_GROUPS_ERROR", 0},
		{"conflict that passes", "state::update", `{"scope":"s","key":"k","ops":[]}`, []error{conflict, conflict}, "", 3},
		{"conflict that stays", "state::update", `{"scope":"s","key":"k","ops":[]}`, []error{conflict, conflict, conflict, conflict, conflict, conflict}, "CONFLICT", 5},
		{"conflict of a condition", "state::set", `{"scope":"s","key":"k","value":1,"expect":{"absent":true}}`, []error{conflict}, "CONFLICT", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			store := &faulty{Store: newStore(t), errs: tc.errs}
			_, err := call(t, state.Endpoints(store), tc.function, tc.data)
			if tc.code == "" && err != nil || tc.code != "" && bus.Code(err) != tc.code {
				t.Errorf("got %v, want code %q", err, tc.code)
			}
			if len(store.writes) != tc.writes {
				t.Errorf("%d writes, want %d", len(store.writes), tc.writes)
			}
			want := state.Origin{Principal: bus.Principal{ID: "p"}, Traceparent: "tp", Baggage: "b"}
			for _, w := range store.writes {
				if diff := cmp.Diff(want, w.Origin); diff != "" {
					t.Errorf("origin (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestGroupsOfTheBusAreHidden(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	for _, scope := range []string{"a", "engine:registrations", "engine", "z"} {
		if _, err := state.Do(t.Context(), store, state.Set(scope, "k", json.RawMessage("1"))); err != nil {
			t.Fatal(err)
		}
	}
	got, err := call(t, state.Endpoints(store), "state::list_groups", `{}`)
	if err != nil || got != `{"groups":["a","engine","z"]}` {
		t.Errorf("got %s, %v", got, err)
	}
}
