package enginetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/queue"
)

// subscriber defines the queue of a subscription.
func (s *queueSuite) subscriber(topic, function string, c queue.Config) string {
	s.Helper()
	c.Subscription = queue.Subscription{Topic: topic, FunctionID: function, Namespace: "default"}
	c.Name, c.Internal = c.Subscription.QueueName(), true
	s.define(c)
	return c.Name
}

func testSubscriptionNames(s *queueSuite) {
	sub := queue.Subscription{Topic: "a topic / with any text", FunctionID: "t::f", Namespace: "default"}
	for _, c := range []queue.Config{
		{Name: "mine", Subscription: sub},
		{Name: sub.QueueName()},
		{Name: sub.QueueName(), Subscription: queue.Subscription{Topic: sub.Topic, FunctionID: "t::g", Namespace: "default"}},
		{Name: queue.Subscription{Topic: "t"}.QueueName(), Subscription: queue.Subscription{Topic: "t"}},
	} {
		var invalid *queue.InvalidError
		if _, err := s.q.Define(s.ctx(), c); !errors.As(err, &invalid) {
			s.Errorf("Define(%+v): %v, want an *InvalidError", c, err)
		}
	}
	name := s.subscriber(sub.Topic, sub.FunctionID, queue.Config{})
	if c, ok := s.q.Config(name); !ok || c.Subscription != sub {
		s.Errorf("Config: %+v, %v", c, ok)
	}
}

func testRemove(s *queueSuite) {
	want := func(name string, want bool) {
		s.Helper()
		if got, err := s.q.Remove(s.ctx(), name); got != want || err != nil {
			s.Errorf("Remove(%s): %v, %v, want %v", name, got, err, want)
		}
	}
	s.define(queue.Config{Name: "q", MaxReceives: 1})
	s.sendText("q", "", "a")
	want("q", false) // it waits
	d := s.one("q")
	want("q", false) // it is in flight
	s.fail(d)
	want("q", false) // it is dead
	if ok, err := s.q.Discard(s.ctx(), "q", d.ID); !ok || err != nil {
		s.Fatalf("Discard: %v, %v", ok, err)
	}
	waiting := make(chan error, 1)
	go func() {
		_, err := s.q.Receive(s.ctx(), "q", 1)
		waiting <- err
	}()
	want("q", true)
	var unknown *queue.UnknownError
	if err := <-waiting; !errors.As(err, &unknown) {
		s.Errorf("Receive on a removed queue: %v", err)
	}
	want("q", false)
	want("never-was", false)
	if slices.Contains(s.q.Names(), "q") {
		s.Error("a removed queue is still named")
	}
	if _, err := s.q.Submit(s.ctx(), queue.Message{Queue: "q", FunctionID: "t::f"}).Wait(s.ctx()); !errors.As(err, &unknown) {
		s.Errorf("Submit to a removed queue: %v", err)
	}
	var invalid *queue.InvalidError
	if _, err := s.q.Remove(s.ctx(), queue.DefaultQueue); !errors.As(err, &invalid) {
		s.Errorf("Remove of a built-in queue: %v", err)
	}
	// The name is free for another queue, of whatever type.
	s.define(queue.Config{Name: "q", Type: queue.FIFO})
	s.sendText("q", "g", "b")
	if s.h.Reopen != nil {
		s.q = s.h.Reopen(s.T, s.q)
	}
	if got := textOf(s.one("q")); got != "b" {
		s.Errorf("got %q", got)
	}
}

// testRemoveRace removes a queue while others send: no message that was accepted is lost.
func testRemoveRace(s *queueSuite) {
	const rounds = 50
	for i := range rounds {
		name := fmt.Sprintf("race-%d", i%3)
		s.define(queue.Config{Name: name})
		sent := make(chan error, 1)
		go func() {
			_, err := s.q.Submit(s.ctx(), queue.Message{Queue: name, FunctionID: "t::f", Data: quote("x")}).Wait(s.ctx())
			sent <- err
		}()
		removed := make(chan bool, 1)
		go func() {
			ok, err := s.q.Remove(s.ctx(), name)
			if err != nil {
				s.Error(err)
			}
			removed <- ok
		}()
		err, gone := <-sent, <-removed
		var unknown *queue.UnknownError
		if errors.As(err, &unknown) != gone || (err == nil) == gone {
			s.Fatalf("round %d: sent: %v, removed: %v", i, err, gone)
		}
		if !gone {
			s.ack(s.one(name))
		}
	}
}

func testSubmitAll(s *queueSuite) {
	a, b := s.subscriber("t", "t::a", queue.Config{}), s.subscriber("t", "t::b", queue.Config{Type: queue.FIFO})
	message := func(name, text string) queue.Message {
		return queue.Message{Queue: name, Group: "all", FunctionID: "t::f", Data: quote(text)}
	}
	s.ok(queue.SubmitAll(s.ctx(), s.q, []queue.Message{message(a, "1"), message(b, "1")})(s.ctx()))
	s.wantVisible(a, "1")
	s.wantVisible(b, "1")
	err := queue.SubmitAll(s.ctx(), s.q, []queue.Message{message(a, "2"), message("unknown", "2"), message(b, "2")})(s.ctx())
	var unknown *queue.UnknownError
	if !errors.As(err, &unknown) {
		s.Errorf("one unknown queue: %v", err)
	}
	bad := message(b, "3")
	bad.Data = json.RawMessage("{")
	var invalid *queue.InvalidError
	if err := queue.SubmitAll(s.ctx(), s.q, []queue.Message{message(a, "3"), bad})(s.ctx()); !errors.As(err, &invalid) {
		s.Errorf("one bad message: %v", err)
	}
	if _, ok := s.q.(queue.Batcher); ok {
		s.wantVisible(a)
		s.wantVisible(b)
	}
}

// testTopicModel publishes to several subscribers that fail by chance, redrives and discards, and checks that each
// subscriber has handled, lost by discarding, or still holds exactly what was published.
func testTopicModel(s *queueSuite) {
	r := rand.New(rand.NewPCG(7, 11))
	const subscribers = 4
	names := make([]string, subscribers)
	for i := range names {
		c := queue.Config{MaxReceives: 1 + i%3, Backoff: queue.NoBackoff, Concurrency: 3}
		if i%2 == 1 {
			c.Type = queue.FIFO
		}
		names[i] = s.subscriber("model", fmt.Sprintf("t::f%d", i), c)
	}
	type ledger struct{ waiting, dead, handled, discarded map[string]int }
	model := make([]ledger, subscribers)
	for i := range model {
		model[i] = ledger{map[string]int{}, map[string]int{}, map[string]int{}, map[string]int{}}
	}
	published := 0
	work := func(i int, mayFail bool) {
		m := &model[i]
		if len(m.waiting) == 0 {
			return
		}
		d := s.one(names[i])
		text := textOf(d)
		if m.waiting[text] != 1 {
			s.Fatalf("subscriber %d got %q, which does not wait", i, text)
		}
		if mayFail && r.IntN(2) == 0 {
			if s.fail(d) {
				delete(m.waiting, text)
				m.dead[text]++
			}
			return
		}
		s.ack(d)
		delete(m.waiting, text)
		m.handled[text]++
	}
	for range 400 {
		i := r.IntN(subscribers)
		m := &model[i]
		switch p := r.IntN(10); {
		case p < 3:
			text := fmt.Sprint(published)
			published++
			ms := make([]queue.Message, subscribers)
			for j := range ms {
				ms[j] = queue.Message{Queue: names[j], Group: "all", FunctionID: "t::f", Data: quote(text)}
				model[j].waiting[text]++
			}
			s.ok(queue.SubmitAll(s.ctx(), s.q, ms)(s.ctx()))
		case p < 7:
			work(i, true)
		case p < 8:
			n, err := s.q.Redrive(s.ctx(), names[i], "")
			s.ok(err)
			if n != len(m.dead) {
				s.Fatalf("redriven %d, want %d", n, len(m.dead))
			}
			for text := range m.dead {
				m.waiting[text]++
				delete(m.dead, text)
			}
		case p < 9:
			for _, dead := range s.deadLetters(names[i])[:min(1, len(m.dead))] {
				ok, err := s.q.Discard(s.ctx(), names[i], dead.ID)
				s.ok(err)
				var text string
				if !ok || json.Unmarshal(dead.Data, &text) != nil {
					s.Fatalf("Discard: %v", ok)
				}
				delete(m.dead, text)
				m.discarded[text]++
			}
		case s.h.Reopen != nil:
			s.q = s.h.Reopen(s.T, s.q)
		}
	}
	for i := range model {
		m := &model[i]
		for len(m.waiting) > 0 {
			work(i, false)
		}
		got, want := map[string]int{}, map[string]int{}
		for _, side := range []map[string]int{m.dead, m.handled, m.discarded} {
			for text, n := range side {
				got[text] += n
			}
		}
		for n := range published {
			want[fmt.Sprint(n)] = 1
		}
		if diff := cmp.Diff(want, got); diff != "" {
			s.Errorf("subscriber %d (-want +got):\n%s", i, diff)
		}
		stats, err := s.q.Stats(s.ctx(), names[i])
		s.ok(err)
		if want := (queue.Stats{DeadLetters: len(m.dead)}); stats != want {
			s.Errorf("subscriber %d holds %+v, want %+v", i, stats, want)
		}
	}
}
