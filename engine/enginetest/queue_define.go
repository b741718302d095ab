package enginetest

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/queue"
)

func testDefine(s *queueSuite) {
	if _, ok := s.q.Config(queue.DefaultQueue); !ok {
		s.Error("the queue named default does not exist")
	}
	if _, ok := s.q.Config("mail"); ok {
		s.Error("a queue exists that nobody defined")
	}
	c := queue.Config{Name: "mail", Type: queue.FIFO, GroupField: "to"}
	for i, step := range []struct {
		change func()
		want   bool
	}{
		{func() {}, true},
		{func() {}, false},
		{func() { c.MaxReceives = 7 }, true},
		{func() { c.MaxReceives = 7; c.Backoff = queue.DefaultBackoff }, false},
	} {
		step.change()
		changed, err := s.q.Define(s.ctx(), c)
		s.ok(err)
		if changed != step.want {
			s.Errorf("step %d: changed = %v, want %v", i, changed, step.want)
		}
	}
	got, _ := s.q.Config("mail")
	want := queue.Config{
		Name: "mail", Type: queue.FIFO, GroupField: "to", MaxReceives: 7, Backoff: time.Second,
		Concurrency: 10, Visibility: 30 * time.Second, Timeout: 30 * time.Minute,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.Errorf("config (-want +got):\n%s", diff)
	}
	s.define(queue.Config{Name: "a"})
	names := s.q.Names()
	if !slices.IsSorted(names) || !slices.Contains(names, "a") || !slices.Contains(names, "mail") || !slices.Contains(names, "default") {
		s.Errorf("Names() = %v, want them sorted, with a, default and mail", names)
	}
}

func testDefineInvalid(s *queueSuite) {
	for _, test := range []struct {
		field  string
		config queue.Config
	}{
		{"name", queue.Config{}},
		{"name", queue.Config{Name: "a b"}},
		{"name", queue.Config{Name: strings.Repeat("n", 81)}},
		{"type", queue.Config{Name: "q", Type: "lifo"}},
		{"max_receives", queue.Config{Name: "q", MaxReceives: -1}},
		{"backoff", queue.Config{Name: "q", Backoff: -time.Second}},
		{"concurrency", queue.Config{Name: "q", Concurrency: -5}},
		{"visibility", queue.Config{Name: "q", Visibility: time.Millisecond}},
		{"visibility", queue.Config{Name: "q", Visibility: 13 * time.Hour}},
		{"timeout", queue.Config{Name: "q", Timeout: -1}},
		{"group_field", queue.Config{Name: "q", GroupField: "f"}},
	} {
		_, err := s.q.Define(s.ctx(), test.config)
		var invalid *queue.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != test.field || invalid.Allowed == "" {
			s.Errorf("Define(%+v): %v, want an InvalidError of %s", test.config, err, test.field)
		}
	}
	if _, ok := s.q.Config("q"); ok {
		s.Error("a refused config made a queue")
	}
}

func testDefineType(s *queueSuite) {
	s.standard("q")
	s.fifo("q") // Nothing in it yet.
	s.sendText("q", "g", "1")
	_, err := s.q.Define(s.ctx(), queue.Config{Name: "q"})
	var invalid *queue.InvalidError
	if !errors.As(err, &invalid) || invalid.Field != "type" {
		s.Errorf("Define with another type: %v, want an InvalidError of type", err)
	}
	s.ack(s.one("q"))
	s.standard("q")
}

func testUnknownQueue(s *queueSuite) {
	var errs = map[string]error{}
	_, errs["Submit"] = s.q.Submit(s.ctx(), queue.Message{Queue: "no", FunctionID: "f"}).Wait(s.ctx())
	_, errs["Receive"] = s.q.Receive(s.ctx(), "no", 1)
	_, errs["Ack"] = s.q.Ack(s.ctx(), "no", "r").Wait(s.ctx())
	errs["Extend"] = s.q.Extend(s.ctx(), "no", "r", time.Second)
	_, errs["Fail"] = s.q.Fail(s.ctx(), "no", "r", errors.New("x"))
	_, errs["DeadLetters"] = s.q.DeadLetters(s.ctx(), "no", 0, 1)
	_, errs["Redrive"] = s.q.Redrive(s.ctx(), "no", "")
	_, errs["Discard"] = s.q.Discard(s.ctx(), "no", "i")
	_, errs["Stats"] = s.q.Stats(s.ctx(), "no")
	for op, err := range errs {
		var unknown *queue.UnknownError
		if !errors.As(err, &unknown) || unknown.Queue != "no" {
			s.Errorf("%s: %v, want an UnknownError of no", op, err)
		}
	}
}

func testInvalidMessage(s *queueSuite) {
	s.standard("std")
	s.define(queue.Config{Name: "grouped", Type: queue.FIFO, GroupField: "g"})
	s.fifo("plain")
	object := json.RawMessage(`{"g":"1"}`)
	for _, test := range []struct {
		name  string
		field string
		m     queue.Message
	}{
		{"no function", "function_id", queue.Message{Queue: "std", Data: object}},
		{"no JSON", "data", queue.Message{Queue: "std", FunctionID: "f", Data: json.RawMessage(`{`)}},
		{"no object", "data", queue.Message{Queue: "grouped", FunctionID: "f", Data: json.RawMessage(`[]`)}},
		{"no member", "data.g", queue.Message{Queue: "grouped", FunctionID: "f", Data: json.RawMessage(`{}`)}},
		{"null member", "data.g", queue.Message{Queue: "grouped", FunctionID: "f", Data: json.RawMessage(`{"g":null}`)}},
		{"empty member", "data.g", queue.Message{Queue: "grouped", FunctionID: "f", Data: json.RawMessage(`{"g":""}`)}},
		{"no group", "group", queue.Message{Queue: "plain", FunctionID: "f", Data: object}},
	} {
		s.Run(test.name, func(t *testing.T) {
			_, err := s.q.Submit(s.ctx(), test.m).Wait(s.ctx())
			var invalid *queue.InvalidError
			if !errors.As(err, &invalid) || invalid.Field != test.field {
				t.Errorf("%v, want an InvalidError of %s", err, test.field)
			}
		})
	}
}
