package scripted

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/channel"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/internal/agent"
	"github.com/iii-aws/harness/internal/provider"
	"github.com/iii-aws/harness/internal/strict"
)

func TestSameInputSameEvents(t *testing.T) {
	t.Parallel()
	r := newRig(t, quick)
	_, first, err := r.stream(t.Context(), request(agent.User("what time is it and which files", 1)))
	if err != nil {
		t.Fatal(err)
	}
	_, second, err := r.stream(t.Context(), request(agent.User("what time is it and which files", 1)))
	if diff := cmp.Diff(first, second); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	if !strings.Contains(first[0], `"start"`) || !strings.Contains(first[len(first)-1], `"done"`) {
		t.Errorf("events %v", first)
	}
	for _, e := range first {
		if strings.Contains(e, `"partial"`) {
			t.Errorf("an event repeats the message: %s", e)
		}
	}
}

func TestRulesThatMatchCallTogetherAndQuoteTheirOwnResults(t *testing.T) {
	t.Parallel()
	r := newRig(t, quick)
	prompt := agent.User("what time is it and which files", 1)
	calls := r.final(request(prompt)).Calls()
	if len(calls) != 2 || string(calls[0].Arguments) != `{"function":"demo::time","payload":{"zone":"UTC"}}` || calls[0].ProviderCallID == calls[1].ProviderCallID {
		t.Fatalf("calls %+v", calls)
	}
	m := r.final(request(prompt, called(), result("c1", "demo::time", `{"time":"noon $1 {result}"}`, false), result("c2", "shell::fs::ls", `{"entries":[{"name":"a"},{"name":"b"}]}`, false)))
	if got := m.Content[0].Text; got != "It is noon $1 {result}.\nshell::fs::ls answered: a, b" || m.StopReason != agent.StopEnd {
		t.Errorf("answer %q", got)
	}
	m = r.final(request(prompt, called(), result("c1", "demo::time", "denied: not today", true)))
	if got := m.Content[0].Text; got != "It is denied: not today." {
		t.Errorf("answer %q", got)
	}
}

func TestRounds(t *testing.T) {
	t.Parallel()
	r := newRig(t, quick)
	messages := []agent.Message{agent.User("run ls", 1)}
	var seen []string
	for range 4 {
		m := r.final(request(messages...))
		if len(m.Calls()) == 0 {
			if got := m.Content[0].Text; !strings.Contains(got, "shell::exec answered: out err\n") || !strings.Contains(got, "c::d answered: x") {
				t.Errorf("answer %q", got)
			}
			break
		}
		messages = append(messages, called())
		for _, c := range m.Calls() {
			var a struct{ Function string }
			if err := json.Unmarshal(c.Arguments, &a); err != nil {
				t.Fatal(err)
			}
			seen = append(seen, a.Function)
			text := "x"
			if a.Function == "shell::exec" {
				text = `{"stdout":"out ","stderr":"err\n"}`
				if !strings.Contains(string(c.Arguments), `{"command":"ls","deep":[{"x":"ls"}],"n":7}`) {
					t.Errorf("arguments %s", c.Arguments)
				}
			}
			messages = append(messages, result(c.ID, a.Function, text, false))
		}
	}
	if diff := cmp.Diff([]string{"shell::exec", "demo::time", "a::b", "c::d"}, seen); diff != "" {
		t.Error(diff)
	}
	// A new user message starts again.
	if m := r.final(request(append(messages, agent.User("hello", 2))...)); m.Content[0].Text != "You said: hello" {
		t.Errorf("answer %+v", m.Content)
	}
}

func TestUnknownPromptIsQuoted(t *testing.T) {
	t.Parallel()
	r := newRig(t, quick)
	if m := r.final(request(agent.User("héllo 😀 $1", 1))); m.Content[0].Text != "You said: héllo 😀 $1" {
		t.Errorf("answer %+v", m.Content)
	}
	if m := r.final(request(agent.User("x", 1), called(), result("c", "a::b", strings.Repeat("é", 5000), false))); !strings.HasSuffix(m.Content[0].Text, "…") {
		t.Error("a long result was not cut")
	}
	if m := r.final(request()); m.Content[0].Text != "You said: " {
		t.Errorf("answer %+v", m.Content)
	}
}

func TestThinking(t *testing.T) {
	t.Parallel()
	m := newRig(t, quick).final(request(agent.User("think hard", 1)))
	if m.Content[0].Type != agent.BlockThinking || m.Content[0].Text != "about hard" || m.Content[1].Text != "hard, thought" || m.Usage == nil {
		t.Errorf("message %+v", m)
	}
}

func TestSlowStreamAndItsEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t, quick)
	done := make(chan agent.Message, 1)
	go func() { done <- r.final(request(agent.User("slow", 1))) }()
	for range 3 {
		r.clock.BlockUntil(1)
		r.clock.Advance(100 * time.Millisecond)
	}
	if m := <-done; m.Content[0].Text != "one two three" {
		t.Errorf("message %+v", m)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan []agent.LLMEvent, 1)
	go func() {
		events, _, _ := r.stream(ctx, request(agent.User("slow", 1)))
		ended <- events
	}()
	r.clock.BlockUntil(1)
	cancel()
	for _, e := range <-ended {
		if e.Type == agent.LLMDone {
			t.Error("a cancelled stream ended well")
		}
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	for _, kind := range []agent.ErrorKind{agent.ErrRateLimited, agent.ErrTransient, agent.ErrPermanent, agent.ErrAuthExpired, agent.ErrContextOverflow} {
		r := newRig(t, fmt.Sprintf("rules:\n  - {when: x, say: \"a long answer\", fail: {kind: %s, after: 4, retry_after_ms: 70, message: why}}\n", kind))
		events, _, err := r.stream(t.Context(), request(agent.User("x", 1)))
		last := events[len(events)-1]
		if err != nil || last.Type != agent.LLMError || *last.Err.ErrorKind != kind || *last.Err.ErrorMessage != "why" || last.RetryAfterMS != 70 || last.Err.Content[0].Text != "a long" {
			t.Errorf("%s: %+v, %v", kind, last, err)
		}
	}
	for kind, check := range map[Kind]func([]agent.LLMEvent, error) bool{
		failCut:    func(e []agent.LLMEvent, err error) bool { return err == nil && e[len(e)-1].Type == agent.LLMTextDelta },
		failLength: func(e []agent.LLMEvent, err error) bool { return e[len(e)-1].Message.StopReason == agent.StopLength },
		failGarbage: func(e []agent.LLMEvent, err error) bool {
			return e[len(e)-1].Message.Content[0].Text == "a long answer" && has(e, "no_such_event")
		},
		failDuplicate: func(e []agent.LLMEvent, err error) bool {
			return e[len(e)-1].Type == agent.LLMDone && e[len(e)-2].Type == agent.LLMDone
		},
		failRefused: func(e []agent.LLMEvent, err error) bool { return len(e) == 0 && bus.Code(err) == "invocation_failed" },
	} {
		r := newRig(t, fmt.Sprintf("rules:\n  - {when: x, say: \"a long answer\", fail: {kind: %s, after: 4}}\n", kind))
		events, _, err := r.stream(t.Context(), request(agent.User("x", 1)))
		if !check(events, err) {
			t.Errorf("%s: %+v, %v", kind, events, err)
		}
	}
	r := newRig(t, "rules:\n  - {when: x, fail: {kind: silence}}\n")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	events, _, _ := r.stream(ctx, request(agent.User("x", 1)))
	for _, e := range events {
		if e.Type == agent.LLMDone {
			t.Error("silence ended well")
		}
	}
}

func TestFailsSoOften(t *testing.T) {
	t.Parallel()
	r := newRig(t, "rules:\n  - {when: x, say: ok, fail: {kind: transient, times: 2}}\n")
	for round := range 2 {
		for i, want := range []agent.StopReason{agent.StopError, agent.StopError, agent.StopEnd} {
			if m := r.final(request(agent.User("x", 1))); m.StopReason != want {
				t.Errorf("round %d, try %d: %s, want %s", round, i, m.StopReason, want)
			}
		}
	}
}

func TestBrokenArguments(t *testing.T) {
	t.Parallel()
	r := newRig(t, "rules:\n  - {when: x, calls: [{arguments: '{\"cut\":', id: ''}, {function: a::b, tool: other, id: 'a/b'}]}\n")
	calls := r.final(request(agent.User("x", 1))).Calls()
	if len(calls) != 2 || string(calls[0].Arguments) != "null" || calls[0].ProviderCallID != "" || calls[1].FunctionID != "other" || calls[1].ProviderCallID != "a/b" {
		t.Errorf("calls %+v", calls)
	}
}

func TestComplete(t *testing.T) {
	t.Parallel()
	r := newRig(t, quick+"  - {when: broken, say: \"a long answer\", fail: {kind: cut, after: 4}}\n  - {when: refused, fail: {kind: refused}}\n")
	complete := func(prompt string) (agent.Message, error) {
		data, err := bus.Encode(request(agent.User(prompt, 1)))
		if err != nil {
			t.Fatal(err)
		}
		out, err := r.provider.Endpoints()["provider::scripted::complete"].Handle(t.Context(), &bus.Call{Data: data})
		var m agent.Message
		if err == nil {
			err = json.Unmarshal(out, &m)
		}
		return m, err
	}
	if m, err := complete("think hard"); err != nil || m.Content[1].Text != "hard, thought" {
		t.Errorf("message %+v, %v", m, err)
	}
	if m, err := complete("broken"); err != nil || m.StopReason != agent.StopError || *m.ErrorKind != agent.ErrTransient || *m.ErrorMessage != "channel closed without final" {
		t.Errorf("a cut stream: %+v, %v", m, err)
	}
	if _, err := complete("refused"); err == nil {
		t.Error("a refused call succeeded")
	}
}

func TestReaderThatLeaves(t *testing.T) {
	t.Parallel()
	r := newRig(t, quick)
	w, rd, err := r.channels.Create(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := r.channels.OpenReader(rd)
	if err != nil {
		t.Fatal(err)
	}
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	req := request(agent.User("think hard", 1))
	req.WriterRef = &w
	data, err := bus.Encode(req)
	if err != nil {
		t.Fatal(err)
	}
	e := r.provider.Endpoints()["provider::scripted::stream"]
	if _, err := e.Handle(t.Context(), &bus.Call{Data: data}); err != nil {
		t.Errorf("error %v", err)
	}
	if _, err := e.Handle(t.Context(), &bus.Call{Data: data}); !errors.Is(err, channel.ErrTaken) && !errors.Is(err, channel.ErrUnknown) {
		t.Errorf("a writer that is taken: %v", err)
	}
	for _, bad := range []string{`{}`, `{"model":"m"}`} {
		if _, err := e.Handle(t.Context(), &bus.Call{Data: json.RawMessage(bad)}); bus.Code(err) != "invalid_payload" {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestBuiltinRules(t *testing.T) {
	t.Parallel()
	if n := strings.Count(string(builtin), "\n"); n >= 100 {
		t.Errorf("the rules have %d lines", n)
	}
	r := Builtin()
	if p := r.decide([]agent.Message{agent.User("what time is it, and list the files here", 1)}); len(p.calls) != 2 {
		t.Errorf("plan %+v", p)
	}
	if p := r.decide([]agent.Message{agent.User("run ls -la", 1)}); len(p.calls) != 1 || string(p.calls[0].Payload) != `{"command":"ls -la"}` {
		t.Errorf("plan %+v", p)
	}
	if p := r.decide([]agent.Message{agent.User("fail with rate_limited", 1)}); p.fail == nil || p.fail.Kind != "rate_limited" {
		t.Errorf("plan %+v", p)
	}
}

func TestPiecesNeverCutARune(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "a", " a  b ", strings.Repeat("é", 100), strings.Repeat("👨‍👩‍👧", 50), strings.Repeat("x", 500) + " y"} {
		p := pieces(s)
		if strings.Join(p, "") != s {
			t.Errorf("%q became %q", s, p)
		}
		for _, x := range p {
			if strings.ContainsRune(x, '\uFFFD') || len(x) == 0 {
				t.Errorf("%q has the piece %q", s, x)
			}
		}
	}
}

// FuzzRules reads a rules file and talks by it, twice.
func FuzzRules(f *testing.F) {
	f.Add(string(builtin), "what time is it")
	f.Add(quick, "run $1 {result}")
	f.Add(twoRounds, "echo A B {result}")
	f.Add("rules: [{when: '(?P<n>.)(.)?', say: '${n}$2$$', fail: {kind: '$1', after: 1}, calls: [{arguments: '$1', id: '', tool: '$'}]}]", "cut")
	f.Add("rules: [{when: '^', fail: {kind: garbage, times: 1}, then: [[], [{function: '$0'}]]}]", "\xff")
	f.Fuzz(func(t *testing.T, file, prompt string) {
		rules, err := ParseRules("r.yaml", []byte(file))
		if err != nil {
			var e *strict.Error
			if !errors.As(err, &e) {
				t.Fatalf("error %T: %v", err, err)
			}
			return
		}
		rules.Delay = 0
		for i := range rules.Rules {
			rules.Rules[i].Delay = nil
			if f := rules.Rules[i].Fail; f != nil && f.Kind == failSilence {
				f.Kind = failCut
			}
		}
		p, err := New(Deps{Rules: &rules, Clock: clock.NewFake(time.Unix(0, 0))})
		if err != nil {
			t.Fatal(err)
		}
		messages := []agent.Message{agent.User(prompt, 1)}
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second) // for a silence that $1 asked for
			acc := agent.NewAccumulator(Name, Model, 0)
			err := p.stream(ctx, request(messages...), func(e agent.LLMEvent) error {
				acc.Apply(e)
				_, err := bus.Encode(e)
				return err
			})
			cancel()
			var refused *bus.Error
			if err != nil && !errors.As(err, &refused) && !errors.Is(err, provider.ErrNoFinal) && !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			m := acc.Message()
			messages = append(messages, m)
			for i, c := range m.Calls() {
				messages = append(messages, result(c.ID, c.FunctionID, prompt, i%2 == 0))
			}
		}
		if a, b := rules.decide(messages), rules.decide(messages); !reflect.DeepEqual(a, b) {
			t.Fatalf("the same conversation gave %+v, then %+v", a, b)
		}
	})
}
