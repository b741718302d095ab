package turn

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
	"github.com/iii-aws/harness/internal/turn/step"
)

// slowTarget answers when it is let go.
func (w *world) slowTarget(id string, m bus.Meta, kind bus.Kind) (letGo func()) {
	g := make(chan struct{})
	w.bus.onMeta(id, m, kind, func(ctx context.Context, _ *bus.Call) (any, error) {
		select {
		case <-g:
			return "slow result", nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	done := false
	letGo = func() {
		if !done {
			done = true
			close(g)
		}
	}
	w.t.Cleanup(letGo)
	return letGo
}

const tenMinutes = 10 * time.Minute

func TestA45SlowTargetAnswersAfterTenMinutes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		meta bus.Meta
		kind bus.Kind
	}{
		{"slow", bus.Meta{Slow: true, TimeoutMS: (20 * time.Minute).Milliseconds()}, bus.KindBuiltin},
		{"socket", bus.Meta{TimeoutMS: (20 * time.Minute).Milliseconds()}, bus.KindSocket},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			letGo := w.slowTarget("ok::slow", tc.meta, tc.kind)
			w.model.plays(wants(want("ok::slow", nil)), says("done"))
			w.start("s1", "go")
			if tc.kind == bus.KindSocket {
				w.until("s1", "the call", func(r *step.Record) bool { return len(r.Ledger) == 1 })
				w.advanceUntil("the wait", 500*time.Millisecond, func() bool { return w.record("s1").State == step.Awaiting })
			}
			rec := w.parked("s1")
			w.quiet()
			if len(rec.AwaitingResult) != 1 || len(rec.AwaitingApproval) != 0 {
				t.Fatalf("awaiting %+v %+v", rec.AwaitingResult, rec.AwaitingApproval)
			}
			w.clock.Advance(tenMinutes)
			w.quiet()
			letGo()
			w.ended("s1")
			res := w.results("s1")[0]
			if res.IsError || text(res) != "slow result" {
				t.Errorf("result %+v", res)
			}
			w.legalPath("s1")
		})
	}
}

func TestA45Deadline(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	letGo := w.slowTarget("ok::slow", bus.Meta{Slow: true, TimeoutMS: 60_000}, bus.KindBuiltin)
	w.model.plays(wants(want("ok::slow", nil)), says("done"))
	w.start("s1", "go")
	rec := w.parked("s1")
	w.quiet()
	id := rec.AwaitingResult[0].FunctionCallID
	w.clock.Advance(59 * time.Second)
	w.quiet()
	if st := w.record("s1").State; st != step.Awaiting {
		t.Fatalf("state %s before the deadline", st)
	}
	w.clock.Advance(2 * time.Second)
	w.ended("s1")
	res := w.results("s1")[0]
	if !res.IsError || !strings.Contains(string(res.Details), `"error":"timeout"`) {
		t.Errorf("result %s", res.Details)
	}
	// A late result is dropped: the row of the deadline stands.
	letGo()
	w.quiet()
	var row agent.CallResult
	if _, err := w.proc.turn.readRow(t.Context(), agent.ScopeCallResults, "s1/"+id, &row); err != nil || row.Source != "deadline" {
		t.Errorf("row %+v %v", row, err)
	}
	w.legalPath("s1")
}

func TestA45AbortWhileWaiting(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	letGo := w.slowTarget("ok::slow", bus.Meta{Slow: true}, bus.KindBuiltin)
	w.model.plays(wants(want("ok::slow", nil)))
	w.start("s1", "go")
	w.parked("s1")
	w.abort("s1")
	w.ended("s1")
	letGo()
	w.quiet()
	if res := w.results("s1"); len(res) != 1 || !strings.Contains(string(res[0].Details), "session_aborted") {
		t.Errorf("results %+v", res)
	}
	w.clock.Advance(time.Hour)
	w.quiet()
	w.legalPath("s1")
}

// A result that lands while a sibling runs is taken by the running step.
func TestResultArrivesWhileSiblingRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	letGoSlow := w.slowTarget("ok::slow", bus.Meta{Slow: true}, bus.KindBuiltin)
	began, letGo := blockWorld(t, w, "ok::block")
	w.model.plays(wants(want("ok::slow", nil), want("ok::block", nil)), says("done"))
	w.start("s1", "go")
	<-began
	rec := w.until("s1", "the wait", func(r *step.Record) bool { return len(r.AwaitingResult) == 1 })
	id := rec.AwaitingResult[0].FunctionCallID
	letGoSlow()
	w.until("s1", "the result", func(r *step.Record) bool { return r.Done(id) })
	letGo()
	w.ended("s1")
	w.legalPath("s1")
}

func TestRowOfAnotherRunIsIgnored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.slowTarget("ok::slow", bus.Meta{Slow: true}, bus.KindBuiltin)
	w.model.plays(wants(want("ok::slow", nil)), says("done"))
	w.start("s1", "go")
	rec := w.parked("s1")
	id := rec.AwaitingResult[0].FunctionCallID
	row := encode(agent.CallResult{Run: "other", Result: json.RawMessage(`"forged"`), Source: "target"})
	_, err := state.Do(t.Context(), w.db.State(), state.Set(agent.ScopeCallResults, "s1/"+id, row))
	w.check(err)
	w.fire("turn::on_call_result", "s1/"+id, encode(agent.CallResult{Run: rec.Run}))
	w.quiet()
	if st := w.record("s1").State; st != step.Awaiting {
		t.Errorf("state %s", st)
	}
}

// A connection that was lost after the call was sent: an idempotent target is
// called again with the same key, another one ends in outcome_unknown.
func TestConnectionLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := 0
	var keys []string
	w.bus.onMeta("ok::safe", bus.Meta{Idempotent: true}, bus.KindBuiltin, func(_ context.Context, c *bus.Call) (any, error) {
		n++
		keys = append(keys, c.IdempotencyKey)
		if n < 3 {
			return nil, &bus.Error{Code: "invocation_stopped", Message: "Invocation stopped"}
		}
		return "third time", nil
	})
	w.bus.on("ok::once", failing("invocation_stopped", "Invocation stopped"))
	w.bus.on("ok::unsent", failing("channel_send_failed", "gone"))
	w.model.plays(wants(want("ok::safe", nil), want("ok::once", nil), want("ok::unsent", nil)), says("done"))
	w.start("s1", "go")
	w.ended("s1")
	res := w.results("s1")
	if res[0].IsError || text(res[0]) != "third time" || keys[0] != keys[2] {
		t.Errorf("idempotent: %+v, keys %v", res[0], keys)
	}
	for _, r := range res[1:] {
		if !strings.Contains(string(r.Details), `"error":"outcome_unknown"`) || !strings.Contains(string(r.Details), r.FunctionCallID) {
			t.Errorf("%s: %s", r.FunctionID, r.Details)
		}
	}
}

// The same, told by a row.
func TestConnectionLostWhileWaiting(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	calls := make(chan string, 10)
	w.bus.onMeta("ok::safe", bus.Meta{Idempotent: true, Slow: true}, bus.KindSocket, func(_ context.Context, c *bus.Call) (any, error) {
		calls <- c.IdempotencyKey
		if len(calls) == 1 {
			return nil, &bus.Error{Code: "invocation_stopped", Message: "Invocation stopped"}
		}
		return "second time", nil
	})
	w.model.plays(wants(want("ok::safe", nil)), says("done"))
	w.start("s1", "go")
	w.ended("s1")
	if res := w.results("s1")[0]; res.IsError || text(res) != "second time" {
		t.Errorf("result %s", res.Details)
	}
	if a, b := <-calls, <-calls; a != b {
		t.Errorf("keys %s, %s", a, b)
	}
}

func TestApprovalExpires(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withConfig(func(c *Config) { c.ApprovalExpiresAfter = 30 * time.Minute }))
	rm := w.simple("ask::rm")
	w.model.plays(wants(want("ask::rm", nil)), says("understood"))
	w.start("s1", "go")
	rec := w.parked("s1")
	w.quiet()
	if got := rec.AwaitingApproval[0].ExpiresAt; got != epoch.Add(30*time.Minute).UnixMilli() {
		t.Errorf("expires at %d", got)
	}
	w.clock.Advance(31 * time.Minute)
	w.ended("s1")
	var d map[string]any
	if err := json.Unmarshal(w.results("s1")[0].Details, &d); err != nil || d["reason"] != "expired" || d["decision"] != "deny" {
		t.Errorf("details %v %v", d, err)
	}
	if rm.count() != 0 {
		t.Error("the call ran")
	}
}

func TestF10ApprovalAfterThreeDays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rm := w.simple("ask::rm")
	w.model.plays(wants(want("ask::rm", nil)), says("done"))
	w.start("s1", "go")
	w.parked("s1")
	id := w.awaiting("s1")[0]
	w.quiet()
	w.proc.kill()
	w.clock.Advance(72 * time.Hour)
	before := len(w.stats.take())
	w.boot()
	w.quiet()
	if n := len(w.stats.take()); n != 0 || before == 0 {
		t.Errorf("%d writes while nobody decided", n)
	}
	w.decide("s1", id, agent.DecisionAllow, "")
	w.ended("s1")
	if rm.count() != 1 {
		t.Errorf("ran %d times, want once", rm.count())
	}
}

func TestA48ApprovalWhileSiblingRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rm := w.simple("ask::rm")
	began, letGo := blockWorld(t, w, "ok::slow")
	w.model.plays(wants(want("ok::slow", nil), want("ask::rm", nil)), says("done"))
	w.start("s1", "go")
	<-began
	w.until("s1", "the wait", func(r *step.Record) bool { return len(r.AwaitingApproval) == 1 && r.State == step.Executing })
	id := w.awaiting("s1")[0]
	w.decide("s1", id, agent.DecisionAllow, "")
	w.until("s1", "the approved call", func(r *step.Record) bool { return r.Done(id) })
	if rm.count() != 1 || w.record("s1").State != step.Executing {
		t.Errorf("ran %d times, state %s", rm.count(), w.record("s1").State)
	}
	letGo()
	w.ended("s1")
	w.legalPath("s1")
	w.quiet()
}

func TestDenialWhileSiblingRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rm := w.simple("ask::rm")
	began, letGo := blockWorld(t, w, "ok::slow")
	w.model.plays(wants(want("ok::slow", nil), want("ask::rm", nil)), says("done"))
	w.start("s1", "go")
	<-began
	w.until("s1", "the wait", func(r *step.Record) bool { return len(r.AwaitingApproval) == 1 })
	id := w.awaiting("s1")[0]
	w.decide("s1", id, agent.DecisionDeny, "")
	w.until("s1", "the denial", func(r *step.Record) bool { return r.Done(id) && len(r.AwaitingApproval) == 0 })
	letGo()
	w.ended("s1")
	if rm.count() != 0 || !strings.Contains(string(w.results("s1")[1].Details), `"reason":"denied"`) {
		t.Errorf("ran %d, result %s", rm.count(), w.results("s1")[1].Details)
	}
}
