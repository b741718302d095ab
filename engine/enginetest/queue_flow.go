package enginetest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/commit"
	"github.com/iii-aws/harness/engine/queue"
)

// wantBlocked checks that a Receive waits until free was called.
func (s *queueSuite) wantBlocked(name string, free func()) queue.Delivery {
	s.Helper()
	got := make(chan queue.Delivery, 1)
	go func() {
		ds, err := s.q.Receive(s.ctx(), name, 1)
		if err != nil {
			s.Errorf("Receive: %v", err)
			close(got)
			return
		}
		got <- ds[0]
	}()
	// The stats are asked for so that a wrong Receive has its chance.
	_, err := s.q.Stats(s.ctx(), name)
	s.ok(err)
	select {
	case d := <-got:
		s.Fatalf("received %s above the concurrency", textOf(d))
	default:
	}
	free()
	return <-got
}

func testConcurrency(s *queueSuite) {
	c := s.define(queue.Config{Name: "q", Concurrency: 2, Backoff: time.Hour})
	for i := range 6 {
		s.sendText("q", "", strconv.Itoa(i))
	}
	out := s.receive("q", 10)
	if len(out) > 2 {
		s.Fatalf("received %d, want at most 2", len(out))
	}
	if len(out) < 2 {
		out = append(out, s.one("q"))
	}
	out[0] = s.wantBlocked("q", func() { s.ack(out[0]) })
	out[1] = s.wantBlocked("q", func() { s.fail(out[1]) }) // What backs off is not in flight.
	s.advance(c.Visibility)
	if n := len(s.receive("q", 10)); n > 2 {
		s.Errorf("received %d after both visibilities ended, want at most 2", n)
	}
}

func testConcurrencyOfGroups(s *queueSuite) {
	s.define(queue.Config{Name: "q", Type: queue.FIFO, Concurrency: 2})
	for i := range 4 {
		for j := range 2 {
			s.sendText("q", fmt.Sprint("g", i), fmt.Sprint(i, j))
		}
	}
	out := s.receive("q", 10)
	for len(out) < 2 {
		out = append(out, s.one("q"))
	}
	if len(out) != 2 || out[0].Group == out[1].Group {
		s.Fatalf("received %d, want one of two groups each", len(out))
	}
	d := s.wantBlocked("q", func() { s.ack(out[1]) })
	if d.Group == out[0].Group {
		s.Errorf("two of group %s are out", d.Group)
	}
}

func testPaused(s *queueSuite) {
	c := s.define(queue.Config{Name: "q", Concurrency: queue.Paused})
	s.sendText("q", "", "1")
	c.Concurrency = 1
	d := s.wantBlocked("q", func() { s.define(c) })
	if textOf(d) != "1" {
		s.Errorf("received %s, want 1", textOf(d))
	}
	// More concurrency lets as many go on as it has room for.
	s.sendText("q", "", "2")
	s.sendText("q", "", "3")
	c.Concurrency = 3
	second := s.wantBlocked("q", func() {
		third := s.wantBlocked("q", func() { s.define(c) })
		s.ack(third)
	})
	s.ack(second)
}

var errEarlier = errors.New("the earlier write failed")

func testAfterTickets(s *queueSuite) {
	s.fifo("q")
	m := queue.Message{Queue: "q", Group: "g", FunctionID: "t::f", DedupID: "d", Data: quote("1")}

	failed := commit.Resolved(struct{}{}, errEarlier)
	if _, err := s.q.Submit(s.ctx(), m, failed).Wait(s.ctx()); !errors.Is(err, commit.ErrSkipped) {
		s.Errorf("Submit after a failed write: %v, want ErrSkipped", err)
	}
	s.wantVisible("q") // And the dedup id is free.

	open := commit.NewPromise[struct{}]()
	sent := s.q.Submit(s.ctx(), m, open)
	s.wantVisible("q")
	open.Resolve(struct{}{}, nil)
	_, err := sent.Wait(s.ctx())
	s.ok(err)
	d := s.wantVisible("q", "1")[0]

	if _, err := s.q.Ack(s.ctx(), "q", d.Receipt, failed).Wait(s.ctx()); !errors.Is(err, commit.ErrSkipped) {
		s.Errorf("Ack after a failed write: %v, want ErrSkipped", err)
	}
	s.ok(s.q.Extend(s.ctx(), "q", d.Receipt, 0)) // It is still there.
	d = s.wantVisible("q", "1")[0]

	// A chain on one port.
	first := s.q.Submit(s.ctx(), queue.Message{Queue: "q", Group: "h", FunctionID: "t::f", Data: quote("2")})
	acked := s.q.Ack(s.ctx(), "q", d.Receipt, first)
	skipped := s.q.Submit(s.ctx(), queue.Message{Queue: "q", Group: "h", FunctionID: "t::f", Data: quote("3")}, acked, s.q.Ack(s.ctx(), "q", "stale"))
	_, err = acked.Wait(s.ctx())
	s.ok(err)
	if _, err := skipped.Wait(s.ctx()); !errors.Is(err, commit.ErrSkipped) {
		s.Errorf("Submit after a stale Ack: %v, want ErrSkipped", err)
	}
	s.ack(s.wantVisible("q", "2")[0])
	s.wantVisible("q")
}

func testStats(s *queueSuite) {
	c := s.define(queue.Config{Name: "q", Type: queue.FIFO, MaxReceives: 2, Concurrency: 100})
	want := func(depth, out, dead int) {
		s.Helper()
		got, err := s.q.Stats(s.ctx(), "q")
		s.ok(err)
		if diff := cmp.Diff(queue.Stats{Depth: depth, InFlight: out, DeadLetters: dead}, got); diff != "" {
			s.Errorf("stats (-want +got):\n%s", diff)
		}
	}
	want(0, 0, 0)
	for i := range 3 {
		s.sendText("q", "g", fmt.Sprint(i))
	}
	want(3, 0, 0)
	d := s.one("q")
	want(2, 1, 0)
	s.fail(d)
	want(3, 0, 0)
	s.advance(time.Second)
	s.one("q")
	s.advance(c.Visibility)
	want(2, 0, 1)
	s.ack(s.one("q"))
	want(1, 0, 1)
	n, err := s.q.Redrive(s.ctx(), "q", "")
	s.ok(err)
	want(2, 0, 1-n)
}

// testThousandGroups sends three messages to each of a thousand groups and
// serves them by eight receivers at once.
func testThousandGroups(s *queueSuite) {
	const groups, each = 1000, 3
	s.fifo("q")
	var tickets []commit.Ticket
	for i := range each {
		for g := range groups {
			m := queue.Message{Queue: "q", Group: fmt.Sprint(g), FunctionID: "t::f", Data: quote(strconv.Itoa(i))}
			tickets = append(tickets, s.q.Submit(s.ctx(), m))
		}
	}
	s.ok(commit.Wait(s.ctx(), tickets...))
	ctx, cancel := context.WithCancel(s.ctx())
	defer cancel()
	var mu sync.Mutex
	next, out, left := map[string]int{}, map[string]bool{}, groups*each
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for {
				ds, err := s.q.Receive(ctx, "q", 10)
				if err != nil {
					return
				}
				for _, d := range ds {
					mu.Lock()
					if out[d.Group] || textOf(d) != strconv.Itoa(next[d.Group]) {
						s.Errorf("group %s: received %s, want %d; another one out: %v", d.Group, textOf(d), next[d.Group], out[d.Group])
					}
					out[d.Group] = true
					mu.Unlock()
				}
				for _, d := range ds {
					mu.Lock()
					out[d.Group] = false
					next[d.Group]++
					left--
					last := left == 0
					mu.Unlock()
					if _, err := s.q.Ack(s.ctx(), "q", d.Receipt).Wait(s.ctx()); err != nil {
						s.Errorf("Ack: %v", err)
					}
					if last {
						cancel()
					}
				}
			}
		})
	}
	workers.Wait()
	if left != 0 {
		s.Errorf("%d messages were not received", left)
	}
}

// testManyConsumers has senders and receivers at work at once: each message is
// received once.
func testManyConsumers(s *queueSuite) {
	const senders, each = 8, 100
	s.standard("q")
	ctx, cancel := context.WithCancel(s.ctx())
	defer cancel()
	var mu sync.Mutex
	seen := map[string]int{}
	var all sync.WaitGroup
	for i := range senders {
		all.Go(func() {
			for j := range each {
				m := queue.Message{Queue: "q", FunctionID: "t::f", Data: quote(fmt.Sprint(i, "/", j))}
				if _, err := s.q.Submit(s.ctx(), m).Wait(s.ctx()); err != nil {
					s.Errorf("Submit: %v", err)
				}
			}
		})
		all.Go(func() {
			for {
				ds, err := s.q.Receive(ctx, "q", 3)
				if err != nil {
					return
				}
				for _, d := range ds {
					if _, err := s.q.Ack(s.ctx(), "q", d.Receipt).Wait(s.ctx()); err != nil {
						s.Errorf("Ack: %v", err)
					}
					mu.Lock()
					seen[textOf(d)]++
					if len(seen) == senders*each {
						cancel()
					}
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	for text, n := range seen {
		if n != 1 {
			s.Errorf("%s was received %d times", text, n)
		}
	}
	s.wantVisible("q")
}
