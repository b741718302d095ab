package turn

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/internal/agent"
	"github.com/iii-aws/harness/internal/turn/step"
)

func TestA4OneAllowedCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ls := w.simple("ok::ls")
	w.model.plays(wants(want("ok::ls", map[string]string{"path": "/tmp"})), says("two files"))
	w.start("s1", "list")
	w.ended("s1")
	if ls.count() != 1 || ls.data(0) != `{"path":"/tmp"}` {
		t.Fatalf("target ran %d times, with %v", ls.count(), ls.datas)
	}
	wantTypes := []string{
		"message_complete", "function_execution_start", "function_execution_end", "turn_end", "message_complete", "turn_end", "agent_end",
	}
	if diff := cmp.Diff(wantTypes, types(w.events("s1"), agent.EventTurnStateChanged)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	wantStates := []string{
		"provisioning", "assistant_streaming", "function_execute", "steering_check", "assistant_streaming", "steering_check", "stopped",
	}
	if diff := cmp.Diff(wantStates, states(w.events("s1"))); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
	for _, e := range w.events("s1") {
		if e["type"] == agent.EventTurnEnd {
			if n := len(e["function_results"].([]any)); n != 1 {
				t.Errorf("turn_end has %d results, want 1", n)
			}
			break
		}
	}
	req := w.model.request(1)
	if last := req.Messages[len(req.Messages)-1]; last.Role != agent.RoleFunctionResult || !strings.Contains(text(last), "did ok::ls") {
		t.Errorf("the second model call ends with %+v", last)
	}
	w.legalPath("s1")
}

func TestA5ParallelCallsWithTwoApprovals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b, c := w.simple("ask::a"), w.simple("ok::b"), w.simple("ask::c")
	w.model.plays(wants(want("ask::a", nil), want("ok::b", nil), want("ask::c", nil)), says("done"))
	w.start("s1", "go")
	w.parked("s1")
	ids := w.awaiting("s1")
	if a.count() != 0 || b.count() != 1 || c.count() != 0 || len(ids) != 2 {
		t.Fatalf("ran %d %d %d, awaiting %v", a.count(), b.count(), c.count(), ids)
	}
	if !w.decide("s1", ids[1], agent.DecisionAllow, "") {
		t.Fatal("no decision on c")
	}
	w.eventually("c to run", func() bool { return c.count() == 1 })
	w.until("s1", "c's result", func(r *step.Record) bool { return r.State == step.Awaiting && r.Done(ids[1]) })
	if !w.decide("s1", ids[0], agent.DecisionAllow, "") {
		t.Fatal("no decision on a")
	}
	w.ended("s1")
	if a.count() != 1 || b.count() != 1 || c.count() != 1 {
		t.Errorf("ran %d %d %d, want 1 1 1", a.count(), b.count(), c.count())
	}
	var order []string
	for _, m := range w.results("s1") {
		order = append(order, m.FunctionID)
	}
	if diff := cmp.Diff([]string{"ask::a", "ok::b", "ask::c"}, order); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	w.legalPath("s1")
}

func TestA6ApprovalAfterReload(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rm := w.simple("ask::rm")
	w.model.plays(wants(want("ask::rm", map[string]string{"path": "x"})), says("done"))
	w.start("s1", "go")
	w.parked("s1")
	var view agent.TurnStateView
	w.must("turn::get_state", map[string]any{"body": SessionRequest{"s1"}}, &view)
	if view.State != "function_awaiting_approval" || len(view.AwaitingApproval) != 1 || string(view.AwaitingApproval[0].Args) != `{"path":"x"}` {
		t.Fatalf("view %+v", view)
	}
	w.restart()
	w.decide("s1", view.AwaitingApproval[0].FunctionCallID, agent.DecisionAllow, "")
	w.ended("s1")
	if rm.count() != 1 {
		t.Errorf("ran %d times, want once", rm.count())
	}
	starts := 0
	for _, e := range w.events("s1") {
		if e["type"] == agent.EventExecutionStart {
			starts++
		}
	}
	if starts != 1 {
		t.Errorf("%d start events, want 1", starts)
	}
	if rows, err := w.db.State().List(t.Context(), agent.ScopeApprovalReqs, stateAll); err != nil || len(rows) != 0 {
		t.Errorf("approval requests left: %v %v", rows, err)
	}
}

func TestA7Deny(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rm := w.simple("ask::rm")
	w.model.plays(wants(want("ask::rm", map[string]string{"api_key": "sk-CANARY-7f3a"})), says("understood"))
	w.start("s1", "go")
	w.parked("s1")
	w.decide("s1", w.awaiting("s1")[0], agent.DecisionDeny, "not today")
	rec := w.ended("s1")
	if rm.count() != 0 || rec.State != step.Stopped {
		t.Fatalf("ran %d times, state %s", rm.count(), rec.State)
	}
	res := w.results("s1")[0]
	var d map[string]any
	if err := json.Unmarshal(res.Details, &d); err != nil {
		t.Fatal(err)
	}
	if !res.IsError || d["status"] != "denied" || d["denied_by"] != "user" || d["reason"] != "not today" || d["approval_denied"] != true || d["decision"] != "deny" {
		t.Errorf("result %s", res.Details)
	}
	if !strings.Contains(text(res), "not today") || strings.Contains(string(res.Details), "CANARY") {
		t.Errorf("text %q, details %s", text(res), res.Details)
	}
	if w.model.calls() != 2 {
		t.Errorf("model asked %d times, want 2", w.model.calls())
	}
}

func TestA9DuplicateAndLateDecisions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rm := w.simple("ask::rm")
	w.model.plays(wants(want("ask::rm", nil)), says("done"))
	w.start("s1", "go")
	rec := w.parked("s1")
	id := w.awaiting("s1")[0]
	w.decide("s1", id, agent.DecisionAllow, "")
	row := encode(agent.Decision{Decision: agent.DecisionAllow, Run: rec.Run})
	w.fire("turn::on_approval", "s1/"+id, row)
	w.ended("s1")
	w.fire("turn::on_approval", "s1/"+id, row)
	w.fire("turn::on_approval", "nobody/"+id, row)
	w.quiet()
	if w.decide("s1", id, agent.DecisionDeny, "") {
		t.Error("a decision on a finished call was taken")
	}
	if rm.count() != 1 {
		t.Errorf("ran %d times, want once", rm.count())
	}
	w.legalPath("s1")
}

func TestA16Results(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.bus.on("ok::json", failing("invocation_failed", `S200: {"code":"S200","message":"no such file","docs_url":"u"}`))
	w.bus.on("ok::plain", failing("invocation_failed", "kaput"))
	w.model.plays(wants(
		want("ok::missing", nil), want("ok::/skills/ok::/ls", nil), want("ok::json", nil), want("ok::plain", nil),
	), says("done"))
	w.start("s1", "go")
	w.ended("s1")
	var got []map[string]any
	for _, m := range w.results("s1") {
		var d map[string]any
		if err := json.Unmarshal(m.Details, &d); err != nil {
			t.Fatal(err)
		}
		if !m.IsError {
			t.Errorf("%s is no error", m.FunctionID)
		}
		got = append(got, d)
	}
	if got[0]["error"] != "function_not_found" || got[0]["hint"] == "" {
		t.Errorf("missing: %v", got[0])
	}
	if got[1]["error"] != "function_not_found" || !strings.Contains(got[1]["hint"].(string), "ok::::ls") {
		t.Errorf("slash path: %v", got[1])
	}
	if got[2]["error"] != "handler_error" || got[2]["code"] != "S200" || got[2]["docs_url"] != "u" {
		t.Errorf("handler error: %v", got[2])
	}
	if got[3]["denied_by"] != "gate_unavailable" || !strings.HasPrefix(got[3]["reason"].(string), "trigger_failed:") {
		t.Errorf("plain error: %v", got[3])
	}
	w.legalPath("s1")
}

func TestA17ArgumentsAsText(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ls := w.simple("ok::ls")
	w.model.plays(
		finishes(assistant(agent.StopFunctionCall, agent.Block{
			Type: agent.BlockFunctionCall, ID: "t1", FunctionID: step.ToolName,
			Arguments: encode(`{"function":"ok::ls","payload":{"path":"/a"}}`),
		}, agent.Block{
			Type: agent.BlockFunctionCall, ID: "t2", FunctionID: step.ToolName,
			Arguments: encode(map[string]string{"function": "ok::ls", "payload": ` {"path":"/b"} `}),
		})), says("done"))
	w.start("s1", "go")
	w.ended("s1")
	got := []string{ls.data(0), ls.data(1)}
	if got[0] > got[1] {
		got[0], got[1] = got[1], got[0]
	}
	if diff := cmp.Diff([]string{`{"path":"/a"}`, `{"path":"/b"}`}, got); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
}

func TestA18AllTerminate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.bus.on("ok::end", answers(map[string]any{"content": []agent.Block{agent.Text("bye")}, "terminate": true}))
	w.model.plays(wants(want("ok::end", nil), want("ok::end", nil)))
	w.start("s1", "go")
	rec := w.ended("s1")
	if rec.State != step.Stopped || w.model.calls() != 1 {
		t.Errorf("state %s, model asked %d times", rec.State, w.model.calls())
	}
	w.legalPath("s1")
}

func TestA19MaxTurns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.simple("ok::ls")
	w.model.plays(wants(want("ok::ls", nil)), says("never"))
	w.start("s1", "go", map[string]any{"max_turns": 1})
	rec := w.ended("s1")
	path := w.session.path("s1")
	last := path[len(path)-1].Message
	if rec.State != step.Stopped || w.model.calls() != 1 || !strings.HasPrefix(text(last), "loop stopped: max_turns (1) reached") {
		t.Errorf("state %s, model asked %d times, last message %q", rec.State, w.model.calls(), text(last))
	}
	wantTypes := []string{"message_complete", "function_execution_start", "function_execution_end", "turn_end", "message_complete", "agent_end"}
	if diff := cmp.Diff(wantTypes, types(w.events("s1"), agent.EventTurnStateChanged)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	w.legalPath("s1")
}

func TestPolicyDenial(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rm := w.simple("no::rm")
	w.model.plays(wants(want("no::rm", map[string]string{"path": "/"})), says("ok"))
	w.start("s1", "go")
	w.ended("s1")
	res := w.results("s1")[0]
	if rm.count() != 0 || !strings.Contains(string(res.Details), `"rule_id":"no"`) || !strings.Contains(text(res), `"no"`) {
		t.Errorf("ran %d, result %s", rm.count(), res.Details)
	}
}

func TestCallsCarryTheirKeyAndPrincipal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.simple("ok::ls")
	w.model.plays(wants(want("ok::ls", nil)), says("done"))
	w.start("s1", "go")
	w.ended("s1")
	c := w.bus.seen("ok::ls")[0]
	id := w.results("s1")[0].FunctionCallID
	want := &bus.Reply{SessionID: "s1", FunctionCallID: id, Run: w.record("s1").Run, AfterMS: 2000}
	if c.IdempotencyKey != id || c.Principal.ID != "alice" {
		t.Errorf("key %q, principal %q; want %q, alice", c.IdempotencyKey, c.Principal.ID, id)
	}
	if diff := cmp.Diff(want, c.Reply); diff != "" {
		t.Errorf("reply (-want +got):\n%s", diff)
	}
}
