package turn

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/engine/stream"
	"github.com/iii-aws/harness/internal/agent"
	"github.com/iii-aws/harness/internal/turn/step"
)

// breaks makes an operation fail so many times.
func (w *world) breaks(op string, times int, err error) {
	f := w.proc.fault
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hook = func(got string, _ any) error {
		if got == op && times > 0 {
			times--
			return err
		}
		return nil
	}
}

func (w *world) loses(op string, times int) {
	f := w.proc.fault
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lost = func(got string, _ any) bool {
		if got == op && times > 0 {
			times--
			return true
		}
		return false
	}
}

func (w *world) advanceToEnd() *step.Record {
	w.t.Helper()
	w.advanceUntil("the end", time.Second, func() bool {
		r := w.record("s1")
		return r.State.Terminal() && r.Outbox.IsZero()
	})
	return w.record("s1")
}

func TestF15RecordWriteFaults(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"condition failed":      &state.ConflictError{Key: state.Key{Scope: agent.ScopeTurnState, Key: "s1"}},
		"transaction cancelled": &state.ConflictError{Key: state.Key{Scope: agent.ScopeTurnState, Key: "s1"}, Index: 1},
		"throttled":             &state.StorageError{Op: "submit", Retry: true, Err: errors.New("throttled")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			x := w.target("ok::x", bus.Meta{Idempotent: true}, bus.KindBuiltin)
			w.start("s1", "go")
			w.ended("s1")
			w.quiet()
			w.model.plays(says("asked again"), says("asked again"), says("asked again"))
			w.model.choose = func(r providerRequest) modelReply {
				if r.Messages[len(r.Messages)-1].Role == agent.RoleUser {
					return wants(want("ok::x", nil))
				}
				return says("done")
			}
			// The start goes through; then two writes of the step fail.
			f := w.proc.fault
			n := 0
			f.mu.Lock()
			f.hook = func(op string, _ any) error {
				if op != "state:"+agent.ScopeTurnState {
					return nil
				}
				n++
				if n == 3 || n == 4 {
					return err
				}
				return nil
			}
			f.mu.Unlock()
			w.start("s1", "go on")
			rec := w.advanceToEnd()
			if rec.State != step.Stopped || x.count() == 0 {
				t.Errorf("state %s, ran %d times", rec.State, x.count())
			}
			w.legalPath("s1")
			w.events("s1")
		})
	}
}

// A write that was applied and whose answer was lost is found by reading back.
func TestF15CommittedButTimedOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	x := w.simple("ok::x")
	w.model.plays(wants(want("ok::x", nil)), says("done"))
	w.loses("state:"+agent.ScopeTurnState, 100)
	if res := w.start("s1", "go"); !res.Started {
		t.Fatalf("run::start: %+v", res)
	}
	rec := w.until("s1", "the end", func(r *step.Record) bool { return r.State.Terminal() })
	w.quiet()
	if rec.State != step.Stopped || x.count() != 1 || w.model.calls() != 2 {
		t.Errorf("state %s, ran %d times, asked %d times", rec.State, x.count(), w.model.calls())
	}
	w.legalPath("s1")
}

func TestAmbiguousWriteThatWasNotApplied(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.model.plays(says("hi"), says("hi"))
	w.start("s1", "go")
	w.ended("s1")
	w.quiet()
	w.breaks("state:"+agent.ScopeTurnState, 1, &state.StorageError{Op: "submit", Ambiguous: true, Err: errors.New("lost")})
	_, err := w.call(alice, "run::start", map[string]any{"session_id": "s1", "provider": "test", "model": "m"})
	if err == nil {
		t.Error("run::start says nothing of a write that was lost")
	}
	if rec := w.record("s1"); rec.State != step.Stopped {
		t.Errorf("state %s", rec.State)
	}
}

// Events, rows and entries that fail are delivered later, once, and never fail
// the turn.
func TestDeliveriesAreRepeated(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"events", "session-tree::append_batch", "state:" + agent.ScopeRunAccepted, "state:" + agent.ScopeSessionIndex} {
		for _, how := range []string{"fails", "answer lost"} {
			t.Run(op+"/"+how, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				w.simple("ok::x")
				w.model.plays(wants(want("ok::x", nil)), says("done"))
				if how == "fails" {
					w.breaks(op, 3, &state.StorageError{Op: op, Retry: true, Err: errors.New("down")})
				} else {
					w.loses(op, 3)
				}
				w.start("s1", "go")
				rec := w.advanceToEnd()
				if rec.State != step.Stopped {
					t.Errorf("state %s, error %+v", rec.State, rec.Error)
				}
				w.legalPath("s1")
				got := types(w.events("s1"), agent.EventTurnStateChanged)
				if len(got) != 7 {
					t.Errorf("events %v", got)
				}
				if ok, err := w.proc.turn.readRow(t.Context(), agent.ScopeSessionIndex, "s1", &struct{}{}); err != nil || !ok {
					t.Errorf("no marker of the session: %v", err)
				}
			})
		}
	}
}

// A log that cannot be written for long sends the message back, and the turn
// ends as it should.
func TestLogDownForLong(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.model.plays(says("done"))
	w.breaks("events", 8, &state.StorageError{Op: "append", Retry: true, Err: errors.New("down")})
	w.start("s1", "go")
	rec := w.advanceToEnd()
	if rec.State != step.Stopped || w.model.calls() != 1 {
		t.Errorf("state %s, asked %d times", rec.State, w.model.calls())
	}
	w.events("s1")
}

func TestRunRequestIsMadeUpFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.proc.kill()
	w.bootIdle()
	w.start("s1", "go", map[string]any{"system_prompt": "mine"})
	w.must("turn::provisioning", SessionRequest{"s1"}, nil)
	_, err := state.Do(t.Context(), w.db.State(), state.Delete(agent.ScopeRunRequest, "s1"))
	w.check(err)
	w.model.plays(says("hi"))
	w.must("turn::assistant_streaming", SessionRequest{"s1"}, nil)
	if got := *w.model.request(0).SystemPrompt; got != "mine" {
		t.Errorf("prompt %q", got)
	}
	var req runRequest
	ok, err := w.proc.turn.readRow(t.Context(), agent.ScopeRunRequest, "s1", &req)
	if err != nil || !ok || req.Run != w.record("s1").Run || len(req.Functions) != 1 {
		t.Errorf("run_request %+v %v", req, err)
	}
}

// A request that is nowhere ends the run.
func TestRunRequestLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.proc.kill()
	w.bootIdle()
	w.simple("ok::x")
	w.model.plays(wants(want("ok::x", nil)))
	w.start("s1", "go")
	for _, s := range []string{"provisioning", "assistant_streaming", "function_execute", "steering_check"} {
		w.must("turn::"+s, SessionRequest{"s1"}, nil)
	}
	_, err := state.Do(t.Context(), w.db.State(), state.Delete(agent.ScopeRunRequest, "s1"))
	w.check(err)
	var res StepResponse
	w.must("turn::assistant_streaming", SessionRequest{"s1"}, &res)
	if res.ToState != step.Failed || w.record("s1").Error.Kind != "transition_error" {
		t.Errorf("%+v, error %+v", res, w.record("s1").Error)
	}
	w.legalPath("s1")
}

func TestForeignFanout(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.bus.onMeta("harness::fanout::agent_event_handler", bus.Meta{}, bus.KindSocket, answers(nil))
	w.model.plays(says("hello"))
	w.start("s1", "go")
	w.ended("s1")
	if n := len(w.viewer.seen()); n != 0 {
		t.Errorf("%d deltas were posted", n)
	}
	items, err := w.db.Streams().Read(t.Context(), agent.StreamEvents, "s1", 0, 10, 1<<20)
	if err != nil || len(items) == 0 || items[0].By != "" {
		t.Errorf("items %+v %v", items, err)
	}
}

func TestStepMarksItsEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start("s1", "go")
	w.ended("s1")
	items, err := w.db.Streams().Read(t.Context(), agent.StreamEvents, "s1", 0, 10, 1<<20)
	if err != nil || items[0].By != "step" {
		t.Errorf("items %+v %v", items, err)
	}
	var head stream.Head
	head, err = w.db.Streams().Head(t.Context(), agent.StreamEvents, "s1")
	if err != nil || w.viewer.tail != head.Tail {
		t.Errorf("viewers were told of %d, the tail is %d (%v)", w.viewer.tail, head.Tail, err)
	}
	if w.session.touched["s1"] != 1 {
		t.Errorf("the session was touched %d times", w.session.touched["s1"])
	}
}

func TestBrokenRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := state.Do(t.Context(), w.db.State(), state.Set(agent.ScopeTurnState, "s1", json.RawMessage(`7`)))
	w.check(err)
	_, err = w.call(alice, FunctionStep, StepRequest{SessionID: "s1", Run: "r", Cause: "start"})
	if bus.Code(err) != "turn_state_invariant" {
		t.Errorf("got %v", err)
	}
	if len(w.stats.alarms) != 1 || !strings.Contains(w.stats.alarms[0], "broken") {
		t.Errorf("alarms %v", w.stats.alarms)
	}
	_, err = w.call(alice, "turn::get_state", SessionRequest{"s1"})
	if err == nil {
		t.Error("get_state answers")
	}
}

func TestTriggersIgnoreWhatIsNoDecision(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, tc := range []struct {
		event, key, value string
		want              bool
	}{
		{"state:created", "s/c", `{"decision":"allow"}`, true},
		{"state:updated", "s/c", `{"decision":"deny"}`, true},
		{"state:created", "s/c", `{"decision":"aborted"}`, true},
		{"state:deleted", "s/c", `{"decision":"allow"}`, false},
		{"state:created", "s", `{"decision":"allow"}`, false},
		{"state:created", "s/", `{"decision":"allow"}`, false},
		{"state:created", "/c", `{"decision":"allow"}`, false},
		{"state:created", "s/c/d", `{"decision":"allow"}`, false},
		{"state:created", "s/c", `{"decision":"maybe"}`, false},
		{"state:created", "s/c", `7`, false},
	} {
		var got bool
		e := map[string]any{"event_type": tc.event, "key": tc.key, "new_value": json.RawMessage(tc.value)}
		w.must("turn::is_approval_decision", e, &got)
		if got != tc.want {
			t.Errorf("%s %s %s: %v", tc.event, tc.key, tc.value, got)
		}
		w.must("turn::on_approval", e, nil)
		if tc.value != `7` {
			w.must("turn::on_call_result", e, nil)
		}
	}
	w.quiet()
}

// parseWrite is the record in the writes of an operation.
func parseWrite(t *testing.T, detail any) *step.Record {
	t.Helper()
	ws := detail.([]state.Write)
	rec, err := step.Parse(ws[0].Value, 0)
	if err != nil {
		t.Error(err)
		return &step.Record{}
	}
	return rec
}
