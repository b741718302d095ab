package embedded_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/commit"
	"github.com/iii-aws/harness/engine/embedded"
	"github.com/iii-aws/harness/engine/queue"
	"github.com/iii-aws/harness/engine/state"
)

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func (r *ring) define(c queue.Config) {
	r.t.Helper()
	if _, err := r.queue.Define(testContext(r.t), c); err != nil {
		r.t.Fatal(err)
	}
}

func (r *ring) send(m queue.Message) queue.Sent {
	r.t.Helper()
	m.FunctionID = "t::f"
	sent, err := r.queue.Submit(testContext(r.t), m).Wait(testContext(r.t))
	if err != nil {
		r.t.Fatal(err)
	}
	return sent
}

func (r *ring) one(name string) queue.Delivery {
	r.t.Helper()
	ds, err := r.queue.Receive(testContext(r.t), name, 1)
	if err != nil {
		r.t.Fatal(err)
	}
	return ds[0]
}

func (r *ring) ack(d queue.Delivery) {
	r.t.Helper()
	if _, err := r.queue.Ack(testContext(r.t), d.Queue, d.Receipt).Wait(testContext(r.t)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *ring) fail(d queue.Delivery) bool {
	r.t.Helper()
	dead, err := r.queue.Fail(testContext(r.t), d.Queue, d.Receipt, errors.New("broken"))
	if err != nil {
		r.t.Fatal(err)
	}
	return dead
}

func (r *ring) stats(name string) queue.Stats {
	r.t.Helper()
	s, err := r.queue.Stats(testContext(r.t), name)
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

func (r *ring) dead(name string) []queue.DeadLetter {
	r.t.Helper()
	dead, err := r.queue.DeadLetters(testContext(r.t), name, 0, 10)
	if err != nil {
		r.t.Fatal(err)
	}
	return dead
}

// TestQueueRestart checks that a new process finds everything, and what was in
// flight at once.
func TestQueueRestart(t *testing.T) {
	t.Parallel()
	r := newRing(t, nil)
	r.define(queue.Config{Name: "q", Type: queue.FIFO, MaxReceives: 2, Backoff: time.Minute, Visibility: time.Hour})
	for _, text := range []string{"held", "failed", "dead", "waiting"} {
		r.send(queue.Message{Queue: "q", Group: text, Data: json.RawMessage(`"` + text + `"`), DedupID: text})
	}
	config, _ := r.queue.Config("q")
	var held, failed queue.Delivery
	for range 3 {
		switch d := r.one("q"); d.Group {
		case "held":
			held = d
		case "failed":
			failed = d
			r.fail(d)
		case "dead":
			r.fail(d)
		}
	}
	r.clock.Advance(time.Minute)
	for range 3 { // Both that failed, one for the last time.
		if d := r.one("q"); d.Group == "dead" {
			r.fail(d)
		} else if d.Group == "failed" {
			failed = d
			if err := r.queue.Release(testContext(t), "q", d.Receipt, 0, false); err != nil {
				t.Fatal(err)
			}
		}
	}
	r.reopen()

	if got, _ := r.queue.Config("q"); got != config {
		t.Errorf("config %+v, want %+v", got, config)
	}
	if diff := cmp.Diff(queue.Stats{Depth: 3, DeadLetters: 1}, r.stats("q")); diff != "" {
		t.Errorf("stats (-want +got):\n%s", diff)
	}
	wantStale := func() {
		t.Helper()
		for _, d := range []queue.Delivery{held, failed} {
			if _, err := r.queue.Ack(testContext(t), "q", d.Receipt).Wait(testContext(t)); !errors.Is(err, queue.ErrStale) {
				t.Errorf("Ack with a receipt of the last process: %v, want ErrStale", err)
			}
		}
	}
	wantStale()
	for range 3 {
		d := r.one("q")
		if want := map[string]int{"held": 1, "failed": 2, "waiting": 1}[d.Group]; d.Receives != want {
			t.Errorf("%s: receives = %d, want %d", d.Group, d.Receives, want)
		}
		if d.Group == "held" && d.ID != held.ID {
			t.Errorf("held message has id %s, want %s", d.ID, held.ID)
		}
	}
	wantStale() // Though this process counts its receives from 1, too.
	if sent := r.send(queue.Message{Queue: "q", Group: "held", DedupID: "held"}); !sent.Duplicate || sent.ID != held.ID {
		t.Errorf("repeat after a restart: %+v, want a duplicate of %s", sent, held.ID)
	}
}

// TestQueueBackoffOverRestart checks that a backoff goes on in a new process,
// and that a wall clock which was set back does not prolong it.
func TestQueueBackoffOverRestart(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		jump time.Duration
		left time.Duration
	}{
		{"same clock", 0, 60 * time.Second},
		{"set forward", 50 * time.Second, 10 * time.Second},
		{"set back", -24 * time.Hour, 100 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := newRing(t, nil)
			r.define(queue.Config{Name: "q", Backoff: 100 * time.Second})
			r.send(queue.Message{Queue: "q", Data: json.RawMessage(`1`)})
			r.fail(r.one("q"))
			r.clock.Advance(40 * time.Second)
			r.clock.Jump(test.jump)
			r.reopen()
			r.clock.Advance(test.left - time.Second)
			r.send(queue.Message{Queue: "q", Data: json.RawMessage(`"probe"`)})
			if ds, err := r.queue.Receive(testContext(t), "q", 10); err != nil || len(ds) != 1 || string(ds[0].Data) != `"probe"` {
				t.Fatalf("received %v, %v before the backoff ended, want the probe alone", ds, err)
			}
			r.clock.Advance(time.Second)
			if d := r.one("q"); d.Receives != 2 {
				t.Errorf("receives = %d, want 2", d.Receives)
			}
		})
	}
}

// TestQueuePoisonOfProcesses has a message that ends every process that
// receives it: no receive counts, and yet it is given up at last.
func TestQueuePoisonOfProcesses(t *testing.T) {
	t.Parallel()
	r := newRing(t, nil)
	r.define(queue.Config{Name: "q", Type: queue.FIFO, MaxReceives: 2, DeadLetterFunction: "t::on_dead"})
	r.send(queue.Message{Queue: "q", Group: "g", Data: json.RawMessage(`"poison"`)})
	r.send(queue.Message{Queue: "q", Group: "g", Data: json.RawMessage(`"next"`)})
	deaths := 0
	for ; deaths < 50; deaths++ {
		d := r.one("q")
		if string(d.Data) == `"next"` {
			break
		}
		if d.Receives != 1 {
			t.Fatalf("receives = %d after %d deaths, want 1", d.Receives, deaths)
		}
		r.reopen()
	}
	// The first death is not seen: nothing was stored at the first receive.
	if deaths != 9 {
		t.Errorf("given up after %d deaths, want 9", deaths)
	}
	dead := r.dead("q")
	if len(dead) != 1 || dead[0].Error != "invocation_stopped: 8 processes ended while they held the message" {
		t.Errorf("dead letters %+v", dead)
	}
	if d := r.one(queue.DeadLetterQueue); string(d.Data) != `"poison"` {
		t.Errorf("notice of %s, want poison", d.Data)
	}
	r.log.await(t, "alarm=dead_letter")
	// A receive that ends otherwise starts the count of deaths again.
	if n, err := r.queue.Redrive(testContext(t), "q", ""); err != nil || n != 1 {
		t.Fatalf("Redrive: %d, %v", n, err)
	}
	var d queue.Delivery
	for range 7 {
		r.reopen()
		d = r.one("q")
	}
	r.fail(d)
	r.clock.Advance(time.Second)
	for i := range 8 {
		if d := r.one("q"); string(d.Data) != `"next"` || d.Receives != 2 {
			t.Fatalf("received %s for time %d after %d more deaths, want next for time 2", d.Data, d.Receives, i)
		}
		r.reopen()
	}
	if d := r.one("q"); string(d.Data) != `"poison"` || d.Receives != 1 {
		t.Errorf("received %s for time %d, want poison for the first time", d.Data, d.Receives)
	}
}

// TestQueueSharesCommits counts commits: a write and the wake that comes after
// it share one, a first receive takes none, an acknowledgement shares that of
// the write before it.
func TestQueueSharesCommits(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	r := newRing(t, nil)
	store := r.db.State()
	commits := func(do func()) int64 {
		before := r.db.Stats().Commits
		do()
		return r.db.Stats().Commits - before
	}
	wait := func(ts ...commit.Ticket) {
		t.Helper()
		if err := commit.Wait(ctx, ts...); err != nil {
			t.Fatal(err)
		}
	}
	best := int64(100)
	for i := range 50 {
		n := commits(func() {
			record := store.Submit(ctx, []state.Write{state.Set("turn_state", fmt.Sprint(i), json.RawMessage(`1`))})
			wait(r.queue.Submit(ctx, queue.Message{Queue: "default", FunctionID: "t::f"}, record))
			d := r.one("default")
			cleared := store.Submit(ctx, []state.Write{state.Set("turn_state", fmt.Sprint(i), json.RawMessage(`2`))})
			wait(r.queue.Ack(ctx, "default", d.Receipt, cleared))
		})
		best = min(best, n)
	}
	// The committer may take the first write of a pair before the second is
	// there, but not each time.
	if best != 2 {
		t.Errorf("record, wake, receive, clearing and acknowledgement took %d commits, want 2", best)
	}
}

func TestQueueClosed(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	db, err := embedded.Open(ctx, embedded.Options{Dir: t.TempDir(), NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	q, err := embedded.OpenQueue(ctx, db)
	if err != nil {
		t.Fatal(err)
	}
	waiting := make(chan error)
	go func() {
		_, err := q.Receive(ctx, "default", 1)
		waiting <- err
	}()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	errs := map[string]error{"a waiting Receive": <-waiting}
	_, errs["Submit"] = q.Submit(ctx, queue.Message{Queue: "default", FunctionID: "f"}).Wait(ctx)
	_, errs["Define"] = q.Define(ctx, queue.Config{Name: "x"})
	_, errs["DeadLetters"] = q.DeadLetters(ctx, "default", 0, 1)
	_, errs["Redrive"] = q.Redrive(ctx, "default", "")
	_, errs["Discard"] = q.Discard(ctx, "default", "x")
	_, errs["OpenQueue"] = embedded.OpenQueue(ctx, db)
	_, errs["OpenTimer"] = embedded.OpenTimer(ctx, db, q)
	for op, err := range errs {
		if !errors.Is(err, embedded.ErrClosed) {
			t.Errorf("%s: %v, want ErrClosed", op, err)
		}
	}
}

// TestQueueDedupOverClock checks the window of a dedup id when the wall clock is
// set, and that old ids leave the file.
func TestQueueDedupOverClock(t *testing.T) {
	t.Parallel()
	r := newRing(t, nil)
	send := func(id string) bool {
		t.Helper()
		return r.send(queue.Message{Queue: "default", DedupID: id}).Duplicate
	}
	send("a")
	r.clock.Jump(-4 * time.Minute)
	if !send("a") {
		t.Error("a clock that was set back by less than the window ended it")
	}
	r.clock.Jump(-time.Hour)
	if send("a") {
		t.Error("an id from an hour ahead still counts")
	}
	if !send("a") {
		t.Error("the id does not count again")
	}
	r.clock.Advance(queue.DedupWindow)
	if send("a") {
		t.Error("the id still counts after the window")
	}
}
