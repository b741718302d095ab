package turn

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/queue"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
)

// A turn with two parallel calls in a session that exists waits for at most
// eight writes and takes one message of the queue.
func TestWritesOfATwoCallTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.model.plays(says("hi"))
	w.start("s1", "hello")
	w.ended("s1")
	w.quiet()
	w.stats.take()
	hops := countHops(w)
	w.simple("ok::a")
	w.simple("ok::b")
	w.model.plays(wants(want("ok::a", nil), want("ok::b", nil)), says("done"))
	w.start("s1", "go")
	w.ended("s1")
	w.quiet()
	got := w.stats.take()
	least := []string{"run::start", "streaming", "started", "last result", "stopped", "end events"}
	most := []string{"run::start", "streaming", "started", "result", "last result", "stopped", "end events"}
	if !cmp.Equal(least, got) && !cmp.Equal(most, got) {
		t.Errorf("writes %v, want %v or %v", got, least, most)
	}
	if len(got) > 8 {
		t.Errorf("%d writes, at most 8 are allowed", len(got))
	}
	if n := hops(); n != 1 {
		t.Errorf("%d queue hops, want 1", n)
	}
}

func TestWritesOfAnApproval(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.model.plays(says("hi"))
	w.start("s1", "hello")
	w.ended("s1")
	w.quiet()
	w.stats.take()
	w.simple("ok::a")
	w.simple("ask::b")
	w.model.plays(wants(want("ok::a", nil), want("ask::b", nil)), says("done"))
	w.start("s1", "go")
	w.parked("s1")
	w.quiet()
	w.decide("s1", w.awaiting("s1")[0], agent.DecisionAllow, "")
	w.ended("s1")
	got := w.stats.take()
	if len(got) > 10 {
		t.Errorf("%d writes, at most 10 are allowed: %v", len(got), got)
	}
}

// countHops counts the messages that the worker sends from now on.
func countHops(w *world) func() int {
	f := w.proc.fault
	n := 0
	f.mu.Lock()
	f.hook = func(op string, detail any) error {
		if op == "send" {
			_ = detail.(queue.Message)
			n++
		}
		return nil
	}
	f.mu.Unlock()
	return func() int {
		f.mu.Lock()
		defer f.mu.Unlock()
		return n
	}
}

// The record does not grow with the history.
func TestF33RecordStaysFlat(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.simple("ok::a")
	size := func() int {
		item, _, err := w.db.State().Get(t.Context(), state.Key{Scope: agent.ScopeTurnState, Key: "s1"})
		w.check(err)
		return len(item.Value)
	}
	first := 0
	for i := range 20 {
		w.model.plays(wants(want("ok::a", nil)), says("done"))
		w.start("s1", "go")
		w.ended("s1")
		if i == 0 {
			first = size()
		}
	}
	if last := size(); last > first+64 {
		t.Errorf("the record has %d bytes after 20 runs, %d after the first", last, first)
	}
}
