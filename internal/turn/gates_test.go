package turn

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/internal/agent"
	"github.com/iii-aws/harness/internal/kernel"
	"github.com/iii-aws/harness/internal/turn/step"
)

// details of the nth result.
func (w *world) details(session string, n int) map[string]any {
	w.t.Helper()
	var d map[string]any
	w.check(json.Unmarshal(w.results(session)[n].Details, &d))
	return d
}

func TestA11PolicyFailsClosed(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]handler{
		"error":    failing("invocation_failed", "broken"),
		"nonsense": answers(map[string]string{"decision": "maybe"}),
		"no JSON":  answers("yes"),
		"panic":    func(context.Context, *bus.Call) (any, error) { panic("sk-CANARY-7f3a") },
		"nothing":  answers(nil),
		"throttle": failing("TooManyRequests", "throttled"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			x := w.simple("ok::x")
			w.bus.on("policy::check_permissions", policy)
			w.model.plays(wants(want("ok::x", nil)), says("ok"))
			w.start("s1", "go")
			w.ended("s1")
			d := w.details("s1", 0)
			if x.count() != 0 || d["denied_by"] != "gate_unavailable" || !strings.HasPrefix(d["reason"].(string), "policy unreachable:") {
				t.Errorf("ran %d times, details %v", x.count(), d)
			}
			w.legalPath("s1")
		})
	}
}

func TestA11PolicyGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	x := w.simple("ok::x")
	w.bus.off("policy::check_permissions")
	w.model.plays(wants(want("ok::x", nil)), says("ok"))
	w.start("s1", "go")
	w.ended("s1")
	if d := w.details("s1", 0); x.count() != 0 || d["denied_by"] != "gate_unavailable" {
		t.Errorf("ran %d times, details %v", x.count(), d)
	}
}

func TestA11PolicySlow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	x := w.simple("ok::x")
	began, _ := blockWorld(t, w, "policy::check_permissions")
	w.model.plays(wants(want("ok::x", nil)), says("ok"))
	w.start("s1", "go")
	<-began
	w.advanceUntil("the end", time.Second, func() bool { return w.record("s1").State.Terminal() })
	w.ended("s1")
	if d := w.details("s1", 0); x.count() != 0 || d["denied_by"] != "gate_unavailable" {
		t.Errorf("ran %d times, details %v", x.count(), d)
	}
}

func TestA50KernelDeniesWithoutPolicy(t *testing.T) {
	t.Parallel()
	all := []string{}
	for _, rule := range kernel.Denies() {
		all = append(all, strings.ReplaceAll(rule, "*", "x"))
	}
	for _, mode := range []string{"none", "replaced"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, withConfig(func(c *Config) { c.PolicyNone = mode == "none" }))
			w.bus.on("policy::check_permissions", answers(map[string]string{"decision": "allow", "rule_id": "all"}))
			w.bus.onMeta("mine::secret", bus.Meta{Internal: true}, bus.KindBuiltin, answers("leak"))
			var calls []wanted
			var targets []*target
			for _, id := range all {
				if _, served := w.bus.Lookup("", id); !served && !strings.HasPrefix(id, "budget::") && id != "directory::skills::download" {
					targets = append(targets, w.simple(id))
				}
				calls = append(calls, want(id, map[string]any{"session_id": "s1", "function_id": "ok::x", "scope": "agent"}))
			}
			calls = append(calls, want("mine::secret", nil))
			free := w.simple("free::x")
			calls = append(calls, want("free::x", nil))
			w.model.plays(wants(calls...), says("ok"))
			w.start("s1", "go")
			w.ended("s1")
			res := w.results("s1")
			for i, r := range res[:len(res)-1] {
				if d := w.details("s1", i); d["denied_by"] != "permissions" || d["rule_action"] != "deny" {
					t.Errorf("%s: %v", r.FunctionID, d)
				}
			}
			for i, x := range targets {
				if x.count() != 0 {
					t.Errorf("target %d ran", i)
				}
			}
			if free.count() != 1 {
				t.Error("the free function did not run")
			}
		})
	}
}

func TestF08RulesChangedWhileParked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	deploy := w.simple("ask::deploy")
	w.model.plays(wants(want("ask::deploy", nil)), says("ok"))
	w.start("s1", "go")
	w.parked("s1")
	id := w.awaiting("s1")[0]
	w.bus.on("policy::check_permissions", answers(map[string]any{
		"decision": "deny", "rule_id": "frozen", "rule_action": "deny",
		"matched_constraint": map[string]string{"field": "env", "operator": "equals", "value": "prod"},
	}))
	w.decide("s1", id, agent.DecisionAllow, "")
	w.ended("s1")
	d := w.details("s1", 0)
	if deploy.count() != 0 || d["rule_id"] != "frozen" || d["denied_by"] != "permissions" || d["matched_constraint"] == nil {
		t.Errorf("ran %d times, details %v", deploy.count(), d)
	}
}

func TestF08DecisionOnOtherArguments(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	deploy := w.simple("ask::deploy")
	w.model.plays(wants(want("ask::deploy", map[string]string{"env": "test"})), says("ok"))
	w.start("s1", "go")
	rec := w.parked("s1")
	id := w.awaiting("s1")[0]
	for _, row := range []agent.Decision{
		{Decision: agent.DecisionAllow, Run: rec.Run, ArgsHash: step.ArgsHash("ask::deploy", json.RawMessage(`{"env":"prod"}`))},
		{Decision: agent.DecisionAllow, Run: "other", ArgsHash: step.ArgsHash("ask::deploy", json.RawMessage(`{"env":"test"}`))},
		{Decision: "maybe", Run: rec.Run, ArgsHash: step.ArgsHash("ask::deploy", json.RawMessage(`{"env":"test"}`))},
	} {
		w.setRow(agent.ScopeApprovals, "s1/"+id, row)
		w.raise("s1")
		w.fire("turn::on_approval", "s1/"+id, encode(agent.Decision{Decision: agent.DecisionAllow, Run: rec.Run}))
		w.quiet()
		if deploy.count() != 0 || w.record("s1").State != step.Awaiting {
			t.Fatalf("%+v opened the call", row)
		}
	}
}

func TestA44SameProviderCallIDs(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"call_1", "", "a/b"} {
		t.Run("id "+id, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			pay := w.simple("ask::pay")
			c := wanted{id, "ask::pay", map[string]int{"amount": 10}}
			w.model.plays(wants(c), wants(c), says("done"))
			w.start("s1", "go")
			w.parked("s1")
			first := w.awaiting("s1")[0]
			w.decide("s1", first, agent.DecisionAllow, "")
			w.until("s1", "the second approval", func(r *step.Record) bool {
				return r.State == step.Awaiting && r.TurnCount == 2 && r.Outbox.IsZero()
			})
			w.quiet()
			second := w.awaiting("s1")[0]
			if first == second || pay.count() != 1 || strings.Contains(second, "/") {
				t.Fatalf("first %s, second %s, ran %d times", first, second, pay.count())
			}
			w.decide("s1", second, agent.DecisionAllow, "")
			w.ended("s1")
			if pay.count() != 2 {
				t.Errorf("ran %d times, want 2", pay.count())
			}
			req := w.model.request(1)
			if got := req.Messages[1].Content[0]; got.ProviderCallID != id || got.ID != first {
				t.Errorf("the model gets ids %q %q, want %q %q", got.ProviderCallID, got.ID, id, first)
			}
			w.legalPath("s1")
		})
	}
}

// hooked makes the before topic have subscribers and answers with replies.
func (w *world) hooked(topic string, subscribers int, collect handler) {
	var rows []any
	for range subscribers {
		rows = append(rows, map[string]any{"trigger_type": "durable:subscriber", "config": map[string]string{"topic": topic}})
	}
	rows = append(rows, map[string]any{"trigger_type": "durable:subscriber", "config": map[string]string{"topic": "other"}})
	w.bus.on("engine::registered-triggers::list", answers(map[string]any{"registered_triggers": rows}))
	if collect != nil {
		w.bus.on("hook-fanout::publish_collect", collect)
	}
}

func replies(rs ...string) handler {
	raw := []json.RawMessage{}
	for _, r := range rs {
		raw = append(raw, json.RawMessage(r))
	}
	return answers(map[string]any{"event_id": "e", "replies": raw, "merged": map[string]any{}, "publish": map[string]bool{"ok": true}})
}

func TestA52BeforeHook(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		n        int
		collect  handler
		deniedBy string
		reason   string
		ran      string
	}{
		{name: "continue", n: 1, collect: replies(`{"block":false}`), ran: `{"a":1}`},
		{name: "block", n: 1, collect: replies(`{"block":true,"reason":"no"}`), deniedBy: "hook", reason: "no"},
		{name: "block without reason", n: 1, collect: replies(`{"block":true}`), deniedBy: "hook", reason: "blocked by a hook"},
		{name: "new arguments", n: 1, collect: replies(`{"arguments":{"a":2}}`), ran: `{"a":2}`},
		{name: "last arguments win", n: 2, collect: replies(`{"arguments":{"a":2}}`, `{"arguments":{"a":3}}`), ran: `{"a":3}`},
		{name: "block beats arguments", n: 2, collect: replies(`{"arguments":{"a":2}}`, `{"block":true}`), deniedBy: "hook", reason: "blocked by a hook"},
		{name: "nonsense", n: 1, collect: replies(`{"decision":"maybe"}`), deniedBy: "gate_unavailable"},
		{name: "empty", n: 1, collect: replies(`{}`), deniedBy: "gate_unavailable"},
		{name: "not JSON object", n: 1, collect: replies(`[1]`), deniedBy: "gate_unavailable"},
		{name: "arguments no object", n: 1, collect: replies(`{"block":false,"arguments":7}`), deniedBy: "gate_unavailable"},
		{name: "hangs", n: 1, collect: replies(), deniedBy: "gate_unavailable"},
		{name: "one of two hangs", n: 2, collect: replies(`{"block":false}`), deniedBy: "gate_unavailable"},
		{name: "publish failed", n: 1, collect: answers(map[string]any{"replies": []any{}, "publish_failed": true}), deniedBy: "gate_unavailable"},
		{name: "error", n: 1, collect: failing("invocation_failed", "boom"), deniedBy: "gate_unavailable"},
		{name: "no fan-out", n: 1, deniedBy: "gate_unavailable"},
		{name: "nobody", n: 0, collect: replies(`{"block":true}`), ran: `{"a":1}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			x := w.simple("ok::x")
			w.hooked(TopicBefore, tc.n, tc.collect)
			w.model.plays(wants(want("ok::x", map[string]int{"a": 1})), says("ok"))
			w.start("s1", "go")
			w.ended("s1")
			if tc.deniedBy == "" {
				if x.count() != 1 || x.data(0) != tc.ran {
					t.Errorf("ran with %v, want %s", x.datas, tc.ran)
				}
			} else {
				d := w.details("s1", 0)
				reason := d["reason"].(string)
				if x.count() != 0 || d["denied_by"] != tc.deniedBy || (tc.reason != "" && reason != tc.reason) ||
					(tc.deniedBy == "gate_unavailable" && !strings.HasPrefix(reason, "hook unreachable:")) {
					t.Errorf("ran %d times, details %v", x.count(), d)
				}
			}
			w.legalPath("s1")
		})
	}
}

// The approver sees what will run, and the hook saw what was asked.
func TestCE2E505HoldAndMutate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	x := w.simple("ask::x")
	w.hooked(TopicBefore, 1, replies(`{"arguments":{"a":2}}`))
	w.model.plays(wants(want("ask::x", map[string]int{"a": 1})), says("ok"))
	w.start("s1", "go")
	rec := w.parked("s1")
	if got := string(rec.AwaitingApproval[0].Args.Raw); got != `{"a":2}` {
		t.Errorf("the approver sees %s", got)
	}
	w.restart()
	w.decide("s1", w.awaiting("s1")[0], agent.DecisionAllow, "")
	w.ended("s1")
	if x.count() != 1 || x.data(0) != `{"a":2}` {
		t.Errorf("ran with %v", x.datas)
	}
	var req struct {
		Topic   string `json:"topic"`
		Rule    string `json:"merge_rule"`
		Payload struct {
			A          int    `json:"a"`
			SessionID  string `json:"session_id"`
			FunctionID string `json:"function_id"`
			Call       struct {
				Arguments json.RawMessage `json:"arguments"`
			} `json:"function_call"`
		} `json:"payload"`
		Expected int `json:"expected_replies"`
	}
	w.check(json.Unmarshal(w.bus.seen("hook-fanout::publish_collect")[0].Data, &req))
	if req.Payload.A != 1 || req.Payload.SessionID != "s1" || req.Payload.FunctionID != "ask::x" || string(req.Payload.Call.Arguments) != `{"a":1}` ||
		req.Topic != TopicBefore || req.Rule != "first_block_wins" || req.Expected != 1 {
		t.Errorf("the hook saw %+v", req)
	}
	for _, e := range w.events("s1") {
		if e["type"] == agent.EventExecutionStart {
			if diff := cmp.Diff(map[string]any{"a": 1.0}, e["args"]); diff != "" {
				t.Errorf("start event (-want +got):\n%s", diff)
			}
		}
	}
}

// A hook may not smuggle arguments past policy.
func TestHookArgumentsAreCheckedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	x := w.simple("ok::x")
	w.bus.on("policy::check_permissions", func(_ context.Context, c *bus.Call) (any, error) {
		if strings.Contains(string(c.Data), "evil") {
			return map[string]string{"decision": "deny", "rule_id": "evil"}, nil
		}
		return map[string]string{"decision": "allow"}, nil
	})
	w.hooked(TopicBefore, 1, replies(`{"arguments":{"a":"evil"}}`))
	w.model.plays(wants(want("ok::x", map[string]string{"a": "good"})), says("ok"))
	w.start("s1", "go")
	w.ended("s1")
	if d := w.details("s1", 0); x.count() != 0 || d["rule_id"] != "evil" || d["rule_action"] != "deny" {
		t.Errorf("ran %d times, details %v", x.count(), d)
	}
}

func TestRequiredHook(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withConfig(func(c *Config) { c.RequiredHooks = []string{TopicBefore} }))
	x := w.simple("ok::x")
	w.model.plays(wants(want("ok::x", nil)), says("ok"))
	w.start("s1", "go")
	w.ended("s1")
	if d := w.details("s1", 0); x.count() != 0 || d["denied_by"] != "gate_unavailable" {
		t.Errorf("ran %d times, details %v", x.count(), d)
	}
}

func TestPresenceUnknownIsPresent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	x := w.simple("ok::x")
	w.bus.on("engine::registered-triggers::list", failing("invocation_failed", "down"))
	w.model.plays(wants(want("ok::x", nil)), says("ok"))
	w.start("s1", "go")
	w.ended("s1")
	if d := w.details("s1", 0); x.count() != 0 || d["denied_by"] != "gate_unavailable" {
		t.Errorf("ran %d times, details %v", x.count(), d)
	}
}

func TestA29AfterHook(t *testing.T) {
	t.Parallel()
	merged := func(m string) handler {
		return answers(map[string]any{"replies": []any{}, "merged": json.RawMessage(m)})
	}
	for _, tc := range []struct {
		name      string
		n         int
		collect   handler
		text      string
		published bool
	}{
		{"nobody", 0, merged(`{"content":[{"type":"text","text":"masked"}]}`), "did ok::x {}", false},
		{"masked", 1, merged(`{"content":[{"type":"text","text":"masked"}],"details":{"m":1}}`), "masked", true},
		{"nothing changed", 1, merged(`{"function_call":{},"result":{}}`), "did ok::x {}", true},
		{"error", 1, failing("invocation_failed", "boom"), "did ok::x {}", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.simple("ok::x")
			w.hooked(TopicAfter, tc.n, tc.collect)
			w.model.plays(wants(want("ok::x", nil)), says("ok"))
			w.start("s1", "go")
			w.ended("s1")
			if got := text(w.results("s1")[0]); got != tc.text {
				t.Errorf("result %q, want %q", got, tc.text)
			}
			if got := len(w.bus.seen("hook-fanout::publish_collect")) > 0; got != tc.published {
				t.Errorf("published %v, want %v", got, tc.published)
			}
			// The event of the end of the call tells what the target said.
			for _, e := range w.events("s1") {
				if e["type"] == agent.EventExecutionEnd {
					if got := e["result"].(map[string]any)["content"].([]any)[0].(map[string]any)["text"]; got != "did ok::x {}" {
						t.Errorf("end event tells %q", got)
					}
				}
			}
			w.legalPath("s1")
		})
	}
}

func TestAgentSeesOnlyWhatItMayCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.bus.on("engine::functions::list", answers(map[string]any{"functions": []map[string]string{
		{"function_id": "ok::x"}, {"function_id": "ask::y"}, {"function_id": "no::z"}, {"function_id": "run::start"},
	}}))
	w.model.plays(wants(want("engine::functions::list", nil)), says("ok"))
	w.start("s1", "go")
	w.ended("s1")
	got := text(w.results("s1")[0])
	if !strings.Contains(got, "ok::x") || !strings.Contains(got, "ask::y") || strings.Contains(got, "no::z") || strings.Contains(got, "run::start") {
		t.Errorf("the model sees %s", got)
	}
}
