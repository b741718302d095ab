package viewer

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/engine/stream"
	"github.com/iii-aws/harness/internal/agent"
)

// lambda is a hub of a process of its own.
func lambda(held *atomic.Bool) func(*Deps) {
	return func(d *Deps) {
		d.Freezes = true
		d.Elsewhere = func(context.Context, string) (bool, error) { return held.Load(), nil }
	}
}

// TestSubscriptionOfAnotherProcess: it is left to the step that holds the turn,
// which sees it when the control item's rev has risen.
func TestSubscriptionOfAnotherProcess(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var held, never atomic.Bool
	front, step := w.newHub(lambda(&held)), w.newHub(lambda(&never))
	held.Store(true)
	w.append("s", "a", "b")
	st := step.Open("s", 1)
	<-st.loaded
	s := sub("b", "c1", "s").from(-1)
	w.subscribe(front, s)
	if diff := cmp.Diff([]int64{0, 1}, seqs(w.got("c1"))); diff != "" {
		t.Errorf("replay:\n%s", diff)
	}
	item, ok, err := w.state.Get(w.ctx, state.Key{Scope: agent.ScopeControl, Key: "s"})
	if err != nil || !ok || string(item.Value) != `{"rev":1}` {
		t.Errorf("control item %s, %v, %v; want rev 1", item.Value, ok, err)
	}
	m := writer{message: "m", attempt: 1}
	st.Delta(m.delta("x"))
	w.ok(st.Refresh(w.ctx))
	w.wait("c1", "the snapshot", func(n *connection) bool { return len(n.pushes) == 3 })
	st.Notify(w.append("s", "c"))
	w.ok(st.Flush(w.ctx))
	if diff := cmp.Diff([]int64{0, 1, 2}, seqs(w.got("c1"))); diff != "" {
		t.Errorf("events:\n%s", diff)
	}
	// The step has stored how far it got before it returned.
	if r, ok := w.row(s); !ok || r.NextSeq != 3 {
		t.Errorf("row %+v, want next_seq 3", r)
	}
}

// TestWhoeverComesSecondServes: subscriptions of one process and the end of a
// step of another, at every order of what they do.
func TestWhoeverComesSecondServes(t *testing.T) {
	t.Parallel()
	for range 40 {
		w := newWorld(t)
		var held, never atomic.Bool
		front, step := w.newHub(lambda(&held)), w.newHub(lambda(&never))
		held.Store(true)
		st := step.Open("s", 1)
		done := make(chan error)
		go func() {
			_, err := front.Subscribe(w.ctx, sub("b", "c1", "s").from(-1))
			done <- err
		}()
		held.Store(false) // the record says that the turn has ended
		st.Notify(w.append("s", "a", agent.EventAgentEnd))
		w.ok(st.Flush(w.ctx))
		w.ok(<-done)
		have := map[int64]bool{}
		for _, seq := range seqs(w.got("c1")) {
			have[seq] = true
		}
		if !have[0] || !have[1] {
			t.Fatalf("the viewer got %v when both had ended, want 0 and 1", have)
		}
	}
}

// TestServeLeavesItToAStepElsewhere: which is made to look.
func TestServeLeavesItToAStepElsewhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var held atomic.Bool
	front := w.newHub(lambda(&held))
	w.subscribe(front, sub("b", "c1", "s"))
	held.Store(true)
	w.append("s", "a")
	w.ok(front.Serve(w.ctx, "s"))
	if got := w.got("c1"); len(got) != 0 {
		t.Errorf("got %+v", got)
	}
	item, _, err := w.state.Get(w.ctx, state.Key{Scope: agent.ScopeControl, Key: "s"})
	if err != nil || string(item.Value) != `{"rev":2}` {
		t.Errorf("control item %s, %v; want rev 2", item.Value, err)
	}
	held.Store(false)
	w.ok(front.Serve(w.ctx, "s"))
	if diff := cmp.Diff([]int64{0}, seqs(w.got("c1"))); diff != "" {
		t.Errorf("events, when the call returns:\n%s", diff)
	}
}

// TestUnknownTurnIsServed: an event twice is better than none.
func TestUnknownTurnIsServed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	front := w.newHub(func(d *Deps) {
		d.Elsewhere = func(context.Context, string) (bool, error) { return true, errors.New("boom") }
	})
	w.subscribe(front, sub("b", "c1", "s"))
	w.append("s", "a")
	w.ok(front.Serve(w.ctx, "s"))
	w.waitSeq("c1", 0)
}

// TestSlowViewerDoesNotHoldAFreezingProcess beyond the limit.
func TestSlowViewerDoesNotHoldAFreezingProcess(t *testing.T) {
	t.Parallel()
	fake := newFakeClock()
	w := newWorld(t)
	front := w.newHub(func(d *Deps) { d.Freezes, d.Clock = true, fake })
	s := sub("b", "c1", "s")
	w.subscribe(front, s)
	open := w.conns.block("c1")
	w.append("s", "a")
	done := make(chan error)
	go func() { done <- front.Serve(w.ctx, "s") }()
	fake.BlockUntil(1)
	fake.Advance(front.FlushLimit)
	w.ok(<-done)
	if r, ok := w.row(s); !ok || r.NextSeq != 0 {
		t.Errorf("row %+v, want next_seq 0", r)
	}
	open()
	w.waitSeq("c1", 0)
}

// TestPlaceOfAnotherProcessIsNotTakenBack: a save that is late changes nothing.
func TestPlaceOfAnotherProcessIsNotTakenBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := sub("b", "c1", "s")
	w.subscribe(w.hub, s)
	row, _ := w.row(s)
	row.NextSeq = 7
	w.ok(w.hub.advance(w.ctx, row))
	row.NextSeq = 5
	w.ok(w.hub.advance(w.ctx, row))
	if now, _ := w.row(s); now.NextSeq != 7 {
		t.Errorf("next_seq = %d, want 7", now.NextSeq)
	}
	row.NextSeq, row.Epoch = 2, "another log"
	w.ok(w.hub.advance(w.ctx, row))
	if now, _ := w.row(s); now.NextSeq != 2 {
		t.Errorf("next_seq = %d, want 2", now.NextSeq)
	}
	w.ok(w.hub.remove(w.ctx, row))
	w.ok(w.hub.advance(w.ctx, row))
	if _, ok := w.row(s); ok {
		t.Error("a subscription that has ended is back")
	}
}

// TestConcurrentSavesMeet: each of two processes that save at once ends, with
// the further place stored.
func TestConcurrentSavesMeet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := sub("b", "c1", "s")
	w.subscribe(w.hub, s)
	row, _ := w.row(s)
	done := make(chan error)
	const n = 8
	for i := range int64(n) {
		go func() {
			r := row
			r.NextSeq = i + 1
			done <- w.hub.advance(w.ctx, r)
		}()
	}
	conflicts := 0
	for range n {
		if err := <-done; isConflict(err) {
			conflicts++
		} else {
			w.ok(err)
		}
	}
	if now, ok := w.row(s); !ok || now.NextSeq < 1 || conflicts > 0 {
		t.Errorf("row %+v, %d conflicts", now, conflicts)
	}
}

// TestStoresThatFail: who asked hears of it; a step goes on without viewers and
// finds them later.
func TestStoresThatFail(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	fs := &failingState{}
	log := &failingStream{}
	w := newWorld(t, func(d *Deps) {
		fs.Store, log.Store = d.State, d.Stream
		d.State, d.Stream = fs, log
	})
	w.own("s", "u")
	s := sub("b", "c1", "s")
	w.subscribe(w.hub, s)
	w.subscribe(w.hub, sub("b2", "c2", ""))
	set := func(list func(string) error, get func(state.Key) error) {
		fs.mu.Lock()
		defer fs.mu.Unlock()
		fs.list, fs.get = list, get
	}
	scope := func(bad string) func(string) error {
		return func(s string) error {
			if s == bad {
				return boom
			}
			return nil
		}
	}
	key := func(bad string) func(state.Key) error {
		return func(k state.Key) error {
			if k.Scope == bad {
				return boom
			}
			return nil
		}
	}
	sees := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, boom) {
			t.Errorf("%s = %v, want %v", what, err, boom)
		}
	}
	set(scope("ui_subscriptions:s"), nil)
	sees("serve", w.hub.Serve(w.ctx, "s"))
	st := w.hub.Open("s", 1)
	st.Notify(w.append("s", "a"))
	sees("flush", st.Flush(w.ctx))
	_, err := w.hub.Unsubscribe(w.ctx, sub("b", "unknown", "s"))
	sees("unsubscribe", err)
	set(scope("ui_subscriptions:"), nil)
	sees("serve", w.hub.Serve(w.ctx, "s"))
	sees("announce", w.hub.Announce(w.ctx, "s"))
	set(nil, key(agent.ScopeSessionTreeMeta))
	sees("serve", w.hub.Serve(w.ctx, "s"))
	sees("announce", w.hub.Announce(w.ctx, "s"))
	_, _, err = Owner(w.ctx, fs, "s")
	sees("owner", err)
	set(nil, key("ui_subscriptions:s"))
	_, err = w.hub.Unsubscribe(w.ctx, s)
	sees("unsubscribe", err)
	sees("forget", w.hub.Forget(w.ctx, "c1"))
	sees("advance", w.hub.advance(w.ctx, Row{SessionID: "s", Connection: "c1", BrowserID: "b"}))
	set(nil, nil)
	log.heads = []error{boom}
	sees("serve", w.hub.Serve(w.ctx, "s"))
	log.heads = []error{boom}
	_, err = w.hub.Subscribe(w.ctx, s)
	sees("subscribe", err)
	log.reads = []error{boom}
	_, err = w.hub.Subscribe(w.ctx, s.from(-1))
	sees("subscribe", err)
	w.ok(w.hub.Serve(w.ctx, "s"))
	w.waitSeq("c2", 0)
	w.waitIdle(w.hub)
	if !strings.Contains(w.logged(), "viewers not read") {
		t.Errorf("log: %s", w.logged())
	}
}

// TestOwner of a session that is there, is not, or cannot be read.
func TestOwner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.own("s", "u")
	if owner, ok, err := Owner(w.ctx, w.state, "s"); owner != "u" || !ok || err != nil {
		t.Errorf("owner = %q, %v, %v", owner, ok, err)
	}
	if owner, ok, err := Owner(w.ctx, w.state, "none"); owner != "" || ok || err != nil {
		t.Errorf("owner = %q, %v, %v", owner, ok, err)
	}
	_, err := state.Do(w.ctx, w.state, state.Set(agent.ScopeSessionTreeMeta, "broken", []byte(`7`)))
	w.ok(err)
	if _, _, err := Owner(w.ctx, w.state, "broken"); err == nil {
		t.Error("a row that is no session was read")
	}
}

// TestSaveThatFails is made up for by the next.
func TestSaveThatFails(t *testing.T) {
	t.Parallel()
	fs := &failingState{}
	w := newWorld(t, func(d *Deps) { fs.Store = d.State; d.State = fs })
	s := sub("b", "c1", "s")
	w.subscribe(w.hub, s)
	fs.mu.Lock()
	fs.get = func(k state.Key) error { return errors.New("boom") }
	fs.mu.Unlock()
	st := w.hub.Open("s", 1)
	st.Notify(w.append("s", "a"))
	w.ok(st.Flush(w.ctx))
	w.waitIdle(w.hub)
	if !strings.Contains(w.logged(), "subscription not stored") {
		t.Errorf("log: %s", w.logged())
	}
	fs.mu.Lock()
	fs.get = nil
	fs.mu.Unlock()
	w.append("s", "b")
	w.ok(w.hub.Serve(w.ctx, "s"))
	w.waitRow(s, "next_seq 2", func(r Row, ok bool) bool { return ok && r.NextSeq == 2 })
}

// panicking panics instead of posting.
type panicking struct{}

func (panicking) Post(context.Context, bus.Push) error { panic("boom") }

// TestPanicEndsOnePump: and is told.
func TestPanicEndsOnePump(t *testing.T) {
	t.Parallel()
	alarms := make(chan string, 1)
	w := newWorld(t, func(d *Deps) {
		d.Poster = panicking{}
		d.Alarm = func(name string) { alarms <- name }
	})
	w.subscribe(w.hub, sub("b", "c1", "s"))
	st := w.hub.Open("s", 1)
	st.Notify(w.append("s", "a"))
	if name := <-alarms; name != "viewer_panic" {
		t.Errorf("alarm %q", name)
	}
	w.ok(st.Flush(w.ctx))
	w.waitIdle(w.hub)
}

// TestClosedHub: posts nothing any more, and what it is told harms nobody.
func TestClosedHub(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := sub("b", "c1", "s")
	w.subscribe(w.hub, s)
	w.subscribe(w.hub, sub("b", "c2", "").operator())
	open := w.conns.block("c1")
	old := w.hub.Open("s", 1)
	old.Notify(w.append("s", "a"))
	w.wait("c1", "a post that hangs", func(n *connection) bool { return n.waiting == 1 })
	w.ok(w.hub.Close(w.ctx))
	open()
	st := w.hub.Open("s", 2)
	st.Notify(w.append("s", "b"))
	st.Delta(writer{message: "m"}.once("x"))
	if err := st.Flush(w.ctx); err != nil {
		t.Errorf("flush = %v", err)
	}
	old.Close()
	w.ok(w.hub.Announce(w.ctx, "s"))
	w.subscribe(w.hub, sub("b", "c3", "").operator())
	if r, ok := w.row(s); !ok || r.NextSeq != 0 || len(w.got("c1")) != 0 {
		t.Errorf("row %+v, got %+v; want the event still owed", r, w.got("c1"))
	}
	ctx, cancel := context.WithCancel(w.ctx)
	cancel()
	w.hub.wg.Add(1)
	if err := w.hub.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("close = %v, want %v", err, context.Canceled)
	}
	w.hub.wg.Done()
}

func TestNewNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	full := Deps{State: w.state, Stream: w.db.Streams(), Blobs: w.db.Blobs(), Poster: w.conns, Clock: clock.System(), IDs: clock.Random()}
	for name, drop := range map[string]func(*Deps){
		"State":  func(d *Deps) { d.State = nil },
		"Stream": func(d *Deps) { d.Stream = nil },
		"Blobs":  func(d *Deps) { d.Blobs = nil },
		"Poster": func(d *Deps) { d.Poster = nil },
		"Clock":  func(d *Deps) { d.Clock = nil },
		"IDs":    func(d *Deps) { d.IDs = nil },
	} {
		d := full
		drop(&d)
		if _, err := New(d); err == nil || !strings.Contains(err.Error(), "Deps."+name+" is required") {
			t.Errorf("without %s: %v", name, err)
		}
	}
	h, err := New(full)
	w.ok(err)
	h.alarm("x", "nobody listens")
	w.ok(h.Close(w.ctx))
}

func TestRecentForgetsTheOldest(t *testing.T) {
	t.Parallel()
	r := newRecent(2)
	for i, tt := range []struct {
		text string
		want bool
	}{{"a", true}, {"b", true}, {"a", false}, {"c", true}, {"b", false}, {"a", true}, {"c", false}} {
		if got := r.add(tt.text); got != tt.want {
			t.Errorf("%d: add(%s) = %v, want %v", i, tt.text, got, tt.want)
		}
	}
}

// TestSeqOf an item.
func TestSeqOf(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]int64{"s-00000012": 12, "a-b-c-00000000": 0, "odd": 77, "odd-x": 77, "s--1": 1} {
		if got := seqOf(stream.Item{Key: stream.Key{Item: id}}, 77); got != want {
			t.Errorf("%s: %d, want %d", id, got, want)
		}
	}
}

// TestAlone: a hub that is alone reads the rows once per step.
func TestAlone(t *testing.T) {
	t.Parallel()
	fs := &failingState{}
	var lists atomic.Int64
	w := newWorld(t, func(d *Deps) { fs.Store = d.State; d.State = fs; d.Alone = true })
	fs.list = func(string) error { lists.Add(1); return nil }
	w.subscribe(w.hub, sub("b", "c1", "s"))
	st := w.hub.Open("s", 1)
	w.subscribe(w.hub, sub("b", "c2", "s"))
	st.Notify(w.append("s", "a"))
	w.ok(st.Flush(w.ctx))
	for _, c := range []string{"c1", "c2"} {
		if diff := cmp.Diff([]int64{0}, seqs(w.got(c))); diff != "" {
			t.Errorf("%s:\n%s", c, diff)
		}
	}
	if n := lists.Load(); n > 4 { // twice two scopes, if a subscription came between
		t.Errorf("%d lists, want at most 4", n)
	}
}
