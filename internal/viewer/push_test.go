package viewer

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/internal/agent"
)

// TestLargeEventGoesAsBlob: to a connection with a small frame limit; the events
// around it come as they are, in order.
func TestLargeEventGoesAsBlob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.conns.limit = 32 << 10
	large := `{"type":"function_execution_end","text":"` + strings.Repeat("😀", 20<<10) + `"}`
	odd := `["` + strings.Repeat("x", 40<<10) + `"]`
	w.appendRaw("s", []byte(`{"type":"a"}`), []byte(large), []byte(`{"type":"b"}`), []byte(odd))
	for _, s := range []Subscription{sub("b", "single", "s"), sub("b", "batch", "s").batched()} {
		w.subscribe(w.hub, s.from(-1))
		got := w.waitSeq(s.Connection, 3)
		if diff := cmp.Diff(upTo(0, 3), seqs(got)); diff != "" {
			t.Fatalf("%s:\n%s", s.Connection, diff)
		}
		var p struct {
			Type string `json:"type"`
			Blob struct {
				ID   string `json:"id"`
				Size int    `json:"size"`
				MIME string `json:"mime"`
			} `json:"$blob"`
		}
		w.ok(json.Unmarshal([]byte(got[1].Event), &p))
		if p.Type != "function_execution_end" || p.Blob.Size != len(large) || p.Blob.MIME != "application/json" {
			t.Errorf("%s: pointer %s", s.Connection, got[1].Event)
		}
		_, session, err := w.db.Blobs().Stat(w.ctx, p.Blob.ID)
		if err != nil || session != "s" {
			t.Errorf("blob of session %q, %v", session, err)
		}
		r, err := w.db.Blobs().Open(w.ctx, p.Blob.ID, 0)
		w.ok(err)
		text, err := io.ReadAll(r)
		w.ok(err)
		w.ok(r.Close())
		if string(text) != large {
			t.Error("the blob differs from the event")
		}
		if !strings.HasPrefix(got[3].Event, `{"type":"","$blob":`) {
			t.Errorf("an event without a type went as %s", got[3].Event)
		}
	}
}

// TestBatchIsTakenApartForASmallFrame: when the connection takes less than a
// batch has.
func TestBatchIsTakenApartForASmallFrame(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.conns.limit = 400
	types := make([]string, 20)
	w.append("s", types...)
	w.subscribe(w.hub, sub("b", "c1", "s").from(-1).batched())
	got := w.waitSeq("c1", 19)
	if diff := cmp.Diff(upTo(0, 19), seqs(got)); diff != "" {
		t.Errorf("events:\n%s", diff)
	}
	for _, g := range got {
		if g.Size > 400 || strings.Contains(g.Event, "$blob") {
			t.Errorf("push %+v", g)
		}
	}
}

// TestDeltaThatDoesNotFitIsLost: and the events behind it are not.
func TestDeltaThatDoesNotFitIsLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.conns.limit = 400
	w.subscribe(w.hub, sub("b", "c1", "s"))
	st := w.hub.Open("s", 1)
	w.waitAttached("s", 1)
	m := writer{message: "m", attempt: 1}
	st.Delta(m.delta(strings.Repeat("x", 1000)))
	w.wait("c1", "the refusal", func(n *connection) bool { return n.posts == 1 })
	st.Notify(w.append("s", agent.EventMessageComplete))
	w.ok(st.Flush(w.ctx))
	if got := w.got("c1"); len(got) != 1 || got[0].Seq != 0 {
		t.Errorf("got %+v", got)
	}
}

// TestConnectionThatTakesNothingIsEvicted: nothing stays stuck at the head of a
// log.
func TestConnectionThatTakesNothingIsEvicted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.conns.limit = 60
	s := sub("b", "c1", "s")
	w.subscribe(w.hub, s)
	st := w.hub.Open("s", 1)
	st.Notify(w.append("s", "a"))
	w.ok(st.Flush(w.ctx))
	w.waitRow(s, "the eviction", func(_ Row, ok bool) bool { return !ok })
}

// TestFailuresAreTriedAgain: of the connection, the log and the blobs, with
// growing pauses, in order.
func TestFailuresAreTriedAgain(t *testing.T) {
	t.Parallel()
	fake := newFakeClock()
	boom := errors.New("boom")
	blobs := &failingBlobs{errs: []error{boom}}
	log := &failingStream{}
	w := newWorld(t, func(d *Deps) {
		blobs.Store, log.Store = d.Blobs, d.Stream
		d.Clock, d.Blobs, d.Stream = fake, blobs, log
	})
	w.conns.limit = 32 << 10
	s := sub("b", "c1", "s")
	w.subscribe(w.hub, s)
	w.conns.with("c1", func(n *connection) { n.failures = []error{boom, boom} })
	log.reads = []error{boom}
	head := w.appendRaw("s", []byte(`{"type":"a"}`), []byte(`{"type":"b","x":"`+strings.Repeat("y", 40<<10)+`"}`))
	st := w.hub.Open("s", 1)
	st.Notify(head)
	for len(seqs(w.got("c1"))) < 2 {
		fake.Advance(firstPause)
		yield()
	}
	w.ok(st.Flush(w.ctx))
	if diff := cmp.Diff([]int64{0, 1}, seqs(w.got("c1"))); diff != "" {
		t.Errorf("events:\n%s", diff)
	}
}

// TestViewerThatFailsForGoodWaits: for the next event, and has its place.
func TestViewerThatFailsForGoodWaits(t *testing.T) {
	t.Parallel()
	fake := newFakeClock()
	w := newWorld(t, func(d *Deps) { d.Clock = fake; d.Retries = 2 })
	s := sub("b", "c1", "s")
	w.subscribe(w.hub, s)
	boom := errors.New("boom")
	w.conns.with("c1", func(n *connection) { n.failures = []error{boom, boom, boom} })
	st := w.hub.Open("s", 1)
	<-st.loaded // or its look at the log makes another try
	st.Notify(w.append("s", "a"))
	for n := 1; n <= 2; n++ {
		w.wait("c1", "a try", func(c *connection) bool { return c.posts == n })
		fake.BlockUntil(1)
		fake.Advance(firstPause << (n - 1))
	}
	// Before Flush, which looks at the log again and so makes another try.
	for !strings.Contains(w.logged(), "viewer lags behind") {
		if w.ctx.Err() != nil {
			t.Fatalf("log: %s", w.logged())
		}
		yield()
	}
	if got := w.got("c1"); len(got) != 0 {
		t.Errorf("got %+v", got)
	}
	if r, ok := w.row(s); !ok || r.NextSeq != 0 {
		t.Errorf("row %+v", r)
	}
	w.ok(st.Flush(w.ctx))
	w.waitIdle(w.hub)
	w.append("s", "b")
	w.ok(w.hub.Serve(w.ctx, "s"))
	if diff := cmp.Diff([]int64{0, 1}, seqs(w.waitSeq("c1", 1))); diff != "" {
		t.Errorf("events:\n%s", diff)
	}
}

func TestFrame(t *testing.T) {
	t.Parallel()
	events := []entry{{seq: 3, event: []byte(`{"type":"a"}`)}, {seq: -1, rev: 7, event: []byte(`{"type":"d"}`)}}
	for _, tt := range []struct {
		name    string
		entries []entry
		batch   bool
		want    string
	}{
		{"event", events[:1], false, `{"session_id":"s<1>","epoch":"e\"","seq":3,"event":{"type":"a"}}`},
		{"delta", events[1:], false, `{"session_id":"s<1>","epoch":"e\"","seq":null,"rev":7,"event":{"type":"d"}}`},
		{"batch", events, true, `{"session_id":"s<1>","epoch":"e\"","events":[{"seq":3,"event":{"type":"a"}},{"seq":null,"rev":7,"event":{"type":"d"}}]}`},
		{"batch of one", events[:1], true, `{"session_id":"s<1>","epoch":"e\"","events":[{"seq":3,"event":{"type":"a"}}]}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, string(frame("s<1>", `e"`, tt.entries, tt.batch))); diff != "" {
				t.Error(diff)
			}
		})
	}
}
