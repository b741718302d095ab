package enginetest

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/queue"
	"github.com/iii-aws/harness/engine/state"
)

// large is a JSON text of n bytes.
func large(n int, fill string) json.RawMessage {
	return json.RawMessage(`"` + strings.Repeat(fill, n-2) + `"`)
}

// testLargeData sends data above the inline limit through every place where a message can be.
func testLargeData(s *queueSuite) {
	s.define(queue.Config{Name: "big", MaxReceives: 2, Backoff: queue.NoBackoff})
	reopen := func() {
		if s.h.Reopen != nil {
			s.q = s.h.Reopen(s.T, s.q)
		}
	}
	want := func(got json.RawMessage, want json.RawMessage) {
		s.Helper()
		if string(got) != string(want) {
			s.Fatalf("data of %d bytes came back as %d bytes", len(want), len(got))
		}
	}
	for _, n := range []int{state.InlineLimit, state.InlineLimit + 1, state.MaxValue} {
		data := large(n, "x")
		s.send(queue.Message{Queue: "big", Data: data})
		reopen()
		d := s.one("big")
		want(d.Data, data)
		s.fail(d)
		d = s.one("big")
		want(d.Data, data)
		if !s.fail(d) {
			s.Fatal("not dead")
		}
		reopen()
		dead := s.deadLetters("big")
		if len(dead) != 1 {
			s.Fatalf("%d dead letters", len(dead))
		}
		want(dead[0].Data, data)
		if redriven, err := s.q.Redrive(s.ctx(), "big", dead[0].ID); redriven != 1 || err != nil {
			s.Fatalf("Redrive: %d, %v", redriven, err)
		}
		reopen()
		d = s.one("big")
		want(d.Data, data)
		s.ack(d)
	}
	// A dead letter that is discarded, and one that a function hears of.
	s.define(queue.Config{Name: "told", MaxReceives: 1, DeadLetterFunction: "t::dead"})
	data := large(state.InlineLimit+1, "y")
	s.send(queue.Message{Queue: "told", Data: data})
	s.fail(s.one("told"))
	if ok, err := s.q.Discard(s.ctx(), "told", s.deadLetters("told")[0].ID); !ok || err != nil {
		s.Fatalf("Discard: %v, %v", ok, err)
	}
	reopen()
	told := s.one(queue.DeadLetterQueue)
	want(told.Data, data)
	s.ack(told)
	// Several at once.
	s.ok(queue.SubmitAll(s.ctx(), s.q, []queue.Message{
		{Queue: "big", FunctionID: "t::f", Data: data}, {Queue: "told", FunctionID: "t::f", Data: data},
	})(s.ctx()))
	for _, name := range []string{"big", "told"} {
		d := s.one(name)
		want(d.Data, data)
		s.ack(d)
	}
	var tooLarge *queue.TooLargeError
	_, err := s.q.Submit(s.ctx(), queue.Message{Queue: "big", FunctionID: "t::f", Data: large(state.MaxValue+1, "x")}).Wait(s.ctx())
	if !errors.As(err, &tooLarge) || bus.Code(err) != "VALUE_TOO_LARGE" {
		s.Errorf("above the limit: %v", err)
	}
}

// testErrorText: what is stored of an error has no secrets, is short, and starts with the code.
func testErrorText(s *queueSuite) {
	const secret = "sk-ant-api03-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789AbCdEfGhIjKlMnOpQr"
	for _, test := range []struct{ name, want string }{
		{"key " + secret + " was refused", "boom: key [REDACTED] was refused"},
		{strings.Repeat("é", 5000), "boom: é"},
		{"broken \xff text", "boom: broken"},
	} {
		name := "errors-" + test.name[:3]
		name = strings.Map(func(r rune) rune {
			if r > 'z' || r == ' ' {
				return '-'
			}
			return r
		}, name)
		s.define(queue.Config{Name: name, MaxReceives: 1})
		s.sendText(name, "", "x")
		d := s.one(name)
		if _, err := s.q.Fail(s.ctx(), name, d.Receipt, &bus.Error{Code: "boom", Message: test.name}); err != nil {
			s.Fatal(err)
		}
		got := s.deadLetters(name)[0].Error
		if !strings.HasPrefix(got, test.want) || strings.Contains(got, secret) || len(got) > 4096 {
			s.Errorf("stored %q", got)
		}
	}
}
