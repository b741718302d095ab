package viewer

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestWakeDuringTheLastTry: an event that comes while the last try for the one
// before it is failing is not left to the event after it. A hub that is alone
// does not look at the log again when the step ends, so nothing else helps.
func TestWakeDuringTheLastTry(t *testing.T) {
	t.Parallel()
	fake := newFakeClock()
	w := newWorld(t, func(d *Deps) { d.Clock, d.Alone, d.Retries = fake, true, 1 })
	w.subscribe(w.hub, sub("b", "c1", "s"))
	boom := errors.New("boom")
	w.conns.with("c1", func(n *connection) { n.failures = []error{boom, boom} })
	st := w.hub.Open("s", 1)
	<-st.loaded
	st.Notify(w.append("s", "a"))
	w.wait("c1", "the first try", func(n *connection) bool { return n.posts == 1 })
	fake.BlockUntil(1)
	open := w.conns.block("c1")
	fake.Advance(firstPause)
	w.wait("c1", "the last try", func(n *connection) bool { return n.waiting == 1 })
	st.Notify(w.append("s", "b"))
	open()
	w.ok(st.Flush(w.ctx))
	if diff := cmp.Diff([]int64{0, 1}, seqs(w.got("c1"))); diff != "" {
		t.Errorf("events:\n%s\n%s", diff, w.logged())
	}
}
