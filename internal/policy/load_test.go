package policy

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/internal/kernel"
	"github.com/iii-aws/harness/internal/strict"
)

func TestLoadErrorsRejectTheWholeFile(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, text, want string }{
		{"bang alone", "version: 1\nrules:\n  - demo::time\n  - \"!\"\n", `p.yaml:4: rules[1]: is "!"`},
		{"empty text", "rules:\n  - \"\"\n", `rules[0]: is ""`},
		{"null entry", "rules:\n  -\n", "rules[0]: is no rule; allowed: a function pattern"},
		{"number", "rules:\n  - 7\n", "rules[0]: is no rule"},
		{"list", "rules:\n  - [a]\n", "rules[0]: is no rule"},
		{"no function", "rules:\n  - {action: allow}\n", "rules[0].function: is missing"},
		{"no action", "rules:\n  - {function: a::b}\n", `rules[0].action: is ""; allowed: allow, deny`},
		{"other action", "rules:\n  - {function: a::b, action: maybe}\n", `rules[0].action: is "maybe"; allowed: allow, deny`},
		{"bad regex", "rules:\n  - {function: a::b, action: allow, args: {x: {matches: \"(\"}}}\n", `rules[0].args.x.matches: is "("`},
		{"lookahead", "rules:\n  - {function: a::b, action: allow, args: {x: {matches: \"(?=a)\"}}}\n", "no lookaround"},
		{"backreference", "rules:\n  - {function: a::b, action: allow, args: {x: {matches: \"(a)\\\\1\"}}}\n", "no backreferences"},
		{"no operator", "rules:\n  - {function: a::b, action: allow, args: {x: {}}}\n", "rules[0].args.x: has no operator; allowed: equals or matches"},
		{"unknown operator", "rules:\n  - {function: a::b, action: allow, args: {x: {like: y}}}\n", "rules[0].args.x.like: unknown key"},
		{"unknown rule key", "rules:\n  - {function: a::b, action: allow, when: x}\n", "rules[0].when: unknown key"},
		{"defaults", "version: 1\ndefaults: allow\n", "defaults: unknown key; allowed: rules, version"},
		{"other version", "version: 2\n", "version is 2; allowed: 1"},
		{"anchor", "rules: &a [b::c]\n", "rules: uses an anchor"},
		{"unquoted deny is a tag", "rules:\n  - !state::set\n", "rules[0]"},
		{"unquoted glob is an alias", "rules:\n  - *::read\n", "p.yaml"},
		{"space behind the bang", "rules:\n  - \"! a::b\"\n", `rules[0]: is " a::b", with space around it`},
		{"space around a function", "rules:\n  - {function: \"a::b \", action: deny}\n", `rules[0].function: is "a::b "`},
		{"two bangs", "rules:\n  - \"!!a::b\"\n", `rules[0]: is "!a::b", and no function starts so`},
		{"bang in the long form", "rules:\n  - {function: \"!a::b\", action: allow}\n", "action: deny"},
		{"bad regex beside equals", "rules:\n  - {function: a::b, action: allow, args: {x: {equals: 1, matches: \"(\"}}}\n", `rules[0].args.x.matches: is "("`},
		{"bad regex with a newline", "rules:\n  - {function: a::b, action: allow, args: {x: {matches: \"(?\\n\"}}}\n", "rules[0].args.x.matches"},
		{"equals no JSON", "rules:\n  - {function: a::b, action: allow, args: {x: {equals: {1: a}}}}\n", "rules[0].args.x.equals"},
		{"pattern", "rules:\n  - \"a*\\nb\"\n", "rules[0]: "},
		{"pattern of an object", "rules:\n  - {function: \"a*\\nb\", action: allow}\n", "rules[0].function"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, err := Parse("p.yaml", []byte(tt.text), nil)
			var e *strict.Error
			if r != nil || !errors.As(err, &e) || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error = %v, want one line with %q", err, tt.want)
			}
		})
	}
	var scope *kernel.ScopeError
	if _, err := Parse("p.yaml", nil, []string{"turn_state"}); !errors.As(err, &scope) {
		t.Errorf("error = %v", err)
	}
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"none", sample, nil},
		{"empty", "", nil},
		{"empty rules", "rules:\n", nil},
		{"rules is a mapping", "version: 1\nrules: {a: b}\n", []string{"p.yaml:2: rules is no list, so there are no rules"}},
		{"rules is a text", "rules: a::b\n", []string{"p.yaml:1: rules is no list, so there are no rules"}},
		{"a rule id three times", "rules:\n  - a::b\n  - \"!a::b\"\n  - {rule_id: a::b, function: c::d, action: deny}\n", []string{
			`p.yaml:3: rules[1] has the rule id "a::b" of rules[0]: a decision cannot tell them apart`,
			`p.yaml:4: rules[2] has the rule id "a::b" of rules[0]: a decision cannot tell them apart`,
		}},
		{"an allow that never matches", "rules:\n  - {function: a::b, action: allow, args: {command: {equals: \"a; b\"}}}\n", []string{
			"p.yaml:2: rules[0] allows a command with a shell control operator, which no rule does: it never matches",
		}},
		{"a denial that does", "rules:\n  - {function: a::b, action: deny, args: {command: {equals: \"a; b\"}}}\n", nil},
	} {
		r := rules(t, tt.text)
		if diff := cmp.Diff(tt.want, r.Warnings()); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
		if len(tt.want) > 0 && strings.Contains(tt.want[0], "no list") && (r.Len() != 0 || decide(r, "models::list", `{}`).Decision != Allowed) {
			t.Errorf("%s: %d rules", tt.name, r.Len())
		}
	}
}

func TestWhyIsOneLine(t *testing.T) {
	t.Parallel()
	if got := why(errors.New("a\nb")); strings.Contains(got, "\n") {
		t.Errorf("got %q", got)
	}
}

func TestAnswerOfEveryOutcome(t *testing.T) {
	t.Parallel()
	m := &Matched{Field: "a", Operator: "equals", Value: json.RawMessage("1")}
	for _, tt := range []struct {
		name string
		in   Decision
		want string
	}{
		{"allow", Decision{Decision: Allowed, RuleID: "r", Matched: m}, `{"decision":"allow","rule_id":"r"}`},
		{"deny", Decision{Decision: Denied, RuleID: "r", RuleAction: Deny}, `{"decision":"deny","rule_id":"r","rule_action":"deny"}`},
		{"deny by a constraint", Decision{Decision: Denied, RuleID: "r", RuleAction: Deny, Matched: m},
			`{"decision":"deny","rule_id":"r","rule_action":"deny","matched_constraint":{"field":"a","operator":"equals","value":1}}`},
		{"ask", Decision{Decision: NeedsApproval, RuleID: "r"}, `{"decision":"needs_approval"}`},
		{"unknown", Decision{Decision: "maybe", RuleID: "r"}, `{"decision":"needs_approval"}`},
		{"none", Decision{}, `{"decision":"needs_approval"}`},
	} {
		if got := string(must(t, tt.in.answer())); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestSurePanics(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("an error was swallowed")
		}
	}()
	sure(0, errors.New("x"))
}

func TestRuleIDs(t *testing.T) {
	t.Parallel()
	r := rules(t, "rules:\n  - {function: a::b, action: allow}\n  - {rule_id: mine, function: c::d, action: allow}\n  - {rule_id: mine, function: e::f, action: deny}\n")
	for id, want := range map[string]string{"a::b": "a::b", "c::d": "mine", "e::f": "mine"} {
		if got := decide(r, id, `{}`); got.RuleID != want {
			t.Errorf("%s: rule id %q, want %q", id, got.RuleID, want)
		}
	}
}

func TestCheckPermissions(t *testing.T) {
	t.Parallel()
	e := Endpoint(func() *Rules { return Closed() }, nil)
	for data, want := range map[string]string{
		`{"function_id":"a::b"}`:                 `{"decision":"needs_approval"}`,
		`{"function_id":"state::set","args":{}}`: `{"decision":"deny","rule_id":"state::set","rule_action":"deny"}`,
	} {
		got, err := e.Handle(t.Context(), &bus.Call{Data: json.RawMessage(data)})
		if err != nil || string(got) != want {
			t.Errorf("%s: %s, %v; want %s", data, got, err, want)
		}
	}
	for _, bad := range []string{`{}`, `{"function_id":""}`, `{"function_id":7}`, `{"function_id":"a","args":[]}`, `{"function_id":"a","args":"x"}`, `[]`} {
		if _, err := e.Handle(t.Context(), &bus.Call{Data: json.RawMessage(bad)}); bus.Code(err) != "invalid_payload" {
			t.Errorf("%s: error = %v", bad, err)
		}
	}
	internal := Endpoint(None, func(string) bus.Meta { return bus.Meta{Internal: true} })
	if got, _ := internal.Handle(t.Context(), &bus.Call{Data: json.RawMessage(`{"function_id":"my::own"}`)}); !strings.Contains(string(got), `"deny"`) {
		t.Errorf("an internal function: %s", got)
	}
}

// disk is a file in memory.
type disk struct {
	mu   sync.Mutex
	text string
	err  error
}

func (d *disk) set(text string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.text, d.err = text, err
}

func (d *disk) read(string) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return []byte(d.text), d.err
}

func TestStartWithoutAUsableFileIsClosed(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]*disk{
		"missing": {err: fs.ErrNotExist}, "unreadable": {err: errors.New("io")}, "invalid": {text: "rules: [7]"},
	} {
		var alarms []error
		s, err := Open(SourceConfig{File: "p.yaml", Clock: clock.System(), Alarm: func(e error) { alarms = append(alarms, e) }, ReadFile: d.read})
		if err == nil || len(alarms) != 1 || !strings.Contains(err.Error(), "p.yaml") {
			t.Errorf("%s: error %v, alarms %v", name, err, alarms)
		}
		if got := decide(s.Rules(), "models::list", `{}`); got.Decision != NeedsApproval {
			t.Errorf("%s: %+v", name, got)
		}
	}
	d := &disk{err: fs.ErrNotExist}
	s, err := Open(SourceConfig{File: "p.yaml", Fallback: rules(t, Builtin), ReadFile: d.read})
	if err != nil || decide(s.Rules(), "demo::time", `{}`).Decision != Allowed {
		t.Errorf("fallback: %v", err)
	}
	file := filepath.Join(t.TempDir(), "p.yaml")
	if err := os.WriteFile(file, []byte(Builtin), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := Open(SourceConfig{File: file}); err != nil || s.Rules().Len() != 5 {
		t.Errorf("a real file: %v", err)
	}
}

// watched is a Source that runs on a fake clock.
type watched struct {
	*Source
	t      *testing.T
	disk   *disk
	clock  *clock.Fake
	events chan string
	stop   context.CancelFunc
	done   chan struct{}
}

func watch(t *testing.T, text string) *watched {
	t.Helper()
	w := &watched{t: t, disk: &disk{text: text}, clock: clock.NewFake(time.Unix(0, 0)), events: make(chan string, 16), done: make(chan struct{})}
	var err error
	w.Source, err = Open(SourceConfig{File: "p.yaml", Clock: w.clock, ReadFile: w.disk.read,
		Alarm: func(error) { w.events <- "alarm" }, Loaded: func(*Rules) { w.events <- "loaded" }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.stop = cancel
	go func() {
		w.Watch(ctx)
		close(w.done)
	}()
	t.Cleanup(func() {
		cancel()
		<-w.done
	})
	return w
}

// tick lets the next wait end.
func (w *watched) tick(d time.Duration) {
	w.clock.BlockUntil(1)
	w.clock.Advance(d)
}

func TestReloadKeepsTheLastGoodRules(t *testing.T) {
	t.Parallel()
	w := watch(t, "rules: [a::b]")
	w.disk.set("rules: [c::d]", nil)
	w.tick(PollEvery)
	w.tick(Settle)
	if got := <-w.events; got != "loaded" || decide(w.Rules(), "c::d", `{}`).Decision != Allowed {
		t.Fatalf("%s: the change does not count", got)
	}
	w.disk.set("rules: [7]", nil)
	w.tick(PollEvery)
	w.tick(Settle)
	if got := <-w.events; got != "alarm" || decide(w.Rules(), "c::d", `{}`).Decision != Allowed {
		t.Fatalf("%s: the last good rules are gone", got)
	}
	w.tick(PollEvery) // the same bad text raises no second alarm
	w.disk.set("rules: [e::f]", nil)
	w.tick(PollEvery)
	w.tick(Settle)
	if got := <-w.events; got != "loaded" {
		t.Errorf("got %s, want loaded", got)
	}
	w.disk.set("", fs.ErrNotExist)
	w.tick(PollEvery)
	w.tick(Settle)
	if got := <-w.events; got != "alarm" || decide(w.Rules(), "e::f", `{}`).Decision != Allowed {
		t.Errorf("%s: a deleted file took the rules away", got)
	}
}

func TestFileThatIsBeingWrittenIsNotJudged(t *testing.T) {
	t.Parallel()
	w := watch(t, "rules: [a::b]")
	w.disk.set("rules: [", nil) // half a file
	w.tick(PollEvery)
	w.clock.BlockUntil(1)
	w.disk.set("rules: [g::h]", nil)
	w.tick(Settle) // it changed meanwhile: wait again
	w.tick(Settle)
	if got := <-w.events; got != "loaded" || decide(w.Rules(), "g::h", `{}`).Decision != Allowed {
		t.Errorf("got %s", got)
	}
}

func TestWatchEndsInTheMiddle(t *testing.T) {
	t.Parallel()
	w := watch(t, "rules: [a::b]")
	w.disk.set("rules: [x::y]", nil)
	w.tick(PollEvery)
	w.clock.BlockUntil(1)
	w.stop()
	<-w.done
	if decide(w.Rules(), "x::y", `{}`).Decision == Allowed {
		t.Error("a change counted that had not settled")
	}
}

func TestReloadWithoutAListener(t *testing.T) {
	t.Parallel()
	d := &disk{text: "rules: [a::b]"}
	s, err := Open(SourceConfig{File: "p.yaml", ReadFile: d.read})
	if err != nil {
		t.Fatal(err)
	}
	d.set("rules: [c::d]", nil)
	s.reload()
	if decide(s.Rules(), "c::d", `{}`).Decision != Allowed {
		t.Error("not loaded")
	}
}

// Deleting the file must not make its rules give way to the built-in ones.
func TestDeletedFileDoesNotFallBack(t *testing.T) {
	t.Parallel()
	d := &disk{err: fs.ErrNotExist}
	var alarms []error
	s, err := Open(SourceConfig{File: "p.yaml", Fallback: rules(t, Builtin), ReadFile: d.read, Alarm: func(e error) { alarms = append(alarms, e) }})
	if err != nil {
		t.Fatal(err)
	}
	d.set("rules: [\"!demo::time\"]", nil)
	s.reload()
	d.set("", fs.ErrNotExist)
	s.reload()
	if got := decide(s.Rules(), "demo::time", `{}`); got.Decision != Denied || len(alarms) != 1 {
		t.Errorf("%+v, alarms %v", got, alarms)
	}
}

// A text that was found bad at the start is not alarmed about again, and the
// good one that follows serves.
func TestClosedSourceOpensWithAGoodFile(t *testing.T) {
	t.Parallel()
	d := &disk{text: "rules: [7]"}
	clk := clock.NewFake(time.Unix(0, 0))
	events := make(chan string, 16)
	s, err := Open(SourceConfig{File: "p.yaml", Clock: clk, ReadFile: d.read,
		Alarm: func(error) { events <- "alarm" }, Loaded: func(*Rules) { events <- "loaded" }, Warn: func(w string) { events <- w }})
	if err == nil || <-events != "alarm" {
		t.Fatalf("error = %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		s.Watch(ctx)
		close(done)
	}()
	clk.BlockUntil(1)
	clk.Advance(PollEvery)
	clk.BlockUntil(1)
	d.set("rules: [a::b, a::b]", nil)
	clk.Advance(PollEvery)
	clk.BlockUntil(1)
	clk.Advance(Settle)
	if got := <-events; !strings.HasPrefix(got, "p.yaml:1: rules[1] has the rule id") {
		t.Errorf("got %q, want the warning", got)
	}
	if got := <-events; got != "loaded" || decide(s.Rules(), "a::b", `{}`).Decision != Allowed {
		t.Errorf("got %q", got)
	}
	cancel()
	<-done
}

func FuzzParse(f *testing.F) {
	f.Add(sample)
	f.Add(Builtin)
	f.Add("rules:\n  - {function: a::b, action: allow, args: {x: {equals: {1: a}}}}\n")
	f.Add("rules: &a [*a]")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := Parse("p.yaml", []byte(text), nil)
		if (r == nil) == (err == nil) {
			t.Fatalf("rules %v, error %v", r, err)
		}
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Fatalf("more than one line: %q", err)
		}
		if r != nil {
			decide(r, "a::b", `{"x":1}`)
		}
	})
}

func TestTheFileOfTheRepositorySaysWhatTheBuiltinRulesSay(t *testing.T) {
	t.Parallel()
	s, err := Open(SourceConfig{File: "../../iii-permissions.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	builtin := rules(t, Builtin)
	for _, id := range []string{"demo::time", "shell::fs::ls", "shell::fs::read", "shell::fs::grep", "shell::fs::glob", "shell::exec", "x::y"} {
		if a, b := decide(s.Rules(), id, `{}`), decide(builtin, id, `{}`); a.Decision != b.Decision {
			t.Errorf("%s: the file says %s, the built-in rules say %s", id, a.Decision, b.Decision)
		}
	}
}
