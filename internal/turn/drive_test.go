package turn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/queue"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
	"github.com/iii-aws/harness/internal/turn/step"
)

func TestA20SteeringBeforeFollowup(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	began, letGo := blockWorld(t, w, "ok::slow")
	w.model.plays(wants(want("ok::slow", nil)), says("one"), says("two"))
	w.start("s1", "go")
	<-began
	w.session.push("s1", "followup", "f1", "later")
	w.session.push("s1", "steering", "st1", "turn left")
	letGo()
	w.ended("s1")
	var users []string
	for _, e := range w.session.path("s1") {
		if e.Message.Role == agent.RoleUser {
			users = append(users, text(e.Message))
		}
	}
	if diff := cmp.Diff([]string{"go", "turn left", "later"}, users); diff != "" {
		t.Errorf("users said (-want +got):\n%s", diff)
	}
	req := w.model.request(1)
	if last := req.Messages[len(req.Messages)-1]; text(last) != "turn left" {
		t.Errorf("the second model call ends with %q", text(last))
	}
	if a, b := w.session.inbox("s1", "steering"), w.session.inbox("s1", "followup"); len(a)+len(b) != 0 {
		t.Errorf("left in the inboxes: %v %v", a, b)
	}
	w.legalPath("s1")
}

// Steering was consumed before followup, which was kept for later.
func TestA20FollowupWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	began, letGo := make(chan struct{}), make(chan struct{})
	w.session.seed("s1", "alice")
	w.session.push("s1", "steering", "st1", "left")
	w.session.push("s1", "followup", "f1", "later")
	w.model.plays(says("one"), hangs("", began, letGo, says("two")), says("three"))
	w.start("s1", "go")
	<-began
	if got := w.session.inbox("s1", "followup"); len(got) != 1 {
		t.Errorf("followup %v during the second turn", got)
	}
	close(letGo)
	w.ended("s1")
	if w.model.calls() != 3 {
		t.Errorf("model asked %d times, want 3", w.model.calls())
	}
}

func TestInboxStaysAtMaxTurns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.session.seed("s1", "alice")
	w.session.push("s1", "steering", "st1", "left")
	w.model.plays(says("one"))
	w.start("s1", "go", map[string]any{"max_turns": 1})
	w.ended("s1")
	if got := w.session.inbox("s1", "steering"); len(got) != 1 || w.model.calls() != 1 {
		t.Errorf("inbox %v, model asked %d times", got, w.model.calls())
	}
	path := w.session.path("s1")
	if last := text(path[len(path)-1].Message); !strings.HasPrefix(last, "loop stopped: max_turns (1) reached") {
		t.Errorf("last message %q", last)
	}
}

// Words pushed while the drain of others is under way are not lost.
func TestA33PushDuringDrain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.session.seed("s1", "alice")
	w.session.push("s1", "steering", "a", "one")
	pushed := false
	w.bus.on("session-inbox::drain", func(ctx context.Context, c *bus.Call) (any, error) {
		if !pushed {
			pushed = true
			w.session.push("s1", "steering", "b", "two")
		}
		return w.session.drain(ctx, c)
	})
	w.start("s1", "go")
	w.ended("s1")
	var users []string
	for _, e := range w.session.path("s1") {
		if e.Message.Role == agent.RoleUser {
			users = append(users, text(e.Message))
		}
	}
	if diff := cmp.Diff([]string{"go", "one", "two"}, users); diff != "" {
		t.Errorf("users said (-want +got):\n%s", diff)
	}
}

func TestA22TransientErrorIsRedelivered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	fails := 2
	w.bus.on("session-inbox::peek", func(ctx context.Context, c *bus.Call) (any, error) {
		if fails > 0 {
			fails--
			return nil, &bus.Error{Code: "STORAGE_ERROR", Message: "down"}
		}
		return w.session.peek(ctx, c)
	})
	w.model.plays(says("once"))
	w.start("s1", "go")
	w.until("s1", "the answer on record", func(r *step.Record) bool { return r.State == step.Steering })
	w.advanceUntil("the end", time.Second, func() bool { return w.record("s1").Outbox.IsZero() && w.record("s1").State.Terminal() })
	rec := w.ended("s1")
	if rec.State != step.Stopped || w.model.calls() != 1 {
		t.Errorf("state %s, model asked %d times", rec.State, w.model.calls())
	}
	for _, s := range states(w.events("s1")) {
		if s == "failed" {
			t.Error("the run was told to have failed")
		}
	}
}

// A handler that panics ends the run as failed and the message is acknowledged.
func TestA21HandlerPanic(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.proc.turn.Directory = panickyDirectory{w.bus}
	w.start("s1", "go")
	rec := w.ended("s1")
	if rec.State != step.Failed || rec.Error == nil || rec.Error.Kind != "transition_error" || !strings.HasPrefix(rec.Error.Message, "from provisioning: ") {
		t.Fatalf("state %s, error %+v", rec.State, rec.Error)
	}
	events := w.events("s1")
	if diff := cmp.Diff([]string{"message_complete", "agent_end"}, types(events, agent.EventTurnStateChanged)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	for _, e := range events {
		switch e["type"] {
		case agent.EventMessageComplete:
			m := e["message"].(map[string]any)
			if m["stop_reason"] != "error" || m["error_kind"] != "transient" || m["model"] != "" || e["body_streamed"] != false {
				t.Errorf("message_complete %v", e)
			}
		case agent.EventAgentEnd:
			if n := len(e["messages"].([]any)); n != 1 {
				t.Errorf("agent_end carries %d messages, want the loaded 1", n)
			}
		}
	}
	w.quiet()
	w.proc.turn.Directory = w.bus
	if !w.start("s1", "again").Started {
		t.Error("the session does not take the next run")
	}
	w.ended("s1")
}

// panickyDirectory panics when the provider is looked up.
type panickyDirectory struct{ *fakeBus }

func (d panickyDirectory) Lookup(ns, id string) (bus.Entry, bool) {
	if strings.HasPrefix(id, "provider::") {
		panic("kaput")
	}
	return d.fakeBus.Lookup(ns, id)
}

func TestA24StepsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	began, letGo := blockWorld(t, w, "ok::slow")
	w.model.plays(wants(want("ok::slow", nil)), says("done"))
	w.start("s1", "go")
	<-began
	rec := w.record("s1")
	// Another consumer has the message as well, and comes second.
	other := make(chan error, 1)
	go func() {
		_, err := w.call(alice, FunctionStep, StepRequest{SessionID: "s1", Run: rec.Run, Cause: "start"})
		other <- err
	}()
	if err := <-other; err != nil {
		t.Fatalf("the one that took the turn over: %v", err)
	}
	letGo()
	w.advanceUntil("the loser to give up", time.Second, func() bool {
		s, _ := w.queues.Stats(t.Context(), agent.QueueTurnStep)
		return s.Depth == 0 && s.InFlight == 0
	})
	w.ended("s1")
	res := w.results("s1")
	if len(res) != 1 || !strings.Contains(string(res[0].Details), "outcome_unknown") || len(w.bus.seen("ok::slow")) != 1 {
		t.Errorf("results %+v, target called %d times", res, len(w.bus.seen("ok::slow")))
	}
	w.legalPath("s1")
}

func TestA49DeadLetter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	x := w.simple("ok::x")
	w.bus.off("session-inbox::peek")
	w.bus.on("session-inbox::peek", failing("STORAGE_ERROR", "down for good"))
	_ = x
	w.model.plays(says("once"))
	w.start("s1", "go")
	w.until("s1", "the answer on record", func(r *step.Record) bool { return r.State == step.Steering })
	w.advanceUntil("the dead letter", 10*time.Second, func() bool {
		s, _ := w.queues.Stats(t.Context(), agent.QueueTurnStep)
		return s.DeadLetters == 1
	})
	dead, err := w.queues.DeadLetters(t.Context(), agent.QueueTurnStep, 0, 1)
	w.check(err)
	_, err = w.bus.Invoke(t.Context(), bus.Invocation{FunctionID: "turn::on_dead_letter", Data: dead[0].Data, Principal: &alice})
	w.check(err)
	rec := w.ended("s1")
	if rec.State != step.Failed || rec.Error.Kind != "steps_exhausted" {
		t.Errorf("state %s, error %+v", rec.State, rec.Error)
	}
	events := w.events("s1")
	if last := events[len(events)-1]["type"]; last != agent.EventAgentEnd {
		t.Errorf("the last event is %v", last)
	}
	if diff := cmp.Diff([]string{"turn_steps_exhausted"}, w.stats.alarms); diff != "" {
		t.Errorf("alarms (-want +got):\n%s", diff)
	}
	w.bus.on("session-inbox::peek", w.session.peek)
	w.model.plays(says("fine"))
	if !w.start("s1", "again").Started {
		t.Error("the session does not take the next run")
	}
	w.ended("s1")
}

// A run that is given up with calls: started ones have an unknown outcome, the
// others did not run.
func TestA49DeadLetterWithCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	began, _ := blockWorld(t, w, "ok::slow")
	w.model.plays(wants(want("ok::slow", nil), want("ask::rm", nil)))
	w.start("s1", "go")
	<-began
	rec := w.until("s1", "the wait", func(r *step.Record) bool { return len(r.AwaitingApproval) == 1 })
	w.proc.kill()
	w.bootIdle()
	w.must("turn::on_dead_letter", StepRequest{SessionID: "s1", Run: rec.Run, Cause: "start"}, nil)
	w.ended("s1")
	res := w.results("s1")
	if !strings.Contains(string(res[0].Details), "outcome_unknown") || !strings.Contains(string(res[1].Details), `"decision":"aborted"`) {
		t.Errorf("results %s, %s", res[0].Details, res[1].Details)
	}
	w.legalPath("s1")
	w.must("turn::on_dead_letter", StepRequest{SessionID: "s1", Run: rec.Run, Cause: "start"}, nil)
}

func TestF14TargetNeverAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.slowTarget("ok::slow", bus.Meta{TimeoutMS: 600_000}, bus.KindSocket)
	w.model.plays(wants(want("ok::slow", nil)), says("done"))
	w.start("s1", "go")
	w.advanceUntil("the wait", 500*time.Millisecond, func() bool { return w.record("s1").State == step.Awaiting })
	w.parked("s1")
	for range 20 {
		w.restart()
		w.quiet()
	}
	w.ended("s1")
	if n := len(w.bus.seen("ok::slow")); n != 1 {
		t.Errorf("called %d times", n)
	}
	if d := w.details("s1", 0); d["error"] != "timeout" {
		t.Errorf("details %v", d)
	}
}

func TestSweep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rm := w.simple("ask::rm")
	w.model.plays(wants(want("ask::rm", nil)), says("done"))
	w.start("s1", "go")
	rec := w.parked("s1")
	w.quiet()
	var res SweepResponse
	w.must("turn::sweep", map[string]any{}, &res)
	if res.Woken != 1 {
		t.Errorf("the first sweep wakes %d, want every parked one", res.Woken)
	}
	w.quiet()
	w.must("turn::sweep", map[string]any{}, &res)
	if res.Woken != 0 {
		t.Errorf("the second sweep wakes %d, want none", res.Woken)
	}
	// A decision whose wake was lost: the row and the rise are there.
	id := rec.AwaitingApproval[0].FunctionCallID
	w.setRow(agent.ScopeApprovals, "s1/"+id, agent.Decision{
		Decision: agent.DecisionAllow, Run: rec.Run, ArgsHash: step.ArgsHash("ask::rm", json.RawMessage("{}")),
	})
	w.raise("s1")
	w.must("turn::sweep", map[string]any{}, &res)
	if res.Woken != 1 {
		t.Errorf("the third sweep wakes %d, want 1", res.Woken)
	}
	w.ended("s1")
	w.must("turn::sweep", map[string]any{}, &res)
	if res.Woken != 0 || rm.count() != 1 {
		t.Errorf("woken %d after the end, ran %d times", res.Woken, rm.count())
	}
}

// A run whose message is gone altogether is taken up by the sweep.
func TestSweepOfLostMessage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.proc.kill()
	p := w.bootIdle()
	p.turn.cfg.Local = false
	w.model.plays(says("hi"))
	w.start("s1", "go")
	ds, err := w.queues.Receive(t.Context(), agent.QueueTurnStep, 1)
	w.check(err)
	_, err = w.queues.Ack(t.Context(), agent.QueueTurnStep, ds[0].Receipt).Wait(t.Context())
	w.check(err)
	p.consume()
	var res SweepResponse
	w.must("turn::sweep", map[string]any{}, &res)
	if res.Woken != 0 {
		t.Errorf("woken %d at once", res.Woken)
	}
	w.clock.Advance(121 * time.Second)
	w.must("turn::sweep", map[string]any{}, &res)
	if res.Woken != 1 {
		t.Errorf("woken %d, want 1", res.Woken)
	}
	w.ended("s1")
}

func TestByName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.proc.kill()
	w.bootIdle()
	x := w.simple("ok::x")
	w.model.plays(wants(want("ok::x", nil)), says("done"))
	w.start("s1", "go")
	for _, tc := range []struct{ id, to string }{
		{"turn::provisioning", "assistant_streaming"},
		{"turn::assistant_streaming", "function_execute"},
		{"turn::function_execute", "steering_check"},
		{"turn::steering_check", "assistant_streaming"},
		{"turn::assistant_streaming", "steering_check"},
		{"turn::steering_check", "stopped"},
	} {
		var res StepResponse
		w.must("turn::function_awaiting_approval", SessionRequest{"s1"}, &res)
		if !res.Skipped || res.Reason != "stale" {
			t.Errorf("before %s: %+v, want stale", tc.id, res)
		}
		before := w.record("s1").State
		var ran StepResponse
		w.must(tc.id, SessionRequest{"s1"}, &ran)
		if !ran.OK || ran.FromState != before || string(ran.ToState) != tc.to {
			t.Fatalf("%s: %+v, want to %s", tc.id, ran, tc.to)
		}
		if got := w.record("s1").State; string(got) != tc.to {
			t.Fatalf("%s: record in %s", tc.id, got)
		}
	}
	if x.count() != 1 {
		t.Errorf("ran %d times", x.count())
	}
	w.legalPath("s1")
	s, err := w.queues.Stats(t.Context(), agent.QueueTurnStep)
	if err != nil || s.Depth < 5 {
		t.Errorf("%d wakes queued (%v), want one for each transition that goes on", s.Depth, err)
	}
}

func TestHandOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withConfig(func(c *Config) { c.StepBudget, c.Reserve = 60*time.Second, 5*time.Second }))
	n := 0
	w.bus.on("ok::x", func(context.Context, *bus.Call) (any, error) {
		n++
		w.told("s1")
		w.clock.Advance(35 * time.Second)
		return "done", nil
	})
	w.model.plays(wants(want("ok::x", nil)), wants(want("ok::x", nil)), says("done"))
	w.start("s1", "go")
	w.ended("s1")
	if n != 2 || w.model.calls() != 3 {
		t.Errorf("ran %d times, model asked %d times", n, w.model.calls())
	}
	w.legalPath("s1")
}

func TestHandOverOfCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withConfig(func(c *Config) {
		c.StepBudget, c.Reserve, c.CallTimeout, c.WaitForCall = 60*time.Second, 10*time.Second, 200*time.Second, 300*time.Second
	}))
	letGo := w.slowTarget("ok::far", bus.Meta{}, bus.KindSocket)
	began, _ := blockWorld(t, w, "ok::here")
	w.model.plays(wants(want("ok::here", nil), want("ok::far", nil)), says("done"))
	w.start("s1", "go")
	<-began
	w.advanceUntil("the park", time.Second, func() bool { return w.record("s1").State == step.Awaiting })
	w.parked("s1")
	if w.clock.Now().Sub(epoch) > 60*time.Second {
		t.Errorf("parked after %s", w.clock.Now().Sub(epoch))
	}
	letGo()
	w.advanceUntil("the end", time.Second, func() bool {
		r := w.record("s1")
		return r.State.Terminal() && r.Outbox.IsZero()
	})
	if d := w.details("s1", 0); d["error"] != "outcome_unknown" {
		t.Errorf("the call served here: %v", d)
	}
	w.legalPath("s1")
}

// A step whose message was not renewed stops before it does anything.
func TestStaleRenewalStopsTheStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.proc.kill()
	p := w.bootIdle()
	w.start("s1", "go")
	ds, err := w.queues.Receive(t.Context(), agent.QueueTurnStep, 1)
	w.check(err)
	h := queue.NewHandle(w.queues, ds[0], w.clock)
	w.clock.Advance(41 * time.Second)
	err = w.bus.deliver(queue.WithDelivery(t.Context(), h), p, ds[0])
	if bus.Code(err) != CodeSuperseded || w.model.calls() != 0 {
		t.Errorf("got %v, model asked %d times", err, w.model.calls())
	}
	var te *TransientError
	if !errors.As(err, &te) && bus.Code(err) == "" {
		t.Error("no code")
	}
}

// The control item of a newer delivery stops an older one.
func TestHigherLeaseStopsTheStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	began := make(chan struct{})
	w.model.plays(hangs("", began, nil, nil))
	w.start("s1", "go")
	<-began
	_, err := state.Do(t.Context(), w.db.State(), state.Update(agent.ScopeControl, "s1", state.Op{
		Type: "set", Path: json.RawMessage(`"lease"`), Value: json.RawMessage("99"),
	}))
	w.check(err)
	w.eventually("the step to stop", func() bool {
		s, _ := w.queues.Stats(t.Context(), agent.QueueTurnStep)
		return s.InFlight == 0
	})
	if st := w.record("s1").State; st != step.Streaming {
		t.Errorf("state %s", st)
	}
}

func TestF17InterruptedCallIsClosedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	calls := assistant(agent.StopFunctionCall,
		agent.Block{Type: agent.BlockFunctionCall, ID: "c1", FunctionID: step.ToolName, Arguments: json.RawMessage(`{"function":"ok::a"}`)},
		agent.Block{Type: agent.BlockFunctionCall, ID: "c2", FunctionID: step.ToolName, Arguments: json.RawMessage(`{"function":"ok::b"}`)})
	done := agent.Message{Role: agent.RoleFunctionResult, FunctionCallID: "c1", FunctionID: "ok::a", Content: []agent.Block{agent.Text("x")}}
	w.session.seed("s1", "alice", agent.User("before", 1), *calls, done)
	w.model.plays(says("fine"), says("fine"))
	w.start("s1", "after")
	w.ended("s1")
	path := w.session.path("s1")
	closing := path[3].Message
	if closing.FunctionCallID != "c2" || closing.FunctionID != "ok::b" || !strings.Contains(string(closing.Details), `"error":"interrupted"`) || !closing.IsError {
		t.Errorf("the closing result is %+v", closing)
	}
	if text(path[4].Message) != "after" {
		t.Errorf("then comes %q", text(path[4].Message))
	}
	req := w.model.request(0)
	if len(req.Messages) != 5 || req.Messages[3].FunctionCallID != "c2" {
		t.Errorf("the model gets %d messages", len(req.Messages))
	}
	w.start("s1", "once more")
	w.ended("s1")
	w.legalPath("s1")
}

func TestF19BadNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.simple("ok::x")
	names := []string{"", "no such tool", "rm -rf /", strings.Repeat("x", 300), "a\u0000b", "OK::X"}
	var calls []wanted
	for _, n := range names {
		calls = append(calls, wanted{"id", n, nil})
	}
	w.bus.on("policy::check_permissions", answers(map[string]string{"decision": "allow"}))
	w.model.plays(wants(calls...), says("ok"))
	w.start("s1", "go")
	w.ended("s1")
	asked := w.bus.seen("policy::check_permissions")
	if len(asked) != len(names)-1 {
		t.Errorf("policy was asked %d times, want %d", len(asked), len(names)-1)
	}
	for i := range names {
		want := "function_not_found"
		if i == 0 {
			want = "missing_function"
		}
		if d := w.details("s1", i); d["error"] != want {
			t.Errorf("%q: %v", names[i], d)
		}
	}
	w.legalPath("s1")
}

func TestF20ResultsInCallOrder(t *testing.T) {
	t.Parallel()
	var first string
	for i := range 20 {
		w := newWorld(t)
		done := make([]chan struct{}, 5)
		for n := range done {
			done[n] = make(chan struct{})
		}
		close(done[4])
		for n := range 4 {
			w.bus.on(fmt.Sprintf("ok::%d", n), func(context.Context, *bus.Call) (any, error) {
				<-done[n+1] // the last one ends first
				close(done[n])
				return n, nil
			})
		}
		w.model.plays(wants(want("ok::0", nil), want("ok::1", nil), want("ok::2", nil), want("ok::3", nil)), says("done"))
		w.start("s1", "go", map[string]any{"message_id": "m"})
		w.ended("s1")
		got := string(encode(w.model.request(1).Messages))
		if i == 0 {
			first = got
		} else if got != first {
			t.Fatalf("request %d differs:\n%s\n%s", i, first, got)
		}
		w.legalPath("s1")
	}
}

func TestMaxParallelCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withConfig(func(c *Config) { c.MaxParallelCalls = 3 }))
	running, most := make(chan struct{}, 100), 0
	var calls []wanted
	gate := make(chan struct{})
	w.bus.on("ok::x", func(context.Context, *bus.Call) (any, error) {
		running <- struct{}{}
		<-gate
		<-running
		return "x", nil
	})
	for range 60 {
		calls = append(calls, want("ok::x", nil))
	}
	w.model.plays(wants(calls...), says("done"))
	w.start("s1", "go")
	for range 60 {
		w.eventually("a call", func() bool { return len(running) > 0 })
		most = max(most, len(running))
		gate <- struct{}{}
	}
	w.ended("s1")
	if most > 3 {
		t.Errorf("%d calls at once, want at most 3", most)
	}
	if got := len(w.results("s1")); got != 60 {
		t.Errorf("%d results", got)
	}
	w.legalPath("s1")
}

func TestSessionRefusesTheMessages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	orphan := agent.Message{Role: agent.RoleFunctionResult, FunctionCallID: "ghost", FunctionID: "x", Content: []agent.Block{}}
	var res StartResponse
	w.must("run::start", map[string]any{"session_id": "s1", "provider": "test", "model": "m", "messages": []agent.Message{orphan}}, &res)
	rec := w.ended("s1")
	if rec.State != step.Failed || !strings.Contains(rec.Error.Message, "orphan_result") {
		t.Errorf("state %s, error %+v", rec.State, rec.Error)
	}
	w.model.plays(says("fine"))
	if !w.start("s1", "go").Started {
		t.Error("the session does not take the next run")
	}
	w.ended("s1")
}
