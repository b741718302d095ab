package turn

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/internal/agent"
	"github.com/iii-aws/harness/internal/turn/step"
)

func TestF03ParallelApprovalsAreNotCrossed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pay := w.simple("ask::pay")
	w.model.plays(wants(want("ask::pay", map[string]int{"amount": 10}), want("ask::pay", map[string]int{"amount": 20})), says("done"))
	w.start("s1", "go")
	w.parked("s1")
	ids := w.awaiting("s1")
	w.decide("s1", ids[1], agent.DecisionAllow, "")
	w.until("s1", "the payment", func(r *step.Record) bool { return r.Done(ids[1]) })
	w.decide("s1", ids[0], agent.DecisionDeny, "too little")
	w.ended("s1")
	if pay.count() != 1 || pay.data(0) != `{"amount":20}` {
		t.Errorf("paid %v", pay.datas)
	}
	res := w.results("s1")
	if !res[0].IsError || res[1].IsError {
		t.Errorf("results %+v", res)
	}
	w.legalPath("s1")
}

func TestF04SiblingsRunOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b, c := w.simple("ok::read"), w.simple("ask::deploy"), w.simple("ok::read2")
	w.model.plays(wants(want("ok::read", nil), want("ask::deploy", nil), want("ok::read2", nil)), says("done"))
	w.start("s1", "go")
	w.parked("s1")
	w.decide("s1", w.awaiting("s1")[0], agent.DecisionAllow, "")
	w.ended("s1")
	if got := []int{a.count(), b.count(), c.count()}; !cmp.Equal(got, []int{1, 1, 1}) {
		t.Errorf("ran %v", got)
	}
}

func TestF05SameToolThreeTimesInReverse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mail := w.simple("ask::mail")
	w.model.plays(wants(want("ask::mail", map[string]int{"n": 1}), want("ask::mail", map[string]int{"n": 2}), want("ask::mail", map[string]int{"n": 3})), says("done"))
	w.start("s1", "go")
	w.parked("s1")
	ids := w.awaiting("s1")
	if len(ids) != 3 {
		t.Fatalf("%d requests", len(ids))
	}
	for i, decision := range []string{agent.DecisionAllow, agent.DecisionDeny, agent.DecisionAllow} {
		id := ids[2-i]
		w.clock.Advance(time.Hour)
		w.quiet()
		if st := w.record("s1").State; st.Terminal() {
			t.Fatalf("moved on after %d decisions", i)
		}
		w.decide("s1", id, decision, "")
		if i < 2 {
			w.until("s1", "the outcome", func(r *step.Record) bool { return r.Done(id) })
			w.quiet()
		}
	}
	w.ended("s1")
	if mail.count() != 2 || mail.data(0) != `{"n":3}` || mail.data(1) != `{"n":1}` {
		t.Errorf("sent %v", mail.datas)
	}
	w.legalPath("s1")
}

func TestF06DeniedCallDoesNotRunOnRedelivery(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rm := w.simple("ask::rm")
	w.model.plays(wants(want("ask::rm", nil)), says("done"))
	w.start("s1", "go")
	rec := w.parked("s1")
	id := w.awaiting("s1")[0]
	w.decide("s1", id, agent.DecisionDeny, "no")
	w.ended("s1")
	for _, cause := range []string{"start", "approval:" + id, "handover:3"} {
		var res StepResponse
		w.must(FunctionStep, StepRequest{SessionID: "s1", Run: rec.Run, Cause: cause}, &res)
		if !res.Skipped {
			t.Errorf("%s: %+v", cause, res)
		}
	}
	if rm.count() != 0 {
		t.Errorf("ran %d times", rm.count())
	}
}

// A decision that lands between the check and the save of the wait resumes the
// call all the same.
func TestA10DecisionBeforeThePark(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withConfig(func(c *Config) { c.FoldWindow = 10 * time.Millisecond }))
	rm := w.simple("ask::rm")
	policy := make(chan struct{})
	w.bus.on("policy::check_permissions", func(context.Context, *bus.Call) (any, error) {
		<-policy
		return map[string]string{"decision": "needs_approval"}, nil
	})
	w.model.plays(wants(want("ask::rm", nil)), says("done"))
	w.start("s1", "go")
	w.eventually("the check", func() bool { return len(w.bus.seen("policy::check_permissions")) == 1 })
	w.advanceUntil("the prepared call", 10*time.Millisecond, func() bool { r := w.record("s1"); return r.Work != nil || r.State.Terminal() })
	rec := w.record("s1")
	if rec.Work == nil || len(rec.AwaitingApproval) != 0 {
		t.Fatalf("record %s", dump(rec))
	}
	id := rec.Work.Prepared[0].Call.ID
	row := agent.Decision{Decision: agent.DecisionAllow, Run: rec.Run, ArgsHash: step.ArgsHash("ask::rm", rec.Work.Prepared[0].Call.Arguments.Raw)}
	w.setRow(agent.ScopeApprovals, "s1/"+id, row)
	close(policy)
	w.advanceUntil("the end", 10*time.Millisecond, func() bool { r := w.record("s1"); return r.State.Terminal() && r.Outbox.IsZero() })
	if rm.count() != 1 {
		t.Errorf("ran %d times", rm.count())
	}
	w.legalPath("s1")
}

// The pure race: the row is there when the wait is saved, and no wake comes.
func TestA10RowWithoutWake(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rm := w.simple("ask::rm")
	f := w.proc.fault
	f.mu.Lock()
	done := false
	f.hook = func(op string, detail any) error {
		if op != "state:"+agent.ScopeTurnState || done {
			return nil
		}
		rec := parseWrite(t, detail)
		if len(rec.AwaitingApproval) == 0 {
			return nil
		}
		done = true
		wait := rec.AwaitingApproval[0]
		row := agent.Decision{Decision: agent.DecisionAllow, Run: rec.Run, ArgsHash: step.ArgsHash(wait.FunctionID, wait.Args.Raw)}
		w.setRow(agent.ScopeApprovals, "s1/"+wait.FunctionCallID, row)
		return nil
	}
	f.mu.Unlock()
	w.model.plays(wants(want("ask::rm", nil)), says("done"))
	w.start("s1", "go")
	w.ended("s1")
	if rm.count() != 1 {
		t.Errorf("ran %d times, want once", rm.count())
	}
}

// Names of functions reach the log without what could break a line.
func TestPanicOfATarget(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.bus.on("ok::x", func(context.Context, *bus.Call) (any, error) { panic("sk-CANARY-7f3a in a panic") })
	w.model.plays(wants(want("ok::x", nil)), says("done"))
	w.start("s1", "go")
	rec := w.ended("s1")
	if rec.State != step.Stopped {
		t.Errorf("state %s", rec.State)
	}
	if d := w.details("s1", 0); d["denied_by"] != "gate_unavailable" || !strings.HasPrefix(d["reason"].(string), "trigger_failed:") {
		t.Errorf("details %v", d)
	}
	w.legalPath("s1")
}

func TestQueueFor(t *testing.T) {
	t.Parallel()
	if got := QueueFor(1, "s1"); got != "turn-step" {
		t.Errorf("one shard: %s", got)
	}
	seen := map[string]bool{}
	for _, s := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		q := QueueFor(4, s)
		if q != QueueFor(4, s) || !strings.HasPrefix(q, "turn-step-") {
			t.Errorf("%s: %s", s, q)
		}
		seen[q] = true
	}
	if len(seen) < 2 {
		t.Errorf("all sessions in %v", seen)
	}
}
