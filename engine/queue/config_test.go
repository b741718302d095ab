package queue_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/iii-aws/harness/engine/queue"
)

func TestConfigValidate(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		config queue.Config
		want   string // field, "" if valid
	}{
		{"defaults", queue.Config{Name: "a-B_9.x:y"}, ""},
		{"all", queue.Config{Name: "q", Type: queue.FIFO, GroupField: "g", Backoff: queue.NoBackoff, Concurrency: queue.Paused, MaxReceives: 1000, Visibility: queue.MaxVisibility}, ""},
		{"no name", queue.Config{}, "name"},
		{"slash", queue.Config{Name: "a/b"}, "name"},
		{"long name", queue.Config{Name: strings.Repeat("n", 81)}, "name"},
		{"type", queue.Config{Name: "q", Type: "lifo"}, "type"},
		{"few receives", queue.Config{Name: "q", MaxReceives: -1}, "max_receives"},
		{"many receives", queue.Config{Name: "q", MaxReceives: 1001}, "max_receives"},
		{"backoff", queue.Config{Name: "q", Backoff: -2}, "backoff"},
		{"concurrency", queue.Config{Name: "q", Concurrency: -2}, "concurrency"},
		{"short visibility", queue.Config{Name: "q", Visibility: time.Second - 1}, "visibility"},
		{"long visibility", queue.Config{Name: "q", Visibility: queue.MaxVisibility + 1}, "visibility"},
		{"timeout", queue.Config{Name: "q", Timeout: -1}, "timeout"},
		{"group of standard", queue.Config{Name: "q", GroupField: "g"}, "group_field"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			err := test.config.WithDefaults().Validate()
			var invalid *queue.InvalidError
			switch {
			case test.want == "" && err != nil:
				t.Errorf("%v, want no error", err)
			case test.want != "" && (!errors.As(err, &invalid) || invalid.Field != test.want || invalid.Allowed == ""):
				t.Errorf("%v, want an InvalidError of %s", err, test.want)
			}
		})
	}
}

func TestBackoffAfter(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		backoff time.Duration
		n       int
		want    time.Duration
	}{
		{time.Second, 1, time.Second},
		{time.Second, 2, 2 * time.Second},
		{time.Second, 5, 16 * time.Second},
		{time.Second, 17, 65536 * time.Second}, // No cap.
		{queue.NoBackoff, 3, 0},
		{time.Hour, 1000, math.MaxInt64 / 2},
	} {
		if got := (queue.Config{Backoff: test.backoff}).BackoffAfter(test.n); got != test.want {
			t.Errorf("%v after receive %d: %v, want %v", test.backoff, test.n, got, test.want)
		}
	}
}

func TestGroup(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 129)
	fifo := queue.Config{Name: "q", Type: queue.FIFO, GroupField: "g"}
	for _, test := range []struct {
		name   string
		config queue.Config
		group  string
		data   string
		want   string
		field  string
	}{
		{name: "standard", config: queue.Config{Type: queue.Standard}, group: "g", data: `{}`},
		{name: "own", config: fifo, group: "own", data: `{"g":"other"}`, want: "own"},
		{name: "text", config: fifo, data: `{"g":"a\u0062"}`, want: "ab"},
		{name: "number", config: fifo, data: `{"g": 1.50}`, want: "1.50"},
		{name: "object", config: fifo, data: `{"g": {"b": [1, 2]}}`, want: `{"b":[1,2]}`},
		{name: "last of two", config: fifo, data: `{"g":"a","g":"b"}`, want: "b"},
		{name: "long", config: fifo, group: long},
		{name: "absent", config: fifo, data: `{}`, field: "data.g"},
		{name: "null", config: fifo, data: `{"g":null}`, field: "data.g"},
		{name: "empty", config: fifo, data: `{"g":""}`, field: "data.g"},
		{name: "no object", config: fifo, data: `7`, field: "data"},
		{name: "no field", config: queue.Config{Type: queue.FIFO}, data: `{}`, field: "group"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := queue.Group(test.config, queue.Message{Group: test.group, Data: json.RawMessage(test.data)})
			var invalid *queue.InvalidError
			switch {
			case test.field != "":
				if !errors.As(err, &invalid) || invalid.Field != test.field {
					t.Errorf("%q, %v, want an InvalidError of %s", got, err, test.field)
				}
			case test.name == "long":
				if err != nil || len(got) != 64 {
					t.Errorf("%q, %v, want a hash", got, err)
				}
			case err != nil || got != test.want:
				t.Errorf("%q, %v, want %q", got, err, test.want)
			}
		})
	}
}

func TestDedupKey(t *testing.T) {
	t.Parallel()
	plain, content := queue.Config{}, queue.Config{ContentDedup: true}
	m := queue.Message{FunctionID: "f", Data: json.RawMessage(`{"a":1}`)}
	key := queue.DedupKey(content, m)
	if key == "" || len(key) > 128 {
		t.Errorf("key %q, want 1 to 128 bytes", key)
	}
	if got := queue.DedupKey(plain, m); got != "" {
		t.Errorf("without ContentDedup: %q, want none", got)
	}
	for name, other := range map[string]queue.Message{
		"other function": {FunctionID: "g", Data: m.Data},
		"other data":     {FunctionID: "f", Data: json.RawMessage(`{"a":2}`)},
		"other spelling": {FunctionID: "f", Data: json.RawMessage(`{"a": 1}`)},
		"moved border":   {FunctionID: "f{", Data: json.RawMessage(`"a":1}`)},
		"own id":         {FunctionID: "f", Data: m.Data, DedupID: "d"},
	} {
		if queue.DedupKey(content, other) == key {
			t.Errorf("%s: the same key", name)
		}
	}
	same := m
	same.Group, same.ReceiptID, same.Traceparent = "g", "r", "t"
	if queue.DedupKey(content, same) != key {
		t.Error("another key for the same function and data")
	}
	if got := queue.DedupKey(plain, queue.Message{DedupID: "d"}); got != "d" {
		t.Errorf("own id: %q, want d", got)
	}
	long := strings.Repeat("x", 300)
	if got := queue.DedupKey(plain, queue.Message{DedupID: long}); len(got) != 64 {
		t.Errorf("long id: %q, want a hash", got)
	}
}
