package viewer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/stream"
	"github.com/iii-aws/harness/internal/agent"
)

// TestF31DropAtEveryEvent: a client that loses its socket behind any event goes
// on from there, and has the log without a gap or a repeat.
func TestF31DropAtEveryEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const events = 12
	for drop := range int64(events) {
		id := fmt.Sprint("s", drop)
		first, second := fmt.Sprint("old", drop), fmt.Sprint("new", drop)
		w.subscribe(w.hub, sub("b", first, id))
		st := w.hub.Open(id, 1)
		for i := range int64(events) {
			head := w.append(id, fmt.Sprint("e", i))
			st.Notify(head)
			if i > drop {
				continue
			}
			w.waitSeq(first, i)
			if i < drop {
				continue
			}
			w.conns.with(first, func(n *connection) { n.gone = true })
			s := sub("b", second, id).from(drop)
			s.Position.Epoch = head.Epoch
			if got := w.subscribe(w.hub, s); got.Reset != "" || got.Position.Seq != drop {
				t.Fatalf("resumed behind %d: %+v", drop, got)
			}
		}
		w.ok(st.Flush(w.ctx))
		got := append(w.got(first), w.got(second)...)
		if diff := cmp.Diff(upTo(0, events-1), seqs(got)); diff != "" {
			t.Errorf("dropped behind %d:\n%s", drop, diff)
		}
		for i, text := range w.events(id) {
			if got[i].Event != text {
				t.Errorf("dropped behind %d: event %d is %s, want %s", drop, i, got[i].Event, text)
			}
		}
		if drop == events-1 {
			continue // nothing was posted to the old connection any more
		}
		if _, ok := w.row(sub("b", first, id)); ok {
			t.Errorf("dropped behind %d: the row of the gone connection is still there", drop)
		}
	}
}

// TestF31Positions: what each position of ui::subscribe gives.
func TestF31Positions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	epoch := w.append("s", "a", "b", "c").Epoch
	for _, tt := range []struct {
		name    string
		session string
		at      *Position
		want    Subscribed
		replay  []int64
	}{
		{"live only", "s", nil, Subscribed{Position: &Position{epoch, 2}}, []int64{}},
		{"all", "s", &Position{Seq: -1}, Subscribed{Position: &Position{epoch, 2}}, []int64{0, 1, 2}},
		{"behind the first", "s", &Position{epoch, 0}, Subscribed{Position: &Position{epoch, 2}}, []int64{1, 2}},
		{"behind the last", "s", &Position{epoch, 2}, Subscribed{Position: &Position{epoch, 2}}, []int64{}},
		{"future", "s", &Position{epoch, 3}, Subscribed{Position: &Position{epoch, 2}, Reset: Ahead}, []int64{}},
		{"older epoch", "s", &Position{"old", 1}, Subscribed{Position: &Position{epoch, 2}, Reset: EpochChanged}, []int64{}},
		{"older epoch, future", "s", &Position{"old", 9}, Subscribed{Position: &Position{epoch, 2}, Reset: EpochChanged}, []int64{}},
		{"no log", "none", &Position{Seq: -1}, Subscribed{Position: &Position{Seq: -1}}, []int64{}},
		{"no log, an epoch", "none", &Position{epoch, 0}, Subscribed{Position: &Position{Seq: -1}, Reset: EpochChanged}, []int64{}},
		{"no log, future", "none", &Position{Seq: 0}, Subscribed{Position: &Position{Seq: -1}, Reset: Ahead}, []int64{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := sub("b", "c "+tt.name, tt.session)
			s.Position = tt.at
			got := w.subscribe(w.hub, s)
			got.Browsers = 0
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("answer:\n%s", diff)
			}
			if diff := cmp.Diff(tt.replay, seqs(w.got(s.Connection))); diff != "" {
				t.Errorf("replay, which ends before the answer:\n%s", diff)
			}
			if r, ok := w.row(s); !ok || r.NextSeq != got.Position.Seq+1 || r.Epoch != got.Position.Epoch {
				t.Errorf("row %+v, want one that goes on behind %+v", r, got.Position)
			}
		})
	}
	// After a reset it is live as well.
	w.append("s", "d")
	w.ok(w.hub.Serve(w.ctx, "s"))
	if got := w.waitSeq("c future", 3); len(got) != 1 {
		t.Errorf("after the reset came %+v", got)
	}
}

// TestF31ExpiredPosition: a log that does not reach back that far any more.
func TestF31ExpiredPosition(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	epoch := w.append("s", "a", "b", "c", "d").Epoch
	for _, seq := range []int{0, 1} {
		_, err := w.db.Streams().Submit(w.ctx, stream.Write{
			Key: stream.Key{Stream: agent.StreamEvents, Group: "s", Item: fmt.Sprintf("s-%08d", seq)}, Kind: "delete",
		}).Wait(w.ctx)
		w.ok(err)
	}
	got := w.subscribe(w.hub, sub("b", "c1", "s").from(-1))
	if got.Reset != Expired || *got.Position != (Position{epoch, 3}) || len(w.got("c1")) != 0 {
		t.Errorf("subscribed = %+v, got %+v", got, w.got("c1"))
	}
	if got := w.subscribe(w.hub, sub("b", "c2", "s").from(1)); got.Reset != "" || len(w.got("c2")) != 2 {
		t.Errorf("subscribed = %+v, got %+v", got, w.got("c2"))
	}
}

// TestF31TwiceAtOnce: two sockets that resume at once both have all; one socket
// that asks twice at once has all as well, and one subscription.
func TestF31TwiceAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.append("s", "a", "b", "c")
	st := w.hub.Open("s", 1)
	var wg sync.WaitGroup
	for _, c := range []string{"c1", "c2", "same", "same", "same"} {
		wg.Go(func() {
			if _, err := w.hub.Subscribe(w.ctx, sub("b", c, "s").from(0)); err != nil {
				t.Error(err)
			}
		})
	}
	st.Notify(w.append("s", "d"))
	wg.Wait()
	st.Notify(w.append("s", "e"))
	w.ok(st.Flush(w.ctx))
	for _, c := range []string{"c1", "c2"} {
		if diff := cmp.Diff(upTo(1, 4), seqs(w.got(c))); diff != "" {
			t.Errorf("%s:\n%s", c, diff)
		}
	}
	last, seen := int64(0), []int64{}
	for _, seq := range seqs(w.got("same")) {
		if seq > last { // as a client does
			last = seq
			seen = append(seen, seq)
		}
	}
	if diff := cmp.Diff(upTo(1, 4), seen); diff != "" {
		t.Errorf("same:\n%s", diff)
	}
	if rows, err := w.hub.rows(w.ctx, "s"); err != nil || len(rows) != 3 {
		t.Errorf("%d rows (%v), want 3", len(rows), err)
	}
}

// TestF31Property: whatever a client goes through, what it has seen is the log:
// sockets that break at random, resubscriptions, slow posts, writers at once,
// steps that come and go, deltas between.
func TestF31Property(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			var writers, clients sync.WaitGroup
			const appenders, each = 3, 40
			for a := range appenders {
				r := rand.New(rand.NewPCG(seed, uint64(a)+10))
				writers.Go(func() { w.appender(r, a, each) })
			}
			for c := range 4 {
				r := rand.New(rand.NewPCG(seed, uint64(c)+100))
				clients.Go(func() { w.client(r, c, appenders*each, c%2 == 0) })
			}
			writers.Wait()
			w.ok(w.hub.Serve(w.ctx, "s"))
			clients.Wait()
		})
	}
}

// appender stores events, now as a step does, now behind its back.
func (w *world) appender(rng *rand.Rand, n, events int) {
	var st *Step
	m := writer{message: fmt.Sprint("m", n), attempt: int64(n)}
	for i := range events {
		if n == 0 && st == nil && rng.IntN(4) == 0 {
			st = w.hub.Open("s", int64(i))
		}
		a := stream.Append{Stream: agent.StreamEvents, Group: "s", Base: -1, Events: []stream.LogEvent{
			{ID: fmt.Sprintf("%d-%d", n, i), Data: fmt.Appendf(nil, `{"type":"x","n":%d,"i":%d}`, n, i)},
		}}
		got, err := w.db.Streams().SubmitAppend(w.ctx, a).Wait(w.ctx)
		if err != nil {
			w.t.Error(err)
			return
		}
		if st == nil {
			if err := w.hub.Serve(w.ctx, "s"); err != nil {
				w.t.Error(err)
			}
			continue
		}
		st.Notify(stream.Head{Tail: got.Seqs[0], Epoch: got.Epoch})
		m.attempt = st.lease
		st.Delta(m.delta("漢"))
		if rng.IntN(8) == 0 {
			if err := st.Flush(w.ctx); err != nil {
				w.t.Error(err)
			}
			st = nil
		}
	}
	if st != nil {
		if err := st.Flush(w.ctx); err != nil {
			w.t.Error(err)
		}
	}
}

// client reads until it has n events, over as many sockets as it takes.
func (w *world) client(rng *rand.Rand, id, n int, batch bool) {
	at := Position{Seq: -1}
	var seen []string
	for try := 0; len(seen) < n; try++ {
		c := fmt.Sprintf("c%d-%d", id, try)
		s := sub(fmt.Sprint("b", id), c, "s")
		s.Batch = batch
		s.Position = &Position{at.Epoch, at.Seq}
		if rng.IntN(3) == 0 {
			open := w.conns.block(c)
			go func() {
				w.wait(c, "a post that hangs", func(n *connection) bool { return n.waiting > 0 || len(n.pushes) > 0 })
				open()
			}()
		}
		if rng.IntN(3) == 0 {
			w.conns.with(c, func(n *connection) { n.failures = []error{nil, errors.New("throttled")} })
		}
		if got, err := w.hub.Subscribe(w.ctx, s); err != nil || got.Reset != "" {
			w.t.Errorf("client %d resumes behind %+v: %+v, %v", id, at, got, err)
			return
		}
		take := 1 + rng.IntN(40)
		pushes := w.wait(c, fmt.Sprintf("client %d: %d of %d events", id, take, n-len(seen)), func(n2 *connection) bool {
			return len(seqs(n2.pushes)) >= min(take, n-len(seen))
		})
		w.conns.with(c, func(n *connection) { n.gone = true })
		for _, g := range pushes {
			switch {
			case g.Seq < 0 || g.Seq <= at.Seq:
				continue
			case g.Seq != at.Seq+1:
				w.t.Errorf("client %d: event %d behind %d", id, g.Seq, at.Seq)
				return
			case at.Epoch != "" && g.Epoch != at.Epoch:
				w.t.Errorf("client %d: epoch %q behind %q", id, g.Epoch, at.Epoch)
			}
			at = Position{g.Epoch, g.Seq}
			seen = append(seen, g.Event)
		}
	}
	w.t.Cleanup(func() {
		if diff := cmp.Diff(w.events("s"), seen); diff != "" {
			w.t.Errorf("client %d saw another log:\n%s", id, diff)
		}
	})
}

// TestF31GoneWhileReplaying: nobody is left to hear of it, and no row stays.
func TestF31GoneWhileReplaying(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.append("s", "a", "b")
	w.conns.with("c1", func(n *connection) { n.gone = true })
	s := sub("b", "c1", "s").from(-1)
	if _, err := w.hub.Subscribe(w.ctx, s); !errors.Is(err, bus.ErrGone) {
		t.Errorf("subscribe = %v, want %v", err, bus.ErrGone)
	}
	if _, ok := w.row(s); ok {
		t.Error("a row is there")
	}
}

// TestReplayIsBounded: a slow client gets its answer, and the rest behind it.
func TestReplayIsBounded(t *testing.T) {
	t.Parallel()
	fake := newFakeClock()
	w := newWorld(t, func(d *Deps) { d.Clock = fake })
	w.append("s", "a", "b", "c")
	open := w.conns.block("c1")
	s := sub("b", "c1", "s").from(-1)
	done := make(chan Subscribed)
	go func() {
		got, err := w.hub.Subscribe(w.ctx, s)
		if err != nil {
			t.Error(err)
		}
		done <- got
	}()
	w.wait("c1", "a post that hangs", func(n *connection) bool { return n.waiting == 1 })
	fake.Advance(w.hub.ReplayLimit)
	if got := <-done; got.Position.Seq != 2 || got.Reset != "" {
		t.Errorf("subscribed = %+v", got)
	}
	open()
	if diff := cmp.Diff(upTo(0, 2), seqs(w.waitSeq("c1", 2))); diff != "" {
		t.Errorf("replay:\n%s", diff)
	}
}

// TestSubscribeEndsWithItsCaller: without a row.
func TestSubscribeEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.append("s", "a")
	open := w.conns.block("c1")
	defer open()
	s := sub("b", "c1", "s").from(-1)
	ctx, cancel := context.WithCancel(w.ctx)
	go func() {
		w.wait("c1", "a post that hangs", func(n *connection) bool { return n.waiting == 1 })
		cancel()
	}()
	if _, err := w.hub.Subscribe(ctx, s); !errors.Is(err, context.Canceled) {
		t.Errorf("subscribe = %v, want %v", err, context.Canceled)
	}
	if _, ok := w.row(s); ok {
		t.Error("a row is there")
	}
}

// TestResubscribeOnTheSameConnection: the new subscription takes the place of
// the old one, whose pump posts nothing more.
func TestResubscribeOnTheSameConnection(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := sub("b", "c1", "s")
	w.subscribe(w.hub, s)
	st := w.hub.Open("s", 1)
	st.Notify(w.append("s", "a", "b"))
	w.waitSeq("c1", 1)
	first, _ := w.row(s)
	if got := w.subscribe(w.hub, s.from(-1)); got.Browsers != 1 {
		t.Errorf("browsers = %d, want 1", got.Browsers)
	}
	st.Notify(w.append("s", "c"))
	w.ok(st.Flush(w.ctx))
	if diff := cmp.Diff([]int64{0, 1, 0, 1, 2}, seqs(w.got("c1"))); diff != "" {
		t.Errorf("events:\n%s", diff)
	}
	second, ok := w.row(s)
	if !ok || second.ID == first.ID {
		t.Errorf("row %+v, want a new one", second)
	}
	// What ends the first leaves the second alone.
	w.ok(w.hub.remove(w.ctx, first))
	first.NextSeq = 99
	w.ok(w.hub.advance(w.ctx, first))
	if now, ok := w.row(s); !ok || now.ID != second.ID || now.NextSeq == 99 {
		t.Errorf("row %+v, want that of the second subscription", now)
	}
}

// TestResubscribeWaitsForTheLastPost: in front of the replay.
func TestResubscribeWaitsForTheLastPost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := sub("b", "c1", "s")
	w.subscribe(w.hub, s)
	open := w.conns.block("c1")
	st := w.hub.Open("s", 1)
	st.Notify(w.append("s", "a"))
	w.wait("c1", "a post that hangs", func(n *connection) bool { return n.waiting == 1 })
	ctx, cancel := context.WithCancel(w.ctx)
	cancel()
	if _, err := w.hub.Subscribe(ctx, s.from(0)); !errors.Is(err, context.Canceled) {
		t.Errorf("subscribe = %v, want %v", err, context.Canceled)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, err := w.hub.Subscribe(w.ctx, s.from(-1)); err != nil {
			t.Error(err)
		}
	}()
	open()
	<-done
	w.ok(st.Flush(w.ctx))
	if diff := cmp.Diff([]int64{0, 0}, seqs(w.got("c1"))); diff != "" {
		t.Errorf("events:\n%s", diff)
	}
}
