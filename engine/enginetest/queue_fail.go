package enginetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/queue"
)

func testBackoff(s *queueSuite) {
	for _, kind := range []queue.Type{queue.Standard, queue.FIFO} {
		name := string(kind)
		s.define(queue.Config{Name: name, Type: kind, MaxReceives: 5, Backoff: 2 * time.Second, Concurrency: 100})
		s.sendText(name, "g", "1")
		for i, pause := range []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second} {
			d := s.one(name)
			if d.Receives != i+1 {
				s.Fatalf("%s: receives = %d, want %d", name, d.Receives, i+1)
			}
			if s.fail(d) {
				s.Fatalf("%s: dead after %d receives", name, d.Receives)
			}
			s.wantStale(name, d.Receipt)
			s.advance(pause - time.Second)
			s.wantVisible(name)
			s.advance(time.Second)
		}
		s.wantVisible(name, "1")
	}
}

func testNoBackoff(s *queueSuite) {
	s.define(queue.Config{Name: "q", Backoff: queue.NoBackoff})
	s.sendText("q", "", "1")
	s.fail(s.one("q"))
	s.wantVisible("q", "1")
}

func testDeadLetter(s *queueSuite) {
	for _, kind := range []queue.Type{queue.Standard, queue.FIFO} {
		name := string(kind)
		s.define(queue.Config{Name: name, Type: kind, MaxReceives: 2, Backoff: time.Second, Concurrency: 100})
		sent := s.sendText(name, "g", "1")
		if s.fail(s.one(name)) {
			s.Fatalf("%s: dead after one receive of two", name)
		}
		s.advance(time.Second)
		d := s.one(name)
		if !s.fail(d) {
			s.Fatalf("%s: not dead after the last receive", name)
		}
		s.wantStale(name, d.Receipt)
		s.wantVisible(name)
		dead := s.deadLetters(name)
		if len(dead) != 1 {
			s.Fatalf("%s: %d dead letters, want 1", name, len(dead))
		}
		got := dead[0]
		if got.ID != sent.ID || got.Error != "boom: it broke" || got.Receives != 2 || got.FailedAt.IsZero() {
			s.Errorf("%s: dead letter %+v", name, got)
		}
		if diff := cmp.Diff(d.Message, got.Message); diff != "" {
			s.Errorf("%s: message of the dead letter (-want +got):\n%s", name, diff)
		}
	}
}

func testDeadLetterByExpiry(s *queueSuite) {
	c := s.define(queue.Config{Name: "q", Type: queue.FIFO, MaxReceives: 2, Concurrency: 100})
	s.sendText("q", "g", "1")
	s.sendText("q", "g", "2")
	for range 2 {
		if d := s.one("q"); textOf(d) != "1" {
			s.Fatalf("received %s, want 1", textOf(d))
		}
		s.advance(c.Visibility)
	}
	if d := s.one("q"); textOf(d) != "2" || d.Receives != 1 {
		s.Fatalf("received %s for time %d, want 2 for the first time", textOf(d), d.Receives)
	}
	dead := s.deadLetters("q")
	if len(dead) != 1 || dead[0].Receives != 2 || dead[0].Error == "" {
		s.Errorf("dead letters %+v, want one with 2 receives and an error", dead)
	}
}

func testDeadLetterPage(s *queueSuite) {
	s.define(queue.Config{Name: "q", MaxReceives: 1, Concurrency: 100})
	for i := range 5 {
		s.sendText("q", "", fmt.Sprint(i))
		s.fail(s.one("q"))
	}
	for _, test := range []struct {
		offset, limit int
		want          []string
	}{
		{0, 2, []string{"0", "1"}},
		{3, 50, []string{"3", "4"}},
		{5, 50, nil},
	} {
		dead, err := s.q.DeadLetters(s.ctx(), "q", test.offset, test.limit)
		s.ok(err)
		var got []string
		for _, d := range dead {
			got = append(got, textOf(queue.Delivery{Message: d.Message}))
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			s.Errorf("offset %d limit %d (-want +got):\n%s", test.offset, test.limit, diff)
		}
	}
}

func testDeadLetterFunction(s *queueSuite) {
	s.define(queue.Config{Name: "q", MaxReceives: 1, DeadLetterFunction: "t::on_dead"})
	m := queue.Message{Queue: "q", FunctionID: "t::f", Namespace: "shop", Data: quote("1"), Traceparent: "00-1-2-01"}
	m.Principal.ID = "p"
	s.send(m)
	s.fail(s.one("q"))
	d := s.one(queue.DeadLetterQueue)
	if d.FunctionID != "t::on_dead" || textOf(d) != "1" || d.Principal.ID != "p" || d.Traceparent != m.Traceparent || d.Namespace != "shop" {
		s.Errorf("notice %+v", d)
	}
	if n := len(s.deadLetters("q")); n != 1 {
		s.Errorf("%d dead letters, want 1", n)
	}
}

func testRedrive(s *queueSuite) {
	s.define(queue.Config{Name: "q", MaxReceives: 1, Concurrency: 100})
	var ids []string
	for i := range 3 {
		ids = append(ids, s.sendText("q", "", fmt.Sprint(i)).ID)
		s.fail(s.one("q"))
	}
	redrive := func(id string, want int) {
		s.Helper()
		n, err := s.q.Redrive(s.ctx(), "q", id)
		s.ok(err)
		if n != want {
			s.Fatalf("Redrive(%q) = %d, want %d", id, n, want)
		}
	}
	redrive("no such id", 0)
	redrive(ids[1], 1)
	d := s.one("q")
	if d.ID != ids[1] || d.Receives != 1 {
		s.Errorf("received %s for time %d, want %s for the first time", d.ID, d.Receives, ids[1])
	}
	s.ack(d)
	redrive("", 2)
	redrive("", 0)
	for _, d := range s.wantVisible("q", "0", "2") {
		if !s.fail(d) {
			s.Error("a redriven message survived its last receive")
		}
	}
	if n := len(s.deadLetters("q")); n != 2 {
		s.Errorf("%d dead letters, want 2", n)
	}
}

func testRedriveAtTheBack(s *queueSuite) {
	s.define(queue.Config{Name: "q", Type: queue.FIFO, MaxReceives: 1, Concurrency: 100})
	s.sendText("q", "g", "1")
	s.sendText("q", "g", "2")
	s.fail(s.one("q"))
	_, err := s.q.Redrive(s.ctx(), "q", "")
	s.ok(err)
	for _, want := range []string{"2", "1"} {
		s.ack(s.wantVisible("q", want)[0])
	}
}

func testDiscard(s *queueSuite) {
	s.define(queue.Config{Name: "q", MaxReceives: 1})
	sent := s.sendText("q", "", "1")
	s.fail(s.one("q"))
	for _, want := range []bool{true, false} {
		ok, err := s.q.Discard(s.ctx(), "q", sent.ID)
		s.ok(err)
		if ok != want {
			s.Errorf("Discard = %v, want %v", ok, want)
		}
	}
	if n := len(s.deadLetters("q")); n != 0 {
		s.Errorf("%d dead letters, want none", n)
	}
}

// testPoisonInGroup is five messages of a group of which the third fails: the
// others keep their order, another group does not wait, and the poison leaves.
func testPoisonInGroup(s *queueSuite) {
	s.define(queue.Config{Name: "q", Type: queue.FIFO, MaxReceives: 3, Backoff: time.Second, Concurrency: 100})
	for i := range 5 {
		s.sendText("q", "g", fmt.Sprint(i+1))
	}
	for range 2 {
		s.ack(s.one("q"))
	}
	for receive := 1; receive <= 3; receive++ {
		d := s.wantVisible("q", "3")[0]
		if dead := s.fail(d); dead != (receive == 3) {
			s.Fatalf("dead = %v after receive %d of 3", dead, receive)
		}
		if receive < 3 {
			s.sendText("q", "other", "other")
			s.ack(s.wantVisible("q", "other")[0])
			s.advance(time.Hour)
		}
	}
	for _, want := range []string{"4", "5"} {
		s.ack(s.wantVisible("q", want)[0])
	}
}

func testRelease(s *queueSuite) {
	r, ok := s.q.(queue.Releaser)
	if !ok {
		s.Log("the backend has no Release; the consumer extends instead")
		return
	}
	s.define(queue.Config{Name: "q", Type: queue.FIFO, MaxReceives: 3, Concurrency: 100})
	s.sendText("q", "g", "1")
	s.sendText("q", "g", "2")
	for range 5 { // More than MaxReceives: they do not count.
		d := s.one("q")
		if d.Receives != 1 {
			s.Fatalf("receives = %d, want 1", d.Receives)
		}
		s.ok(r.Release(s.ctx(), "q", d.Receipt, 2*time.Second, false))
		s.wantStale("q", d.Receipt)
		s.advance(time.Second)
		s.wantVisible("q")
		s.advance(time.Second)
	}
	for i := range 2 {
		d := s.one("q")
		if textOf(d) != "1" || d.Receives != i+1 {
			s.Fatalf("received %s for time %d, want 1 for time %d", textOf(d), d.Receives, i+1)
		}
		s.ok(r.Release(s.ctx(), "q", d.Receipt, 0, true))
	}
	s.ok(r.Release(s.ctx(), "q", s.one("q").Receipt, time.Hour, true)) // The last that counts.
	s.wantVisible("q", "2")
	if dead := s.deadLetters("q"); len(dead) != 1 {
		s.Errorf("%d dead letters, want 1", len(dead))
	}
	var invalid *queue.InvalidError
	if err := r.Release(s.ctx(), "q", "x", -1, true); !errors.As(err, &invalid) {
		s.Errorf("Release by a negative time: %v, want an InvalidError", err)
	}
}
