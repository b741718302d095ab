package viewer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/stream"
	"github.com/iii-aws/harness/internal/agent"
)

// TestA1OrderOfEventsAndDeltas: what a step tells reaches its viewer in that
// order, deltas between the events around them, with sequences and revisions.
func TestA1OrderOfEventsAndDeltas(t *testing.T) {
	t.Parallel()
	for _, batch := range []bool{false, true} {
		t.Run(fmt.Sprintf("batch=%v", batch), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := sub("b", "c1", "s")
			s.Batch = batch
			if got := w.subscribe(w.hub, s); *got.Position != (Position{Seq: -1}) || got.Reset != "" || got.Browsers != 1 {
				t.Fatalf("subscribed = %+v", got)
			}
			st := w.hub.Open("s", 1)
			st.Notify(w.append("s", agent.EventTurnStateChanged, agent.EventTurnStateChanged))
			w.waitSeq("c1", 1)
			m := writer{message: "m1", attempt: 1}
			for i := range 3 {
				u := m.delta("é" + fmt.Sprint(i))
				st.Delta(u)
				w.wait("c1", "delta", func(n *connection) bool { return len(n.pushes) > 2 && n.pushes[len(n.pushes)-1].Rev == u.Rev })
			}
			head := w.append("s", agent.EventMessageComplete, agent.EventTurnEnd, agent.EventAgentEnd)
			st.Notify(head)
			w.ok(st.Flush(w.ctx))
			got := w.got("c1")
			var order []string
			for _, g := range got {
				if g.Function != "ui::session::event::b" || g.Session != "s" || g.Epoch != head.Epoch {
					t.Errorf("push %+v, want session s, epoch %s", g, head.Epoch)
				}
				if g.Seq < 0 {
					order = append(order, "delta "+g.update(t).LLMEvent.Delta)
				} else {
					order = append(order, fmt.Sprint(g.Seq))
				}
			}
			want := []string{"0", "1", "delta é0", "delta é1", "delta é2", "2", "3", "4"}
			if diff := cmp.Diff(want, order); diff != "" {
				t.Errorf("order:\n%s", diff)
			}
			w.waitRow(s, "next_seq 5", func(r Row, ok bool) bool { return ok && r.NextSeq == 5 && r.Epoch == head.Epoch })
		})
	}
}

// TestEventsComeAsTheyAreStored: the text of an event is not touched.
func TestEventsComeAsTheyAreStored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.subscribe(w.hub, sub("b", "c1", "s"))
	raw := `{"type":"x","n":12345678901234567890,"f":1e3,"h":"<a>&\u2028","z":1,"a":2}`
	st := w.hub.Open("s", 1)
	st.Notify(w.appendRaw("s", []byte(raw)))
	w.ok(st.Flush(w.ctx))
	if got := w.got("c1"); len(got) != 1 || got[0].Event != raw {
		t.Errorf("got %+v, want %s", got, raw)
	}
}

// TestBatchCarriesAllThatIsReady: one push has all that waited, within its
// limit; a viewer without batches gets one push per event.
func TestBatchCarriesAllThatIsReady(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var types []string
	for range 300 {
		types = append(types, strings.Repeat("t", 200))
	}
	w.append("s", types...)
	w.subscribe(w.hub, sub("b", "single", "s").from(-1))
	w.subscribe(w.hub, sub("b", "batch", "s").from(-1).batched())
	pushes := func(id string) (n, largest int) {
		gs := w.got(id)
		if diff := cmp.Diff(upTo(0, 299), seqs(gs)); diff != "" {
			t.Errorf("%s:\n%s", id, diff)
		}
		for _, g := range gs {
			if g.First {
				n++
			}
			largest = max(largest, g.Size)
		}
		return n, largest
	}
	if n, _ := pushes("single"); n != 300 {
		t.Errorf("%d pushes for 300 events, want 300", n)
	}
	if n, largest := pushes("batch"); n > 4 || largest > FrameBytes+256 {
		t.Errorf("%d pushes, the largest of %d bytes; want at most 4 of about %d", n, largest, FrameBytes)
	}
}

// TestSlowViewerLosesDeltasNeverEvents: a viewer whose posts hang costs the
// step nothing; when it is back it has every event.
func TestSlowViewerLosesDeltasNeverEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []string{"slow", "quick"} {
		w.subscribe(w.hub, sub("b", c, "s").batched())
	}
	open := w.conns.block("slow")
	st := w.hub.Open("s", 1)
	st.Notify(w.append("s", agent.EventTurnStateChanged))
	w.wait("slow", "a post that hangs", func(n *connection) bool { return n.waiting == 1 })
	m := writer{message: "m1", attempt: 1}
	for range 2000 {
		st.Delta(m.delta("0123456789 0123456789 0123456789"))
	}
	head := w.append("s", agent.EventMessageComplete, agent.EventAgentEnd)
	st.Notify(head)
	w.waitSeq("quick", 2)
	open()
	got := w.waitSeq("slow", 2)
	if diff := cmp.Diff([]int64{0, 1, 2}, seqs(got)); diff != "" {
		t.Errorf("slow viewer:\n%s", diff)
	}
	if len(got) > 5 {
		t.Errorf("slow viewer got %d entries, want the deltas of a complete message dropped", len(got))
	}
	w.ok(st.Flush(w.ctx))
}

// TestSlowViewerCatchesUpInMidMessage: as long as the message goes on, what was
// missed comes as one larger delta.
func TestSlowViewerCatchesUpInMidMessage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.subscribe(w.hub, sub("b", "c1", "s"))
	st := w.hub.Open("s", 1)
	m := writer{message: "m1", attempt: 1}
	w.waitAttached("s", 1)
	open := w.conns.block("c1")
	st.Delta(m.delta("a"))
	w.wait("c1", "a post that hangs", func(n *connection) bool { return n.waiting == 1 })
	for range 5000 {
		st.Delta(m.delta("é漢😀 0123"))
	}
	last := m.rev
	open()
	got := w.wait("c1", "the last rev", func(n *connection) bool { return len(n.pushes) > 0 && n.pushes[len(n.pushes)-1].Rev == last })
	r := newReader(t)
	for _, g := range got {
		r.take(g.update(t))
	}
	if r.blocks[0] != m.text {
		t.Errorf("text has %d bytes, want %d", len(r.blocks[0]), len(m.text))
	}
	if want := len(m.text)/PageBytes + 3; len(got) > want {
		t.Errorf("%d pushes, want at most %d", len(got), want)
	}
	w.ok(st.Flush(w.ctx))
}

// waitAttached waits until the hub serves n viewers of a session.
func (w *world) waitAttached(session string, n int) {
	w.t.Helper()
	s := w.hub.acquire(session)
	defer w.hub.release(s)
	for {
		s.mu.Lock()
		have, step := len(s.pumps), s.step
		s.mu.Unlock()
		if have == n {
			return
		}
		if step == nil || w.ctx.Err() != nil {
			w.t.Fatalf("%d viewers attached, want %d", have, n)
		}
		<-step.loaded
		s.mu.Lock()
		have = len(s.pumps)
		s.mu.Unlock()
		if have != n {
			w.t.Fatalf("%d viewers attached, want %d", have, n)
		}
	}
}

// TestJoinInMidMessageGetsASnapshot: and no delta of before it; the events come
// first, and no snapshot follows a complete message.
func TestJoinInMidMessageGetsASnapshot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	st := w.hub.Open("s", 4)
	st.Notify(w.append("s", agent.EventTurnStateChanged))
	m := writer{message: "m1", attempt: 4}
	long := strings.Repeat("漢字😀é\"", 6000)
	st.Delta(m.delta(long[:10]))
	st.Delta(m.delta(long[10:]))
	w.subscribe(w.hub, sub("b", "c1", "s").from(-1))
	got := w.wait("c1", "the whole snapshot", func(n *connection) bool {
		return len(n.pushes) > 0 && strings.Contains(n.pushes[len(n.pushes)-1].Event, `"snapshot"`) && !strings.Contains(n.pushes[len(n.pushes)-1].Event, `"more":true`)
	})
	st.Delta(m.delta("end"))
	got = w.wait("c1", "the delta behind it", func(n *connection) bool { return len(n.pushes) == len(got)+1 })
	if got[0].Seq != 0 {
		t.Errorf("first came %+v, want event 0", got[0])
	}
	r := newReader(t)
	for i, g := range got[1:] {
		u := g.update(t)
		r.take(u)
		if last := i == len(got)-2; last != (u.LLMEvent.Type == agent.LLMTextDelta) {
			t.Errorf("push %d is %s", i, u.LLMEvent.Type)
		}
		if g.Size > 32<<10 {
			t.Errorf("push %d has %d bytes", i, g.Size)
		}
		if u.Attempt != 4 || u.MessageID != "m1" {
			t.Errorf("push %d: %+v", i, u)
		}
	}
	if r.blocks[0] != m.text {
		t.Error("the text differs")
	}
	st.Notify(w.append("s", agent.EventMessageComplete))
	w.waitSeq("c1", 1)
	w.subscribe(w.hub, sub("b", "c2", "s").from(-1))
	w.waitSeq("c2", 1)
	w.ok(st.Flush(w.ctx))
	if got := w.got("c2"); len(got) != 2 {
		t.Errorf("a viewer that joined behind the message got %+v, want events alone", got)
	}
}

// TestDraftGoesOnBehindAnEvent: an event in mid-message ends nothing; a viewer
// that joined between gets its snapshot when the message goes on.
func TestDraftGoesOnBehindAnEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.subscribe(w.hub, sub("b", "c1", "s"))
	st := w.hub.Open("s", 1)
	w.waitAttached("s", 1)
	m := writer{message: "m1", attempt: 1}
	st.Delta(m.delta("one "))
	st.Notify(w.append("s", "note"))
	w.waitSeq("c1", 0)
	w.subscribe(w.hub, sub("b", "c2", "s"))
	st.Delta(m.delta("two"))
	for c, want := range map[string][]string{
		"c1": {"text_delta one ", "0", "text_delta two"},
		"c2": {"snapshot one two"},
	} {
		got := w.wait(c, "the rest", func(n *connection) bool { return len(n.pushes) == len(want) })
		var have []string
		for _, g := range got {
			if g.Seq >= 0 {
				have = append(have, fmt.Sprint(g.Seq))
				continue
			}
			e := g.update(t).LLMEvent
			have = append(have, e.Type+" "+e.Delta+e.Text)
		}
		if diff := cmp.Diff(want, have); diff != "" {
			t.Errorf("%s:\n%s", c, diff)
		}
	}
	w.ok(st.Flush(w.ctx))
}

// TestSupersededStepIsIgnored: deltas of an older attempt reach nobody, of
// whichever step.
func TestSupersededStepIsIgnored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.subscribe(w.hub, sub("b", "c1", "s"))
	old := w.hub.Open("s", 1)
	w.waitAttached("s", 1)
	m1 := writer{message: "m1", attempt: 1}
	old.Delta(m1.delta("old"))
	w.wait("c1", "the old delta", func(n *connection) bool { return len(n.pushes) == 1 })
	now := w.hub.Open("s", 2)
	old.Delta(m1.delta(" more"))
	m2 := writer{message: "m1", attempt: 2}
	now.Delta(m2.delta("new"))
	now.Delta(m1.delta("and more")) // a late one of the older attempt
	now.Notify(w.append("s", agent.EventMessageComplete))
	got := w.waitSeq("c1", 0)
	var have []string
	for _, g := range got[:len(got)-1] {
		u := g.update(t)
		have = append(have, fmt.Sprint(u.Attempt, " ", u.LLMEvent.Delta))
	}
	if diff := cmp.Diff([]string{"1 old", "2 new"}, have); diff != "" {
		t.Errorf("deltas:\n%s", diff)
	}
	late := w.hub.Open("s", 1)
	late.Delta(writer{message: "m1", attempt: 1}.once("late"))
	late.Close()
	w.ok(old.Flush(w.ctx))
	w.ok(now.Flush(w.ctx))
	now.Close()
	if n := len(w.got("c1")); n != len(got) {
		t.Errorf("%d entries, want %d", n, len(got))
	}
}

func (m writer) once(text string) agent.MessageUpdate { return m.delta(text) }

// TestManyViewersOfOneSession: each gets all, and a session in memory goes when
// nobody works on it.
func TestManyViewersOfOneSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const viewers, messages = 50, 5
	for i := range viewers {
		s := sub(fmt.Sprintf("b%d", i), fmt.Sprintf("c%d", i), "s")
		s.Batch = i%2 == 0
		if got := w.subscribe(w.hub, s); got.Browsers != i+1 {
			t.Fatalf("browsers = %d, want %d", got.Browsers, i+1)
		}
	}
	st := w.hub.Open("s", 1)
	<-st.loaded
	want := &writer{}
	for n := range messages {
		m := writer{message: fmt.Sprint("m", n), attempt: 1}
		for range 20 {
			st.Delta(m.delta("漢 "))
		}
		want.text = m.text
		st.Notify(w.append("s", agent.EventMessageComplete, agent.EventTurnEnd))
	}
	w.ok(st.Flush(w.ctx))
	for i := range viewers {
		got := w.got(fmt.Sprintf("c%d", i))
		if diff := cmp.Diff(upTo(0, 2*messages-1), seqs(got)); diff != "" {
			t.Errorf("viewer %d:\n%s", i, diff)
		}
	}
	w.waitIdle(w.hub)
}

// waitIdle waits until a hub keeps no session in memory.
func (w *world) waitIdle(h *Hub) {
	w.t.Helper()
	for w.ctx.Err() == nil {
		h.mu.Lock()
		sessions, conns, changing := len(h.sessions), len(h.conns), len(h.changing)
		h.mu.Unlock()
		if sessions+conns+changing == 0 {
			return
		}
		yield()
	}
	w.t.Fatal("the hub keeps sessions that nobody works on")
}

// TestConcurrentSteps: sessions do not wait for one another, and one connection
// never has two posts in flight (which the fake checks).
func TestConcurrentSteps(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const sessions = 12
	var wg sync.WaitGroup
	for i := range sessions {
		w.subscribe(w.hub, sub("b", "shared", fmt.Sprint("s", i)))
	}
	for i := range sessions {
		wg.Go(func() {
			id := fmt.Sprint("s", i)
			st := w.hub.Open(id, 1)
			m := writer{message: "m", attempt: 1}
			for n := range 10 {
				st.Delta(m.delta("x"))
				a := stream.Append{Stream: agent.StreamEvents, Group: id, Base: -1, Events: []stream.LogEvent{{ID: fmt.Sprint(n), Data: []byte(`{}`)}}}
				got, err := w.db.Streams().SubmitAppend(w.ctx, a).Wait(w.ctx)
				if err != nil {
					t.Error(err)
					return
				}
				st.Notify(stream.Head{Tail: got.Seqs[0], Epoch: got.Epoch})
			}
			if err := st.Flush(w.ctx); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	by := map[string][]int64{}
	for _, g := range w.got("shared") {
		if g.Seq >= 0 {
			by[g.Session] = append(by[g.Session], g.Seq)
		}
	}
	for i := range sessions {
		if diff := cmp.Diff(upTo(0, 9), by[fmt.Sprint("s", i)]); diff != "" {
			t.Errorf("session %d:\n%s", i, diff)
		}
	}
}

// TestFlushIsBounded: a viewer that hangs holds the end of a step for the limit
// and no longer, and is served on behind it.
func TestFlushIsBounded(t *testing.T) {
	t.Parallel()
	fake := newFakeClock()
	w := newWorld(t, func(d *Deps) { d.Clock = fake })
	s := sub("b", "c1", "s")
	w.subscribe(w.hub, s)
	open := w.conns.block("c1")
	st := w.hub.Open("s", 1)
	st.Notify(w.append("s", agent.EventAgentEnd))
	done := make(chan error)
	go func() { done <- st.Flush(w.ctx) }()
	fake.BlockUntil(1)
	fake.Advance(w.hub.FlushLimit)
	var lag *LagError
	if err := <-done; !errors.As(err, &lag) || lag.Viewers != 1 || lag.ErrorCode() != "viewers_lag" || lag.Retryable() {
		t.Fatalf("flush = %v, want a LagError of 1 viewer", err)
	}
	if !strings.Contains(lag.Error(), `1 viewers of session "s"`) {
		t.Errorf("text: %s", lag.Error())
	}
	open()
	w.waitSeq("c1", 0)
	w.waitRow(s, "next_seq 1", func(r Row, ok bool) bool { return ok && r.NextSeq == 1 })
	w.waitIdle(w.hub)
}

// TestFlushEndsWithItsContext: and the step has ended then.
func TestFlushEndsWithItsContext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.subscribe(w.hub, sub("b", "c1", "s"))
	defer w.conns.block("c1")()
	st := w.hub.Open("s", 1)
	st.Notify(w.append("s", agent.EventAgentEnd))
	w.wait("c1", "a post that hangs", func(n *connection) bool { return n.waiting == 1 })
	ctx, cancel := context.WithCancel(w.ctx)
	cancel()
	if err := st.Flush(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("flush = %v, want %v", err, context.Canceled)
	}
	s := w.hub.acquire("s")
	defer w.hub.release(s)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.step != nil {
		t.Error("the step goes on")
	}
}

// TestLogMadeAnew: when the log was deleted and begun again, its viewers get
// the new one from its start under the new epoch.
func TestLogMadeAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := sub("b", "c1", "s")
	w.subscribe(w.hub, s)
	st := w.hub.Open("s", 1)
	<-st.loaded // it has read the head of the log that is there
	first := w.append("s", "a", "b", "c")
	st.Notify(first)
	w.waitSeq("c1", 2)
	// The log of another session stands for the one that was made anew.
	second := stream.Head{Tail: 1, Epoch: "another"}
	st.Notify(second)
	got := w.wait("c1", "the new log", func(n *connection) bool { return len(n.pushes) >= 5 })
	if diff := cmp.Diff([]int64{0, 1, 2, 0, 1}, seqs(got)); diff != "" {
		t.Errorf("sequences:\n%s", diff)
	}
	if got[2].Epoch != first.Epoch || got[3].Epoch != "another" {
		t.Errorf("epochs %q, %q", got[2].Epoch, got[3].Epoch)
	}
	st.Close()
	w.waitRow(s, "the new epoch", func(r Row, ok bool) bool { return ok && r.Epoch == "another" && r.NextSeq == 2 })
}
