package enginetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/iii-aws/harness/engine/commit"
	"github.com/iii-aws/harness/engine/queue"
	"github.com/iii-aws/harness/engine/timer"
)

// Timers is a timer port with what belongs to it.
type Timers struct {
	Port  timer.Port
	Queue queue.Queue
	// Now is the wall clock of the port.
	Now func() time.Time
	// Advance lets time pass: it moves a fake clock, or waits.
	Advance func(d time.Duration)
	// Jump sets the wall clock, if it can be set.
	Jump func(d time.Duration)
	// Reopen, if the backend can be stopped, gives the port and the queue that a
	// new process finds when down has passed meanwhile.
	Reopen func(down time.Duration) (timer.Port, queue.Queue)
}

// TimerHarness is how RunTimer gets at a backend.
type TimerHarness struct {
	// New gives a port without timers.
	New func(t *testing.T) Timers
}

// RunTimer checks a backend against the comments of timer.Port. Each subtest has
// a backend of its own and runs in parallel with the others.
func RunTimer(t *testing.T, h TimerHarness) {
	for _, test := range []struct {
		name string
		run  func(*timerSuite)
	}{
		{"Fires", testTimerFires},
		{"NeverEarly", testTimerNeverEarly},
		{"PastFiresNow", testTimerPast},
		{"Order", testTimerOrder},
		{"Replace", testTimerReplace},
		{"Cancel", testTimerCancel},
		{"AfterTickets", testTimerAfterTickets},
		{"Invalid", testTimerInvalid},
		{"ManyAtOnce", testTimerMany},
		{"WallClockForward", testTimerForward},
		{"WallClockBack", testTimerBack},
		{"DueWhileDown", testTimerDown},
		{"DedupOfMessage", testTimerDedup},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := h.New(t)
			s := &timerSuite{queueSuite: &queueSuite{T: t, q: b.Queue, advance: b.Advance}, b: b}
			s.fifo("q")
			test.run(s)
		})
	}
}

type timerSuite struct {
	*queueSuite
	b Timers
}

func (s *timerSuite) set(id string, in time.Duration, text string) {
	s.Helper()
	_, err := s.b.Port.Submit(s.ctx(), s.timer(id, in, text)).Wait(s.ctx())
	s.ok(err)
}

func (s *timerSuite) timer(id string, in time.Duration, text string) timer.Timer {
	m := queue.Message{Queue: "q", Group: id, FunctionID: "t::f", Data: quote(text)}
	return timer.Timer{ID: id, At: s.b.Now().Add(in), Message: m}
}

// fired waits for the message of a timer and acknowledges it.
func (s *timerSuite) fired(want string) {
	s.Helper()
	d := s.one("q")
	if textOf(d) != want {
		s.Fatalf("fired %s, want %s", textOf(d), want)
	}
	s.ack(d)
}

// quiet checks that nothing fires. A timer that is due now is set last: when it
// has fired, an earlier one would have too.
func (s *timerSuite) quiet() {
	s.Helper()
	s.probes++
	s.set(fmt.Sprint("quiet", s.probes), 0, "quiet")
	s.fired("quiet")
	s.wantVisible("q")
}

func testTimerFires(s *timerSuite) {
	s.set("a", time.Minute, "1")
	s.quiet()
	s.advance(time.Minute)
	s.fired("1")
	s.advance(time.Hour)
	s.quiet()
	s.set("a", time.Minute, "2") // The id is free again.
	s.advance(time.Minute)
	s.fired("2")
}

func testTimerNeverEarly(s *timerSuite) {
	at := s.b.Now().Add(10*time.Second + 300*time.Microsecond)
	t := s.timer("a", 0, "1")
	t.At = at
	_, err := s.b.Port.Submit(s.ctx(), t).Wait(s.ctx())
	s.ok(err)
	s.advance(10 * time.Second)
	s.quiet()
	s.advance(time.Second)
	d := s.one("q")
	if d.SentAt.Before(at) {
		s.Errorf("fired at %v, set to %v", d.SentAt, at)
	}
}

func testTimerPast(s *timerSuite) {
	s.set("a", -time.Hour, "1")
	s.fired("1")
}

func testTimerOrder(s *timerSuite) {
	for i, in := range []time.Duration{40 * time.Second, 20 * time.Second, 24 * time.Hour, 30 * time.Second} {
		s.set(fmt.Sprint(i), in, in.String())
	}
	s.advance(20 * time.Second)
	s.fired("20s")
	s.advance(10 * time.Second)
	s.fired("30s")
	s.set("sooner", 5*time.Second, "5s") // Before the one that is waited for.
	s.advance(5 * time.Second)
	s.fired("5s")
	s.advance(5 * time.Second)
	s.fired("40s")
	s.quiet()
	s.advance(24 * time.Hour)
	s.fired("24h0m0s")
}

func testTimerReplace(s *timerSuite) {
	s.set("a", time.Minute, "1")
	s.set("a", 2*time.Minute, "later")
	s.set("b", time.Hour, "1")
	s.set("b", 2*time.Minute, "sooner")
	s.advance(time.Minute)
	s.quiet()
	s.advance(time.Minute)
	got := map[string]bool{}
	for range 2 {
		d := s.one("q")
		got[textOf(d)] = true
		s.ack(d)
	}
	if !got["later"] || !got["sooner"] {
		s.Errorf("fired %v, want later and sooner", got)
	}
	s.advance(time.Hour)
	s.quiet()
}

func testTimerCancel(s *timerSuite) {
	cancel := func(id string) {
		s.Helper()
		_, err := s.b.Port.Cancel(s.ctx(), id).Wait(s.ctx())
		s.ok(err)
	}
	s.set("a", time.Minute, "1")
	s.set("b", time.Minute, "2")
	cancel("a")
	cancel("a")
	cancel("never was")
	cancel("")
	s.advance(time.Minute)
	s.fired("2")
	cancel("b")
	s.quiet()
}

func testTimerAfterTickets(s *timerSuite) {
	failed := commit.Resolved(struct{}{}, errEarlier)
	if _, err := s.b.Port.Submit(s.ctx(), s.timer("a", time.Minute, "1"), failed).Wait(s.ctx()); !errors.Is(err, commit.ErrSkipped) {
		s.Errorf("Submit after a failed write: %v, want ErrSkipped", err)
	}
	s.set("b", time.Minute, "2")
	if _, err := s.b.Port.Cancel(s.ctx(), "b", failed).Wait(s.ctx()); !errors.Is(err, commit.ErrSkipped) {
		s.Errorf("Cancel after a failed write: %v, want ErrSkipped", err)
	}
	first := s.b.Port.Submit(s.ctx(), s.timer("c", time.Minute, "3"))
	_, err := s.b.Port.Cancel(s.ctx(), "c", first).Wait(s.ctx())
	s.ok(err)
	s.advance(time.Minute)
	s.fired("2")
	s.quiet()
}

func testTimerInvalid(s *timerSuite) {
	valid := s.timer("a", 0, "1")
	for _, test := range []struct {
		name   string
		change func(*timer.Timer)
		want   func(error) bool
	}{
		{"no id", func(t *timer.Timer) { t.ID = "" }, isTimerInvalid},
		{"no time", func(t *timer.Timer) { t.At = time.Time{} }, isTimerInvalid},
		{"unknown queue", func(t *timer.Timer) { t.Message.Queue = "no" }, func(err error) bool {
			var e *queue.UnknownError
			return errors.As(err, &e)
		}},
		{"no group", func(t *timer.Timer) { t.Message.Group = "" }, func(err error) bool {
			var e *queue.InvalidError
			return errors.As(err, &e)
		}},
	} {
		t := valid
		test.change(&t)
		if _, err := s.b.Port.Submit(s.ctx(), t).Wait(s.ctx()); !test.want(err) {
			s.Errorf("%s: unexpected error %v", test.name, err)
		}
	}
	s.quiet()
}

func isTimerInvalid(err error) bool {
	var e *timer.InvalidError
	return errors.As(err, &e)
}

func testTimerMany(s *timerSuite) {
	const n = 700
	var tickets []commit.Ticket
	for i := range n {
		tickets = append(tickets, s.b.Port.Submit(s.ctx(), s.timer(fmt.Sprint(i), time.Minute, fmt.Sprint(i))))
	}
	s.ok(commit.Wait(s.ctx(), tickets...))
	s.quiet()
	s.advance(time.Minute)
	seen := map[string]bool{}
	for len(seen) < n {
		for _, d := range s.receive("q", 10) {
			if seen[textOf(d)] {
				s.Fatalf("timer %s fired twice", textOf(d))
			}
			seen[textOf(d)] = true
			s.ack(d)
		}
	}
	s.quiet()
}

func testTimerForward(s *timerSuite) {
	if s.b.Jump == nil {
		s.Log("the wall clock of this backend cannot be set")
		return
	}
	s.set("a", time.Hour, "1")
	s.quiet()
	s.b.Jump(time.Hour)
	s.advance(30 * time.Second) // Noticed within that.
	s.fired("1")
}

func testTimerBack(s *timerSuite) {
	if s.b.Jump == nil {
		s.Log("the wall clock of this backend cannot be set")
		return
	}
	s.set("a", time.Minute, "1")
	s.quiet()
	s.b.Jump(-time.Hour)
	s.advance(time.Minute)
	s.quiet() // It is not that late yet by the wall clock.
	s.advance(59 * time.Minute)
	s.quiet()
	s.advance(time.Minute)
	s.fired("1")
}

func testTimerDown(s *timerSuite) {
	if s.b.Reopen == nil {
		s.Log("this backend cannot be stopped")
		return
	}
	s.set("a", time.Minute, "1")
	s.set("b", time.Hour, "2")
	s.set("c", time.Hour, "3")
	_, err := s.b.Port.Cancel(context.Background(), "c").Wait(s.ctx())
	s.ok(err)
	s.b.Port, s.b.Queue = s.b.Reopen(5 * time.Minute)
	s.q = s.b.Queue
	s.fired("1")
	s.quiet()
	s.advance(time.Hour)
	s.fired("2")
	s.quiet()
}

// testTimerDedup has a timer whose message repeats a dedup id: it fires and
// sends nothing.
func testTimerDedup(s *timerSuite) {
	m := queue.Message{Queue: "q", Group: "g", FunctionID: "t::f", DedupID: "d", Data: quote("1")}
	s.send(m)
	s.ack(s.one("q"))
	t := timer.Timer{ID: "a", At: s.b.Now().Add(time.Minute), Message: m}
	_, err := s.b.Port.Submit(s.ctx(), t).Wait(s.ctx())
	s.ok(err)
	s.advance(time.Minute)
	s.quiet()
}
