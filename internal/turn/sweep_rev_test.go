package turn

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/iii-aws/harness/engine/queue"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
	"github.com/iii-aws/harness/internal/turn/step"
)

// parkedWorld is a world with a parked turn whose start-up sweep is over.
func parkedWorld(t *testing.T) (*world, *step.Record) {
	t.Helper()
	w := newWorld(t)
	w.simple("ask::rm")
	w.model.plays(wants(want("ask::rm", nil)), says("done"))
	w.start("s1", "go")
	w.parked("s1")
	w.quiet()
	w.sweep()
	w.quiet()
	return w, w.record("s1")
}

// sweep runs a sweep a minute after the one before, and gives how many it woke.
func (w *world) sweep() int {
	w.t.Helper()
	w.clock.Advance(time.Minute)
	var res SweepResponse
	w.must("turn::sweep", map[string]any{}, &res)
	return res.Woken
}

// A viewer that comes to a parked turn raises the control item. The turn is
// woken for it once, not by every sweep until somebody decides.
func TestSweepWakesOnceForALateViewer(t *testing.T) {
	t.Parallel()
	w, parked := parkedWorld(t)
	sent := countHops(w)
	w.raise("s1")
	for n, want := range []int{1, 0, 0} {
		if got := w.sweep(); got != want {
			t.Errorf("sweep %d wakes %d, want %d", n, got, want)
		}
		w.quiet()
	}
	if n := sent(); n != 1 {
		t.Errorf("%d messages sent, want 1", n)
	}
	now := w.record("s1")
	if now.SeenRev != parked.SeenRev+1 || now.Lease != parked.Lease || now.UpdatedAtMS != parked.UpdatedAtMS || now.State != parked.State {
		t.Errorf("record %s\nwas %s", dump(now), dump(parked))
	}
}

// What is raised later is not passed over: the queue must not take the wake for
// it for that of the sweep before.
func TestSweepBehindALateViewer(t *testing.T) {
	t.Parallel()
	w, rec := parkedWorld(t)
	w.raise("s1")
	w.sweep()
	w.quiet()
	// A decision whose own wake was lost.
	id := rec.AwaitingApproval[0].FunctionCallID
	w.setRow(agent.ScopeApprovals, "s1/"+id, agent.Decision{
		Decision: agent.DecisionAllow, Run: rec.Run, ArgsHash: step.ArgsHash("ask::rm", json.RawMessage("{}")),
	})
	w.raise("s1")
	if got := w.sweep(); got != 1 {
		t.Errorf("woken %d, want 1", got)
	}
	w.ended("s1")
}

// That the rev cannot be stored fails no message, which a few sweeps would then
// have given up together with the run. The next sweep makes up for it.
func TestSweepBehindAWriteThatFailed(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		&state.StorageError{Op: "submit", Retry: true, Err: errors.New("throttled")},
		&state.ConflictError{Key: state.Key{Scope: agent.ScopeTurnState, Key: "s1"}},
	} {
		t.Run(fmt.Sprintf("%T", err), func(t *testing.T) {
			t.Parallel()
			w, parked := parkedWorld(t)
			w.raise("s1")
			w.breaks("state:"+agent.ScopeTurnState, 1, err)
			w.sweep()
			w.quiet()
			if now := w.record("s1"); now.SeenRev != parked.SeenRev {
				t.Errorf("seen_rev %d, the write of it failed", now.SeenRev)
			}
			w.clock.Advance(queue.DedupWindow)
			for n, want := range []int{1, 0} {
				if got := w.sweep(); got != want {
					t.Errorf("sweep %d wakes %d, want %d", n, got, want)
				}
				w.quiet()
			}
		})
	}
}
