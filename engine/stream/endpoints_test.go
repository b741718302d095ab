package stream_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/commit"
	"github.com/iii-aws/harness/engine/embedded"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/engine/stream"
)

func newDB(t testing.TB) *embedded.DB {
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
	return db
}

func call(t testing.TB, e map[string]bus.Endpoint, function, data string) (string, error) {
	t.Helper()
	out, err := e[function].Handle(t.Context(), &bus.Call{FunctionID: function, Data: json.RawMessage(data), Principal: bus.Principal{ID: "p"}})
	return string(out), err
}

type exchange struct {
	Function string          `json:"function_id"`
	ID       string          `json:"invocation_id"`
	Data     json.RawMessage `json:"data"`
	Result   json.RawMessage `json:"result"`
	Error    *bus.Error      `json:"error"`
}

// TestRecordedAnswers replays what the iii engine answered, up to where another worker takes the stream over.
func TestRecordedAnswers(t *testing.T) {
	t.Parallel()
	file, err := os.Open("../protocol/testdata/frames/18-stream.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	e := stream.Endpoints(newDB(t).Streams(), nil, nil)
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
		if !ok || asked.Function == stream.FunctionListAll {
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
	if compared < 15 {
		t.Errorf("only %d answers were compared", compared)
	}
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
	e := stream.Endpoints(newDB(t).Streams(), nil, nil)
	for _, tc := range []struct{ name, function, data, want, code string }{
		{name: "create", function: "stream::set", data: `{"stream_name":"s","group_id":"g","item_id":"i","data":{"n":1},"expect":{"absent":true}}`, want: `{"old_value":null,"new_value":{"n":1}}`},
		{name: "create again", function: "stream::set", data: `{"stream_name":"s","group_id":"g","item_id":"i","data":2,"expect":{"absent":true}}`, code: "CONFLICT"},
		{name: "update other version", function: "stream::update", data: `{"stream_name":"s","group_id":"g","item_id":"i","ops":[],"expect":{"version":9}}`, code: "CONFLICT"},
		{name: "update", function: "stream::update", data: `{"stream_name":"s","group_id":"g","item_id":"i","ops":[{"type":"increment","path":"n","by":1}],"expect":{"version":1}}`, want: `{"old_value":{"n":1},"new_value":{"n":2}}`},
		{name: "bad op", function: "stream::update", data: `{"stream_name":"s","group_id":"g","item_id":"i","ops":[{"type":"nope"}]}`, code: "deserialization_error"},
		{name: "bad expect", function: "stream::delete", data: `{"stream_name":"s","group_id":"g","item_id":"i","expect":[]}`, code: "deserialization_error"},
		{name: "null item", function: "stream::set", data: `{"stream_name":"s","group_id":"g","item_id":"nul","data":null}`, want: `{"old_value":null,"new_value":null}`},
		{name: "stored null", function: "stream::get", data: `{"stream_name":"s","group_id":"g","item_id":"nul"}`, want: `null`},
		{name: "list", function: "stream::list", data: `{"stream_name":"s","group_id":"g"}`, want: `[{"n":2},null]`},
		{name: "all", function: "stream::list_all", data: `{}`, want: `{"stream":[{"id":"s","groups":["g"]}],"count":1}`},
		{name: "empty group", function: "stream::list", data: `{"stream_name":"s","group_id":""}`, code: "STREAM_GET_GROUP_ERROR"},
		{name: "empty stream", function: "stream::list_groups", data: `{"stream_name":""}`, code: "STREAM_LIST_GROUPS_ERROR"},
		{name: "empty item", function: "stream::get", data: `{"stream_name":"s","group_id":"g","item_id":""}`, code: "STREAM_GET_ERROR"},
		{name: "set of an empty item", function: "stream::set", data: `{"stream_name":"s","group_id":"g","item_id":"","data":1}`, code: "STREAM_SET_ERROR"},
		{name: "delete of an empty item", function: "stream::delete", data: `{"stream_name":"s","group_id":"g","item_id":""}`, code: "STREAM_DELETE_ERROR"},
		{name: "update of an empty item", function: "stream::update", data: `{"stream_name":"s","group_id":"g","item_id":"","ops":[]}`, code: "STREAM_UPDATE_ERROR"},
		{name: "send to an empty stream", function: "stream::send", data: `{"stream_name":"","group_id":"g","type":"t","data":1}`, code: "STREAM_SEND_ERROR"},
	} {
		// In order, on one store.
		t.Run(tc.name, func(t *testing.T) {
			got, err := call(t, e, tc.function, tc.data)
			if tc.code != "" {
				if bus.Code(err) != tc.code || err == nil {
					t.Errorf("got %v, want code %s", err, tc.code)
				}
				return
			}
			if err != nil || got != tc.want {
				t.Errorf("got %s, %v\nwant %s", got, err, tc.want)
			}
		})
	}
}

func TestSendFiresOnly(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	db.SetTriggered(nil, func(string, string) bool { return true })
	e := stream.Endpoints(db.Streams(), nil, nil)
	if got, err := call(t, e, "stream::send", `{"stream_name":"s","group_id":"g","type":"typing","data":{"t":1},"id":"i"}`); err != nil || got != "null" {
		t.Fatalf("got %s, %v, want null", got, err)
	}
	row, err := db.Feed(embedded.FeedStream).Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := *row.Event
	if got.Kind != stream.Ephemeral || string(got.Data) != `{"type":"typing","data":{"t":1}}` || got.Key != (stream.Key{Stream: "s", Group: "g", Item: "i"}) || got.Origin.Principal.ID != "p" {
		t.Errorf("got %+v", got)
	}
	if got, err := call(t, e, "stream::list", `{"stream_name":"s","group_id":"g"}`); err != nil || got != "[]" {
		t.Errorf("got %s, %v: nothing may be stored", got, err)
	}
}

func TestOverride(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	var asked []string
	refused := &bus.Error{Code: "NO", Message: "no"}
	e := stream.Endpoints(db.Streams(), func(_ context.Context, id string, data json.RawMessage) (json.RawMessage, bool, error) {
		asked = append(asked, id+" "+string(data))
		switch id {
		case "stream::get(s)":
			return json.RawMessage(`"mine"`), true, nil
		case "stream::delete(s)":
			return nil, true, nil
		case "stream::list(s)":
			return nil, true, refused
		}
		return nil, false, nil
	}, nil)
	for _, tc := range []struct {
		function, data, want string
		err                  error
	}{
		{"stream::set", `{"data":{"b":1,"a":2},"item_id":"i","group_id":"g","stream_name":"s","_caller_worker_id":"w"}`, `{"old_value":null,"new_value":{"b":1,"a":2}}`, nil},
		{"stream::get", `{"stream_name":"s","group_id":"g","item_id":"i"}`, `"mine"`, nil},
		{"stream::get", `{"stream_name":"other","group_id":"g","item_id":"i"}`, ``, nil},
		{"stream::delete", `{"stream_name":"s","group_id":"g","item_id":"i"}`, ``, nil},
		{"stream::list", `{"stream_name":"s","group_id":"g"}`, ``, refused},
		{"stream::list_groups", `{"stream_name":"s"}`, `["g"]`, nil},
		{"stream::update", `{"stream_name":"s","group_id":"g","item_id":"i","ops":[{"type":"remove","path":"b"}]}`, `{"old_value":{"b":1,"a":2},"new_value":{"a":2}}`, nil},
		{"stream::list_all", `{}`, `{"stream":[{"id":"s","groups":["g"]}],"count":1}`, nil},
	} {
		got, err := call(t, e, tc.function, tc.data)
		if got != tc.want || !errors.Is(err, tc.err) {
			t.Errorf("%s: got %s, %v, want %s, %v", tc.function, got, err, tc.want, tc.err)
		}
	}
	want := []string{
		`stream::set(s) {"stream_name":"s","group_id":"g","item_id":"i","data":{"b":1,"a":2}}`,
		`stream::get(s) {"stream_name":"s","group_id":"g","item_id":"i"}`,
		`stream::get(other) {"stream_name":"other","group_id":"g","item_id":"i"}`,
		`stream::delete(s) {"stream_name":"s","group_id":"g","item_id":"i"}`,
		`stream::list(s) {"stream_name":"s","group_id":"g"}`,
		`stream::list_groups(s) {"stream_name":"s"}`,
		`stream::update(s) {"stream_name":"s","group_id":"g","item_id":"i","ops":[{"type":"remove","path":"b"}]}`,
	}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("overrides asked for (-want +got):\n%s", diff)
	}
}

// faulty fails whatever is asked of it.
type faulty struct{ stream.Store }

var errDisk = errors.New("disk")

func (faulty) Streams(context.Context) ([]string, error)        { return []string{"s"}, nil }
func (faulty) Groups(context.Context, string) ([]string, error) { return nil, errDisk }
func (faulty) Submit(context.Context, stream.Write, ...commit.Ticket) *commit.Promise[stream.Result] {
	return commit.Resolved(stream.Result{}, error(&state.TooLargeError{}))
}

type silent struct{ faulty }

func (silent) Streams(context.Context) ([]string, error) { return nil, errDisk }

func TestErrorCodes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		store                stream.Store
		function, data, code string
	}{
		{faulty{}, "stream::list_all", `{}`, "STREAM_LIST_ALL_ERROR"},
		{silent{}, "stream::list_all", `{}`, "STREAM_LIST_ALL_ERROR"},
		{faulty{}, "stream::set", `{"stream_name":"s","group_id":"g","item_id":"i","data":1}`, "VALUE_TOO_LARGE"},
	} {
		if _, err := call(t, stream.Endpoints(tc.store, nil, nil), tc.function, tc.data); bus.Code(err) != tc.code {
			t.Errorf("%s: got %v, want code %s", tc.function, err, tc.code)
		}
	}
}

// closed lets nobody at the group s2.
type closed struct{}

func (closed) Read(_ context.Context, _ *bus.Call, _, group string) (bool, error) {
	if group == "bad" {
		return false, errors.New("disk")
	}
	return group != "s2", nil
}

func (closed) Write(_ context.Context, _ *bus.Call, _, group string) error {
	if group == "s2" {
		return &bus.Error{Code: "FORBIDDEN", Message: "no"}
	}
	return nil
}

func TestGuardIsAskedForEveryGroup(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	open, guarded := stream.Endpoints(db.Streams(), nil, nil), stream.Endpoints(db.Streams(), nil, closed{})
	for _, g := range []string{"s1", "s2"} {
		if _, err := call(t, open, "stream::set", `{"stream_name":"c","group_id":"`+g+`","item_id":"i","data":"`+g+`"}`); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct{ id, data, want, code string }{
		{"stream::get", `{"stream_name":"c","group_id":"s1","item_id":"i"}`, `"s1"`, ""},
		{"stream::get", `{"stream_name":"c","group_id":"s2","item_id":"i"}`, ``, ""},
		{"stream::get", `{"stream_name":"c","group_id":"bad","item_id":"i"}`, ``, "STREAM_GET_ERROR"},
		{"stream::list", `{"stream_name":"c","group_id":"s2"}`, `[]`, ""},
		{"stream::list_groups", `{"stream_name":"c"}`, `["s1"]`, ""},
		{"stream::list_all", `{}`, `{"stream":[{"id":"c","groups":["s1"]}],"count":1}`, ""},
		{"stream::set", `{"stream_name":"c","group_id":"s2","item_id":"i","data":1}`, ``, "FORBIDDEN"},
		{"stream::update", `{"stream_name":"c","group_id":"s2","item_id":"i","ops":[]}`, ``, "FORBIDDEN"},
		{"stream::delete", `{"stream_name":"c","group_id":"s2","item_id":"i"}`, ``, "FORBIDDEN"},
		{"stream::send", `{"stream_name":"c","group_id":"s2","type":"x","data":1}`, ``, "FORBIDDEN"},
	} {
		out, err := call(t, guarded, tc.id, tc.data)
		if (err == nil) != (tc.code == "") || (err != nil && bus.Code(err) != tc.code) || (err == nil && string(out) != tc.want) {
			t.Errorf("%s %s: %s, %v; want %s %s", tc.id, tc.data, out, err, tc.want, tc.code)
		}
	}
}
