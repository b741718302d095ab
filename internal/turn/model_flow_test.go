package turn

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/internal/agent"
	"github.com/iii-aws/harness/internal/turn/step"
)

func TestA26ProviderErrorsEndTheRun(t *testing.T) {
	t.Parallel()
	for _, kind := range []agent.ErrorKind{agent.ErrAuthExpired, agent.ErrContextOverflow, agent.ErrPermanent} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.model.plays(fails(kind, "no", 0, ""))
			w.start("s1", "go")
			rec := w.ended("s1")
			m, ok := rec.Assistant()
			if rec.State != step.Stopped || !ok || *m.ErrorKind != kind || m.StopReason != agent.StopError {
				t.Errorf("state %s, message %+v", rec.State, m)
			}
			if diff := cmp.Diff([]string{"message_complete", "turn_end", "agent_end"}, types(w.events("s1"), agent.EventTurnStateChanged)); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if n := len(w.session.path("s1")); n != 1 {
				t.Errorf("transcript has %d entries, want the user's alone", n)
			}
		})
	}
}

func TestF29RetriedUnseen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.model.plays(
		fails(agent.ErrRateLimited, "slow down", 7000, ""),
		fails(agent.ErrTransient, "overloaded", 0, ""),
		says("at last"))
	w.start("s1", "go")
	rec := w.until("s1", "the first pause", func(r *step.Record) bool { return r.Wait != nil && r.Outbox.IsZero() })
	w.quiet()
	if got := rec.Wait.UntilMS - epoch.UnixMilli(); got != 7000 || rec.Wait.N != 1 || rec.TurnCount != 1 || rec.DueAt != rec.Wait.UntilMS {
		t.Errorf("wait %+v, in %d ms, turn %d", rec.Wait, got, rec.TurnCount)
	}
	w.clock.Advance(6 * time.Second)
	w.quiet()
	if w.model.calls() != 1 {
		t.Fatalf("model asked %d times before the time was up", w.model.calls())
	}
	w.clock.Advance(time.Second)
	rec = w.until("s1", "the second pause", func(r *step.Record) bool { return r.Wait != nil && r.Wait.N == 2 && r.Outbox.IsZero() })
	w.quiet()
	if d := rec.Wait.UntilMS - rec.UpdatedAtMS; d < 1500 || d > 2000 {
		t.Errorf("second pause of %d ms, want 1.5 to 2 s", d)
	}
	w.clock.Advance(2 * time.Second)
	rec = w.ended("s1")
	if rec.TurnCount != 1 || w.model.calls() != 3 {
		t.Errorf("turn %d, model asked %d times", rec.TurnCount, w.model.calls())
	}
	if diff := cmp.Diff([]string{"message_complete", "turn_end", "agent_end"}, types(w.events("s1"), agent.EventTurnStateChanged)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestF29AttemptsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 20 {
		w.model.plays(fails(agent.ErrTransient, "overloaded", 0, ""))
	}
	w.start("s1", "go")
	w.advanceUntil("the end", 10*time.Second, func() bool { return w.record("s1").State.Terminal() && w.record("s1").Outbox.IsZero() })
	if w.model.calls() != 6 {
		t.Errorf("model asked %d times, want 6", w.model.calls())
	}
	w.model.replies = nil
	w.model.plays(says("fine"))
	w.start("s1", "again")
	w.ended("s1")
	w.legalPath("s1")
}

func TestF29ShownTextIsKeptAndNotRetried(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.model.plays(fails(agent.ErrTransient, "overloaded", 0, "two hundred tokens"), says("fine"))
	w.start("s1", "go")
	rec := w.ended("s1")
	path := w.session.path("s1")
	kept := path[1].Message
	if rec.State != step.Stopped || w.model.calls() != 1 || text(kept) != "two hundred tokens" || kept.StopReason != agent.StopError ||
		string(kept.Details) != `{"interrupted":true}` {
		t.Errorf("state %s, kept %+v", rec.State, kept)
	}
	w.start("s1", "again")
	w.ended("s1")
	w.legalPath("s1")
}

func TestF29FailureInMidCallRunsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	x := w.simple("ok::x")
	kind, message := agent.ErrTransient, "overloaded"
	w.model.plays(func(_ context.Context, emit func(agent.LLMEvent)) error {
		emit(agent.LLMEvent{Type: agent.LLMFunctionCallStart, ID: "t1", FunctionID: step.ToolName})
		emit(agent.LLMEvent{Type: agent.LLMFunctionCallDelta, Delta: `{"function":"ok::x"}`})
		m := assistant(agent.StopError, agent.Block{Type: agent.BlockFunctionCall, ID: "t1", FunctionID: step.ToolName, Arguments: json.RawMessage(`{"function":"ok::x"}`)})
		m.ErrorKind, m.ErrorMessage = &kind, &message
		emit(agent.LLMEvent{Type: agent.LLMError, Err: m})
		return nil
	})
	w.start("s1", "go")
	rec := w.ended("s1")
	if rec.State != step.Stopped || x.count() != 0 || len(w.session.path("s1")) != 1 || w.model.calls() != 1 {
		t.Errorf("state %s, ran %d times, transcript %d, asked %d", rec.State, x.count(), len(w.session.path("s1")), w.model.calls())
	}
}

func TestA27ChannelClosesWithoutFinal(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, streamed, wantText string
		err                      error
		kind                     agent.ErrorKind
	}{
		{"nothing", "", "channel closed without final", nil, agent.ErrTransient},
		{"partial", "half", "half", nil, agent.ErrTransient},
		{"call error", "", "boom", &bus.Error{Code: "invocation_failed", Message: "IIIInvocationError: invocation_failed: boom"}, agent.ErrTransient},
		{"no credential", "", "no key for test: store one", &bus.Error{Code: "credential_missing", Message: "no key for test: store one"}, agent.ErrAuthExpired},
		{"kind as code", "", "x", &bus.Error{Code: "auth_expired", Message: "x"}, agent.ErrAuthExpired},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.model.plays(func(_ context.Context, emit func(agent.LLMEvent)) error {
				if tc.streamed != "" {
					emit(agent.LLMEvent{Type: agent.LLMTextDelta, Delta: tc.streamed})
				}
				return tc.err
			})
			w.start("s1", "go")
			rec := w.ended("s1")
			m, _ := rec.Assistant()
			if rec.State != step.Stopped || m.StopReason != agent.StopError || *m.ErrorKind != tc.kind || text(m) != tc.wantText {
				t.Errorf("state %s, message %s %q", rec.State, *m.ErrorKind, text(m))
			}
			if m.StopReason == agent.StopEnd {
				t.Error("a broken stream looks like a normal end")
			}
			deltas := ""
			for _, u := range w.viewer.seen() {
				deltas += u.LLMEvent.Delta
			}
			if deltas != tc.wantText {
				t.Errorf("viewers see %q, want %q", deltas, tc.wantText)
			}
		})
	}
}

func TestProviderFallsSilent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	began := make(chan struct{})
	w.model.plays(hangs("", began, nil, nil))
	w.start("s1", "go")
	<-began
	w.told("s1")
	w.eventually("the first event to be heard", func() bool { return len(w.viewer.seen()) > 0 })
	w.advanceUntil("the end", 10*time.Second, func() bool { return w.record("s1").State.Terminal() && w.record("s1").Outbox.IsZero() })
	rec := w.record("s1")
	if d := w.clock.Now().Sub(epoch); d < 120*time.Second {
		t.Errorf("given up after %s", d)
	}
	if m, _ := rec.Assistant(); *m.ErrorKind != agent.ErrTransient || !strings.Contains(*m.ErrorMessage, "2m0s") {
		t.Errorf("message %+v", m)
	}
}

func TestUndecodableEventsAreSkipped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.bus.on("provider::test::stream", func(ctx context.Context, c *bus.Call) (any, error) {
		return rawStream(ctx, w, c, `{"type":"text_delta","delta":"a"}`, `nonsense`, `{"type":7}`, `{"type":"mystery"}`,
			`{"type":"done","message":{"role":"assistant","content":"plain text","stop_reason":"end"}}`, `{"type":"text_delta","delta":"late"}`)
	})
	w.start("s1", "go")
	w.ended("s1")
	if got := text(w.session.path("s1")[1].Message); got != "plain text" {
		t.Errorf("answer %q", got)
	}
}

func TestProviderThatOnlyCompletes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.bus.off("provider::test::stream")
	x := w.simple("ok::x")
	n := 0
	w.bus.on("provider::test::complete", func(context.Context, *bus.Call) (any, error) {
		n++
		switch n {
		case 1:
			m := assistant(agent.StopFunctionCall, agent.Text("looking"), agent.Block{
				Type: agent.BlockFunctionCall, ID: "c", FunctionID: step.ToolName, Arguments: json.RawMessage(`{"function":"ok::x"}`),
			})
			return m, nil
		case 2:
			return assistant(agent.StopEnd, agent.Text("done")), nil
		}
		kind, message := agent.ErrPermanent, "no more"
		m := assistant(agent.StopError, agent.Text(message))
		m.ErrorKind, m.ErrorMessage = &kind, &message
		return m, nil
	})
	w.start("s1", "go")
	w.ended("s1")
	if x.count() != 1 || n != 2 {
		t.Errorf("target ran %d times, model asked %d times", x.count(), n)
	}
	if got := w.viewer.seen()[0].LLMEvent.Delta; got != "looking" {
		t.Errorf("first delta %q", got)
	}
	w.start("s1", "more")
	rec := w.ended("s1")
	if m, _ := rec.Assistant(); *m.ErrorKind != agent.ErrPermanent {
		t.Errorf("message %+v", m)
	}
}

func TestF27EmptyArguments(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, args, wantData, wantError string
	}{
		{"payload missing", `{"function":"ok::x"}`, `{}`, ""},
		{"payload null", `{"function":"ok::x","payload":null}`, `{}`, ""},
		{"payload empty", `{"function":"ok::x","payload":{}}`, `{}`, ""},
		{"payload text object", `{"function":"ok::x","payload":"{}"}`, `{}`, ""},
		{"payload array", `{"function":"ok::x","payload":[]}`, "", "invalid_arguments"},
		{"payload text array", `{"function":"ok::x","payload":"[1]"}`, "", "invalid_arguments"},
		{"payload word", `{"function":"ok::x","payload":"word"}`, "", "invalid_arguments"},
		{"payload number", `{"function":"ok::x","payload":7}`, "", "invalid_arguments"},
		{"payload repeats a key", `{"function":"ok::x","payload":"{\"a\":1,\"a\":2}"}`, "", "invalid_arguments"},
		{"no arguments", `{}`, "", "missing_function"},
		{"array", `[]`, "", "invalid_arguments"},
		{"text of nothing", `"{}"`, "", "missing_function"},
		{"function no text", `{"function":7}`, "", "missing_function"},
		{"unparsable", `null`, "", "invalid_arguments"},
		{"key twice", `{"function":"ok::x","function":"ok::y"}`, "", "invalid_arguments"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			x := w.simple("ok::x")
			w.model.plays(finishes(assistant(agent.StopFunctionCall, agent.Block{
				Type: agent.BlockFunctionCall, ID: "c", FunctionID: step.ToolName, Arguments: json.RawMessage(tc.args),
			})), says("ok"))
			w.start("s1", "go")
			w.ended("s1")
			if tc.wantError == "" {
				if x.count() != 1 || x.data(0) != tc.wantData {
					t.Errorf("ran with %v, want %s", x.datas, tc.wantData)
				}
				var asked struct {
					Args json.RawMessage `json:"args"`
				}
				w.check(json.Unmarshal(w.bus.seen("policy::check_permissions")[0].Data, &asked))
				if string(asked.Args) != tc.wantData {
					t.Errorf("policy saw %s, want %s", asked.Args, tc.wantData)
				}
			} else if d := w.details("s1", 0); x.count() != 0 || d["error"] != tc.wantError {
				t.Errorf("ran %d times, details %v, want %s", x.count(), d, tc.wantError)
			}
			w.legalPath("s1")
		})
	}
}

func TestTruncatedMessageRunsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	x := w.simple("ok::x")
	b := func(args string) agent.Block {
		return agent.Block{Type: agent.BlockFunctionCall, ID: "c", FunctionID: step.ToolName, Arguments: json.RawMessage(args)}
	}
	w.model.plays(finishes(assistant(agent.StopLength, b(`{"function":"ok::x"}`), b(`null`))), says("ok"))
	w.start("s1", "go")
	w.ended("s1")
	if d, e := w.details("s1", 0), w.details("s1", 1); x.count() != 0 || d["error"] != "arguments_truncated" || e["error"] != "arguments_truncated" {
		t.Errorf("ran %d times, details %v %v", x.count(), d, e)
	}
}

func TestA38Decide(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, provider, model string
		registered            []string
		credential            map[string]bool
		noAuth                bool
		def                   string
		remote                bool
		want                  string // the provider asked, or the error's text
	}{
		{name: "named", provider: "Test", model: "m", want: "test"},
		{name: "unknown", provider: "acme", model: "gpt-5", want: `provider_not_found: no worker serves provider "acme". Registered: openai, test.`, registered: []string{"openai"}},
		{name: "gpt", model: "gpt-5", registered: []string{"openai", "anthropic"}, credential: map[string]bool{"openai": true}, want: "openai"},
		{name: "o1", model: "O1-mini", registered: []string{"openai"}, credential: map[string]bool{"openai": true}, want: "openai"},
		{name: "kimi", model: "Kimi-k2.6", registered: []string{"kimi"}, credential: map[string]bool{"kimi": true}, want: "kimi"},
		{name: "moonshot", model: "moonshot-v1-8k", registered: []string{"kimi"}, credential: map[string]bool{"kimi": true}, want: "kimi"},
		{name: "claude", model: "claude-sonnet-4-6", registered: []string{"anthropic"}, credential: map[string]bool{"anthropic": true}, want: "anthropic"},
		{name: "default", model: "anything", registered: []string{"anthropic"}, credential: map[string]bool{"anthropic": true}, def: "test", want: "test"},
		{name: "no credential", model: "claude-x", registered: []string{"anthropic", "scripted"}, want: "scripted"},
		{name: "guess without credential falls to the default", model: "gpt-5", registered: []string{"openai"}, def: "test", want: "test"},
		{name: "not registered", model: "gpt-5", registered: []string{"scripted"}, want: "scripted"},
		{name: "nobody knows credentials", model: "gpt-5", registered: []string{"openai", "scripted"}, noAuth: true, want: "openai"},
		{name: "on AWS nobody falls to scripted", model: "claude-x", registered: []string{"scripted"}, remote: true,
			want: `provider_not_found: no worker serves provider "anthropic". Registered: scripted, test.`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, withConfig(func(c *Config) { c.DefaultProvider, c.Local = tc.def, !tc.remote }))
			for _, p := range tc.registered {
				w.bus.on("provider::"+p+"::stream", w.model.stream)
			}
			if !tc.noAuth {
				w.bus.on("auth::status", func(_ context.Context, c *bus.Call) (any, error) {
					var r struct{ Provider string }
					err := bus.Decode(c.Data, &r)
					return map[string]bool{"configured": tc.credential[r.Provider]}, err
				})
			}
			w.start("s1", "go", map[string]any{"provider": tc.provider, "model": tc.model})
			rec := w.ended("s1")
			asked := ""
			for _, p := range append(tc.registered, "test") {
				if calls := w.bus.seen("provider::" + p + "::stream"); len(calls) > 0 {
					asked = p
					var r providerRequest
					w.check(json.Unmarshal(calls[0].Data, &r))
					if r.Model != tc.model {
						t.Errorf("model %q, want %q", r.Model, tc.model)
					}
				}
			}
			if asked == "" {
				m, _ := rec.Assistant()
				asked = text(m)
				if *m.ErrorKind != agent.ErrPermanent {
					t.Errorf("kind %s", *m.ErrorKind)
				}
			}
			if asked != tc.want {
				t.Errorf("got %q, want %q", asked, tc.want)
			}
		})
	}
}

func TestProviderRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.bus.on("models::get", answers(map[string]any{"id": "m1", "context_window": 100000, "max_output_tokens": 5}))
	w.bus.on("directory::skills::index", answers(map[string]any{"body": "THE INDEX"}))
	w.bus.on("directory::skills::get", answers(map[string]any{"body": "THE SKILL"}))
	w.start("s1", "go", map[string]any{"mode": "plan", "thinking_level": "high", "cwd": "/w"})
	w.ended("s1")
	r := w.model.request(0)
	for _, want := range []string{"plan mode", "THE INDEX", "THE SKILL", "agent_trigger", "/w"} {
		if !strings.Contains(*r.SystemPrompt, want) {
			t.Errorf("the prompt lacks %q", want)
		}
	}
	if r.ThinkingLevel != "high" || r.ResolutionKey != fmt.Sprintf("s1:%d", epoch.UnixMilli()) || len(r.Tools) != 1 || !strings.Contains(string(r.ModelMeta), "100000") {
		t.Errorf("request %+v", r)
	}
	if w.session.cwd["s1"] != "/w" {
		t.Errorf("the session has cwd %q", w.session.cwd["s1"])
	}
	var limit any
	for _, e := range w.events("s1") {
		if e["type"] == agent.EventTurnEnd {
			limit = e["model_limit"]
		}
	}
	if diff := cmp.Diff(map[string]any{"context": 100000.0, "input": 100000.0, "output": 5.0}, limit); diff != "" {
		t.Errorf("model_limit (-want +got):\n%s", diff)
	}
	if n := len(w.bus.seen("directory::skills::download")); n != 1 {
		t.Errorf("skills asked for %d times", n)
	}
	w.start("s1", "again", map[string]any{"thinking_level": "off", "system_prompt": "mine"})
	w.ended("s1")
	if r := w.model.request(1); r.ThinkingLevel != "" || *r.SystemPrompt != "mine" {
		t.Errorf("request %+v", r)
	}
	if n := len(w.bus.seen("directory::skills::download")); n != 1 {
		t.Errorf("skills asked for %d times within the hour", n)
	}
}

func TestCustomMessagesAreNotSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.session.seed("s1", "alice", agent.Message{Role: agent.RoleCustom, CustomType: "note", Content: []agent.Block{agent.Text("secret note")}})
	w.start("s1", "go")
	w.ended("s1")
	if n := len(w.model.request(0).Messages); n != 1 {
		t.Errorf("the model gets %d messages, want 1", n)
	}
}
