package viewer

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
)

// TestA40SessionAndAllSubscribers: a viewer of a session gets its events and
// deltas, one of all sessions the events of those that it may see, and no
// deltas.
func TestA40SessionAndAllSubscribers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.own("mine", "u")
	w.own("other", "v")
	w.subscribe(w.hub, sub("b1", "session", "mine"))
	w.subscribe(w.hub, sub("b2", "all", ""))
	approver := sub("b3", "approver", "")
	approver.Principal = bus.Principal{ID: "a", Role: bus.RoleApprover, Sessions: []string{"oth*"}}
	w.subscribe(w.hub, approver)
	if got := w.subscribe(w.hub, sub("b4", "operator", "").operator()); got.Browsers != 4 || got.Position != nil {
		t.Fatalf("subscribed = %+v", got)
	}
	for _, id := range []string{"mine", "other"} {
		st := w.hub.Open(id, 1)
		<-st.loaded
		st.Notify(w.append(id, "a"))
		m := writer{message: "m", attempt: 1}
		st.Delta(m.delta("x"))
		if id == "mine" {
			w.wait("session", "the delta", func(n *connection) bool { return len(n.pushes) == 2 })
		}
		st.Notify(w.append(id, "b"))
		w.ok(st.Flush(w.ctx))
	}
	for c, want := range map[string][]string{
		"session":  {"mine 0", "mine -1", "mine 1"},
		"all":      {"mine 0", "mine 1"},
		"approver": {"other 0", "other 1"},
		"operator": {"mine 0", "mine 1", "other 0", "other 1"},
	} {
		var have []string
		for _, g := range w.got(c) {
			have = append(have, fmt.Sprint(g.Session, " ", g.Seq))
		}
		if diff := cmp.Diff(want, have); diff != "" {
			t.Errorf("%s:\n%s", c, diff)
		}
	}
	// Its place is kept per session, so that nothing comes twice.
	w.append("mine", "c")
	w.ok(w.hub.Serve(w.ctx, "mine"))
	if diff := cmp.Diff([]int64{0, 1, 2}, seqs(w.waitSeq("all", 2))); diff != "" {
		t.Errorf("all:\n%s", diff)
	}
}

// TestA40EvictsWhoHasNotRegistered: a connection that does not serve the id
// loses its row, others keep theirs.
func TestA40EvictsWhoHasNotRegistered(t *testing.T) {
	t.Parallel()
	fake := newFakeClock()
	w := newWorld(t, func(d *Deps) { d.Clock = fake })
	w.own("s", "u")
	// Another connection registers the same id: it gets nothing of it.
	w.conns.with("c1", func(n *connection) { n.refuses["ui::session::event::b"] = true })
	bad, all, good := sub("b", "c1", "s"), sub("b", "c1", ""), sub("b", "c2", "s")
	for _, s := range []Subscription{bad, all, good} {
		w.subscribe(w.hub, s)
	}
	fake.Advance(w.hub.RegisterGrace)
	st := w.hub.Open("s", 1)
	st.Notify(w.append("s", "a"))
	w.ok(st.Flush(w.ctx))
	w.waitRow(bad, "the eviction", func(_ Row, ok bool) bool { return !ok })
	if _, ok := w.row(good); !ok {
		t.Error("the other connection lost its row as well")
	}
	if diff := cmp.Diff([]int64{0}, seqs(w.got("c2"))); diff != "" {
		t.Errorf("c2:\n%s", diff)
	}
	// Without its own subscription the one of all sessions counts, and goes.
	w.append("s", "b")
	w.ok(w.hub.Serve(w.ctx, "s"))
	w.waitRow(all, "the eviction", func(_ Row, ok bool) bool { return !ok })
	w.waitIdle(w.hub)
	if n := w.hub.Browsers(); n != 1 {
		t.Errorf("%d browsers, want 1", n)
	}
	if len(w.got("c1")) != 0 {
		t.Errorf("c1 got %+v", w.got("c1"))
	}
}

// TestRegisteringMayComeLate: a connection may subscribe before the bus has
// taken its registrations.
func TestRegisteringMayComeLate(t *testing.T) {
	t.Parallel()
	fake := newFakeClock()
	w := newWorld(t, func(d *Deps) { d.Clock = fake })
	w.append("s", "a")
	w.conns.with("c1", func(n *connection) { n.refuses["ui::session::event::b"] = true })
	w.subscribe(w.hub, sub("b", "c1", "s").from(-1))
	w.wait("c1", "a second try", func(n *connection) bool { return n.posts >= 2 })
	w.conns.with("c1", func(n *connection) { n.refuses = map[string]bool{} })
	for len(w.got("c1")) == 0 {
		fake.Advance(firstPause)
		yield()
	}
}

// TestA40SessionsChanged: only viewers of all sessions that may see the session
// hear of it, once.
func TestA40SessionsChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.own("new", "u")
	w.subscribe(w.hub, sub("b1", "session", "new"))
	w.subscribe(w.hub, sub("b2", "all", ""))
	w.subscribe(w.hub, sub("b3", "operator", "").operator())
	stranger := sub("b4", "stranger", "")
	stranger.Principal.ID = "v"
	w.subscribe(w.hub, stranger)
	w.subscribe(w.hub, sub("b5", "gone", "").operator())
	w.conns.with("gone", func(n *connection) { n.gone = true })
	w.subscribe(w.hub, sub("b6", "deaf", "").operator())
	w.conns.with("deaf", func(n *connection) { n.refuses["ui::sessions::changed::b6"] = true })
	for range 3 {
		w.ok(w.hub.Announce(w.ctx, "new"))
	}
	for c, want := range map[string]string{"all": "b2", "operator": "b3"} {
		got := w.got(c)
		if len(got) != 1 || got[0].Function != "ui::sessions::changed::"+want || got[0].Event != `{"added":["new"],"removed":[]}` {
			t.Errorf("%s got %+v", c, got)
		}
	}
	for _, c := range []string{"session", "stranger", "gone", "deaf"} {
		if got := w.got(c); len(got) != 0 {
			t.Errorf("%s got %+v", c, got)
		}
	}
	w.waitRow(sub("b5", "gone", ""), "the eviction", func(_ Row, ok bool) bool { return !ok })
	if _, ok := w.row(sub("b6", "deaf", "")); !ok {
		t.Error("a viewer that does not want to hear of sessions lost its row")
	}
	// Who subscribes again hears of it again.
	w.subscribe(w.hub, sub("b2", "all", ""))
	w.ok(w.hub.Announce(w.ctx, "new"))
	if n := len(w.got("all")); n != 2 {
		t.Errorf("%d announcements after a second subscription, want 2", n)
	}
}

// TestAnnounceDoesNotWaitForSlowViewers: beyond the limit, or its caller.
func TestAnnounceDoesNotWaitForSlowViewers(t *testing.T) {
	t.Parallel()
	fake := newFakeClock()
	w := newWorld(t, func(d *Deps) { d.Clock = fake })
	w.subscribe(w.hub, sub("b", "slow", "").operator())
	open := w.conns.block("slow")
	done := make(chan error)
	go func() { done <- w.hub.Announce(w.ctx, "s1") }()
	fake.BlockUntil(1)
	fake.Advance(w.hub.FlushLimit)
	w.ok(<-done)
	ctx, cancel := contextOf(w)
	go func() { done <- w.hub.Announce(ctx, "s2") }()
	fake.BlockUntil(1)
	cancel()
	if err := <-done; !errors.Is(err, ctx.Err()) {
		t.Errorf("announce = %v, want %v", err, ctx.Err())
	}
	open()
	w.wait("slow", "both", func(n *connection) bool { return len(n.pushes) == 2 })
}

// TestAllSubscriberMeetsARunningStep: it is served at once.
func TestAllSubscriberMeetsARunningStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	st := w.hub.Open("s", 1)
	st.Notify(w.append("s", "before"))
	<-st.loaded
	m := writer{message: "m", attempt: 1}
	st.Delta(m.delta("x"))
	w.subscribe(w.hub, sub("b", "c1", "").operator())
	st.Notify(w.append("s", "after"))
	w.ok(st.Flush(w.ctx))
	got := seqs(w.waitSeq("c1", 1))
	if got[len(got)-1] != 1 || len(w.got("c1")) != len(got) {
		t.Errorf("got %v of %+v", got, w.got("c1"))
	}
}

// TestAllSubscriberStartsWhereItSubscribed: of a session that it meets for the
// first time it gets what was stored since, but not all that was before.
func TestAllSubscriberStartsWhereItSubscribed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 100 {
		w.append("old", "x")
	}
	row := Row{ID: "r", BrowserID: "b", Connection: "c1", Principal: bus.Principal{ID: "op", Role: bus.RoleOperator},
		AtMS: w.hub.now() + time.Hour.Milliseconds()}
	_, err := state.Do(w.ctx, w.state, w.hub.write(row))
	w.ok(err)
	w.ok(w.hub.Serve(w.ctx, "old"))
	w.waitIdle(w.hub)
	if got := w.got("c1"); len(got) != 0 {
		t.Errorf("got %d events of before the subscription", len(got))
	}
	row.ID, row.AtMS = "r2", 1
	_, err = state.Do(w.ctx, w.state, w.hub.write(row))
	w.ok(err)
	w.ok(w.hub.Serve(w.ctx, "old"))
	if diff := cmp.Diff(upTo(100-lookBack, 99), seqs(w.waitSeq("c1", 99))); diff != "" {
		t.Errorf("a subscription older than all events:\n%s", diff)
	}
}

// TestUnsubscribe: ends one subscription, of that connection.
func TestUnsubscribe(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.own("s", "u")
	s, all, other := sub("b", "c1", "s"), sub("b", "c1", ""), sub("b", "c2", "s")
	for _, s := range []Subscription{s, all, other} {
		w.subscribe(w.hub, s)
	}
	unsubscribe := func(s Subscription, want int) {
		t.Helper()
		n, err := w.hub.Unsubscribe(w.ctx, s)
		if err != nil || n != want {
			t.Errorf("unsubscribe = %d, %v; want %d", n, err, want)
		}
	}
	st := w.hub.Open("s", 1)
	<-st.loaded
	unsubscribe(s, 1)
	if _, ok := w.row(other); !ok {
		t.Error("the other connection lost its row")
	}
	st.Notify(w.append("s", "a"))
	w.waitSeq("c2", 0)
	unsubscribe(sub("unknown", "c1", "s"), 1)
	unsubscribe(all, 1)
	// A connection without one ends those of the same principal and browser:
	// it may have reconnected since.
	stranger := sub("b", "c9", "s")
	stranger.Principal.ID = "v"
	unsubscribe(stranger, 1)
	unsubscribe(sub("b", "c3", "s"), 0)
	st.Notify(w.append("s", "b"))
	w.ok(st.Flush(w.ctx))
	if diff := cmp.Diff([]int64{0}, seqs(w.got("c2"))); diff != "" {
		t.Errorf("c2:\n%s", diff)
	}
	rows, err := w.hub.rows(w.ctx, "s")
	w.ok(err)
	if len(rows) != 0 {
		t.Errorf("rows left: %+v", rows)
	}
}

// TestUnsubscribeAllEndsItsPlaces: in sessions that are being served, and later.
func TestUnsubscribeAllEndsItsPlaces(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	all := sub("b", "c1", "").operator()
	w.subscribe(w.hub, all)
	st := w.hub.Open("s", 1)
	st.Notify(w.append("s", "a"))
	w.ok(st.Flush(w.ctx))
	w.waitIdle(w.hub)
	st = w.hub.Open("s", 2)
	<-st.loaded
	_, err := w.hub.Unsubscribe(w.ctx, all)
	w.ok(err)
	st.Notify(w.append("s", "b"))
	w.ok(st.Flush(w.ctx))
	w.ok(w.hub.Serve(w.ctx, "s"))
	if diff := cmp.Diff([]int64{0}, seqs(w.got("c1"))); diff != "" {
		t.Errorf("c1:\n%s", diff)
	}
	rows, err := w.hub.rows(w.ctx, "s")
	w.ok(err)
	if len(rows) != 0 {
		t.Errorf("places left: %+v", rows)
	}
}

// TestForget: a connection that is gone loses all of its subscriptions.
func TestForget(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	subs := []Subscription{sub("b", "c1", "s"), sub("b2", "c1", "s"), sub("b", "c1", "s2"), sub("b", "c1", "")}
	for _, s := range append(subs, sub("b", "c2", "s")) {
		w.subscribe(w.hub, s)
	}
	w.ok(w.hub.Forget(w.ctx, "c1"))
	for _, s := range subs {
		if _, ok := w.row(s); ok {
			t.Errorf("row of %+v is left", s)
		}
	}
	if n := w.hub.Browsers(); n != 1 {
		t.Errorf("%d browsers, want 1", n)
	}
	w.ok(w.hub.Forget(w.ctx, "c1"))
}

// TestForgetDuringSubscribe: a subscription that is being made when its
// connection goes is not left behind, since nobody forgets it a second time.
func TestForgetDuringSubscribe(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.append("s", "a")
	open := w.conns.block("c1")
	one, every := sub("b", "c1", "s").from(-1), sub("b", "c1", "")
	done := make(chan error)
	go func() {
		_, err := w.hub.Subscribe(w.ctx, one)
		done <- err
	}()
	w.wait("c1", "the replay", func(n *connection) bool { return n.waiting == 1 })
	w.ok(w.hub.Forget(w.ctx, "c1"))
	open()
	if err := <-done; !errors.Is(err, bus.ErrGone) {
		t.Errorf("subscribe = %v, want %v", err, bus.ErrGone)
	}
	if _, err := w.hub.Subscribe(w.ctx, every); !errors.Is(err, bus.ErrGone) {
		t.Errorf("subscribe to all = %v, want %v", err, bus.ErrGone)
	}
	for _, s := range []Subscription{one, every} {
		if r, ok := w.row(s); ok {
			t.Errorf("row left: %+v", r)
		}
	}
	if n := w.hub.Browsers(); n != 0 {
		t.Errorf("%d browsers, want 0", n)
	}
}

// TestGoneConnectionLosesAllItsRows, also those of sessions where nothing is
// posted.
func TestGoneConnectionLosesAllItsRows(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, quiet := sub("b", "c1", "s"), sub("b", "c1", "quiet")
	w.subscribe(w.hub, s)
	w.subscribe(w.hub, quiet)
	w.conns.with("c1", func(n *connection) { n.gone = true })
	st := w.hub.Open("s", 1)
	st.Notify(w.append("s", "a"))
	w.ok(st.Flush(w.ctx))
	for _, s := range []Subscription{s, quiet} {
		w.waitRow(s, "the eviction", func(_ Row, ok bool) bool { return !ok })
	}
}

// TestRowsExpire: and those that are used do not.
func TestRowsExpire(t *testing.T) {
	t.Parallel()
	fake := newFakeClock()
	w := newWorld(t, func(d *Deps) { d.Clock = fake; d.RowTTL = time.Hour })
	s, all := sub("b", "c1", "s"), sub("b", "c1", "").operator()
	w.subscribe(w.hub, s)
	w.subscribe(w.hub, all)
	expires := func(s Subscription) time.Time {
		t.Helper()
		r, ok, err := w.hub.row(w.ctx, Row{BrowserID: s.Browser, Connection: s.Connection, SessionID: s.Session})
		if err != nil || !ok {
			t.Fatalf("row of %+v: %v, %v", s, ok, err)
		}
		return r.expires
	}
	if got, want := expires(s), fake.Now().Add(time.Hour); !got.Equal(want) {
		t.Errorf("expires at %v, want %v", got, want)
	}
	before := expires(all)
	fake.Advance(40 * time.Minute)
	w.append("s", "a")
	w.ok(w.hub.Serve(w.ctx, "s"))
	w.waitRow(s, "next_seq 1", func(r Row, ok bool) bool { return ok && r.NextSeq == 1 })
	w.waitRow(all, "a renewal", func(Row, bool) bool { return expires(all).After(before) })
	if got, want := expires(s), fake.Now().Add(time.Hour); !got.Equal(want) {
		t.Errorf("expires at %v, want %v", got, want)
	}
}

// TestForeignRowsAreLeftOut: rows that this code cannot read harm nobody.
func TestForeignRowsAreLeftOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i, v := range []string{`7`, `{"id":"x"}`, `{"id":"x","connection":"c","session_id":"t"}`} {
		_, err := state.Do(w.ctx, w.state, state.Set(agent.ScopeSubscriptions+"s", fmt.Sprint(i), json.RawMessage(v)))
		w.ok(err)
	}
	_, err := state.Do(w.ctx, w.state, state.Set(agent.ScopeSubscriptions+"s", "s/c9/b", json.RawMessage(`[]`)))
	w.ok(err)
	w.subscribe(w.hub, sub("b", "c1", "s"))
	w.append("s", "a")
	w.ok(w.hub.Serve(w.ctx, "s"))
	w.waitSeq("c1", 0)
	if _, err := w.hub.Unsubscribe(w.ctx, sub("b", "c9", "s")); err != nil {
		t.Error(err)
	}
}
