package policy

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/internal/kernel"
)

func rules(t testing.TB, text string) *Rules {
	t.Helper()
	r, err := Parse("p.yaml", []byte(text), []string{"notes"})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func decide(r *Rules, id, args string) Decision {
	return r.Decide(id, json.RawMessage(args), bus.Meta{})
}

const sample = `
version: 1
rules:
  - "!shell::rm"
  - models::list
  - "shell::fs::*"
  - {rule_id: git/force, function: shell::exec, action: deny, args: {command: {matches: "^git push --force"}}}
  - rule_id: git/readonly
    function: shell::exec
    action: allow
    args:
      command: {matches: "^git (status|log)"}
      cwd: {equals: "/repo"}
`

func TestDecisions(t *testing.T) {
	t.Parallel()
	r := rules(t, sample)
	cwd := &Matched{Field: "command", Operator: "matches", Value: json.RawMessage(`"^git (status|log)"`)}
	for _, tt := range []struct {
		name, id, args string
		want           Decision
	}{
		{"shorthand deny", "shell::rm", `{}`, Decision{Decision: Denied, RuleID: "shell::rm", RuleAction: Deny}},
		{"exact allow", "models::list", `{}`, Decision{Decision: Allowed, RuleID: "models::list"}},
		{"glob allow", "shell::fs::ls", `{}`, Decision{Decision: Allowed, RuleID: "shell::fs::*"}},
		{"all constraints", "shell::exec", `{"command":"git status","cwd":"/repo"}`, Decision{Decision: Allowed, RuleID: "git/readonly", Matched: cwd}},
		{"one constraint misses", "shell::exec", `{"command":"git status","cwd":"/other"}`, Decision{Decision: NeedsApproval}},
		{"a field is missing", "shell::exec", `{"command":"git status"}`, Decision{Decision: NeedsApproval}},
		{"constrained deny", "shell::exec", `{"command":"git push --force"}`, Decision{Decision: Denied, RuleID: "git/force", RuleAction: Deny,
			Matched: &Matched{Field: "command", Operator: "matches", Value: json.RawMessage(`"^git push --force"`)}}},
		{"args that are no object", "shell::exec", `[]`, Decision{Decision: NeedsApproval}},
		{"no args", "shell::exec", ``, Decision{Decision: NeedsApproval}},
		{"kernel deny", "state::set", `{}`, Decision{Decision: Denied, RuleID: "state::set", RuleAction: Deny}},
		{"kernel deny by glob", "turn::step", `{}`, Decision{Decision: Denied, RuleID: "turn::*", RuleAction: Deny}},
		{"kernel allow", "engine::functions::list", `{}`, Decision{Decision: Allowed, RuleID: "engine::functions::list"}},
		{"kernel allow of a scope", "state::get", `{"scope":"notes"}`, Decision{Decision: Allowed, RuleID: "state::get"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, decide(r, tt.id, tt.args)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestA13DefaultIsNeedsApproval(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "version: 1", "version: 1\nrules:\n", "rules: []"} {
		if got := decide(rules(t, text), "unknown::id", `{}`); got != (Decision{Decision: NeedsApproval}) {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

func TestA14Matching(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, rule, id, args string
		want                 Kind
	}{
		{"a glob spans ::", `"a::*"`, "a::b::c", `{}`, Allowed},
		{"a glob is anchored", `"a::*"`, "xa::b", `{}`, NeedsApproval},
		{"an id with a newline matches no glob", `"a::*"`, "a::b\nc", `{}`, NeedsApproval},
		{"equals is strict: number and text", `{function: f::g, action: allow, args: {x: {equals: 0}}}`, "f::g", `{"x":"0"}`, NeedsApproval},
		{"equals: the same number", `{function: f::g, action: allow, args: {x: {equals: 1}}}`, "f::g", `{"x":1.0}`, Allowed},
		{"equals: exponents", `{function: f::g, action: allow, args: {x: {equals: 100}}}`, "f::g", `{"x":1e2}`, Allowed},
		{"equals: exponents that differ", `{function: f::g, action: allow, args: {x: {equals: 100}}}`, "f::g", `{"x":1e3}`, NeedsApproval},
		{"equals: big integers are exact", `{function: f::g, action: allow, args: {x: {equals: 9007199254740993}}}`, "f::g", `{"x":9007199254740992}`, NeedsApproval},
		{"equals: true is not \"true\"", `{function: f::g, action: allow, args: {x: {equals: true}}}`, "f::g", `{"x":"true"}`, NeedsApproval},
		{"equals: null", `{function: f::g, action: allow, args: {x: {equals: null}}}`, "f::g", `{"x":null}`, Allowed},
		{"equals: deep", `{function: f::g, action: allow, args: {x: {equals: {a: [1, {b: c}]}}}}`, "f::g", `{"x":{"a":[1.0,{"b":"c"}]}}`, Allowed},
		{"equals: a longer list", `{function: f::g, action: allow, args: {x: {equals: [1]}}}`, "f::g", `{"x":[1,2]}`, NeedsApproval},
		{"equals: another element", `{function: f::g, action: allow, args: {x: {equals: [1]}}}`, "f::g", `{"x":[2]}`, NeedsApproval},
		{"equals: a list and a text", `{function: f::g, action: allow, args: {x: {equals: [1]}}}`, "f::g", `{"x":"1"}`, NeedsApproval},
		{"equals: another key", `{function: f::g, action: allow, args: {x: {equals: {a: 1}}}}`, "f::g", `{"x":{"b":1}}`, NeedsApproval},
		{"equals: more keys", `{function: f::g, action: allow, args: {x: {equals: {a: 1}}}}`, "f::g", `{"x":{"a":1,"b":1}}`, NeedsApproval},
		{"equals: another value", `{function: f::g, action: allow, args: {x: {equals: {a: 1}}}}`, "f::g", `{"x":{"a":2}}`, NeedsApproval},
		{"equals: an object and a text", `{function: f::g, action: allow, args: {x: {equals: {a: 1}}}}`, "f::g", `{"x":"a"}`, NeedsApproval},
		{"equals wins over matches", `{function: f::g, action: allow, args: {x: {equals: a, matches: b}}}`, "f::g", `{"x":"a"}`, Allowed},
		{"matches is not anchored", `{function: f::g, action: allow, args: {x: {matches: b}}}`, "f::g", `{"x":"abc"}`, Allowed},
		{"matches wants a text", `{function: f::g, action: allow, args: {x: {matches: "1"}}}`, "f::g", `{"x":1}`, NeedsApproval},
		{"an inherited member is none", `{function: f::g, action: allow, args: {toString: {matches: ""}}}`, "f::g", `{}`, NeedsApproval},
		{"a nested field is none", `{function: f::g, action: allow, args: {x: {matches: a}}}`, "f::g", `{"y":{"x":"a"}}`, NeedsApproval},
		{"case counts", `"git::status"`, "GIT::status", `{}`, NeedsApproval},
		{"a zero-width joiner counts", `"git::status"`, "git::sta\u200dtus", `{}`, NeedsApproval},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := decide(rules(t, "version: 1\nrules:\n  - "+tt.rule+"\n"), tt.id, tt.args); got.Decision != tt.want {
				t.Errorf("got %+v, want %s", got, tt.want)
			}
		})
	}
}

func TestLongNumbersAgreeToTheLetterOrNotAtAll(t *testing.T) {
	t.Parallel()
	long := json.Number("1" + strings.Repeat("0", 500))
	if !sameNumber(long, long) || sameNumber(long, long+"0") || sameNumber("1e999999999", "1e999999998") || sameNumber("1e400", "2e400") {
		t.Error("sameNumber is wrong")
	}
}

func TestF34CompoundCommandsAreNeverAllowed(t *testing.T) {
	t.Parallel()
	allowFirst := `version: 1
rules:
  - {function: shell::exec, action: allow, args: {command: {matches: "^git status"}}}
  - {function: shell::exec, action: deny, args: {command: {matches: "rm "}}}
`
	denyFirst := `version: 1
rules:
  - {function: shell::exec, action: deny, args: {command: {matches: "rm "}}}
  - {function: shell::exec, action: allow, args: {command: {matches: "^git status"}}}
`
	for _, command := range []string{
		"git status; rm -rf x", "git status && rm x", "git status $(rm x)", "git status `rm x`", "git status\nrm x", "git status\x00rm x",
		"git status | sh", "git status > /etc/passwd", "git status < x", "git status & rm x", "git status\rrm x",
	} {
		args := string(must(t, map[string]string{"command": command}))
		for name, text := range map[string]string{"allow first": allowFirst, "deny first": denyFirst} {
			if got := decide(rules(t, text), "shell::exec", args); got.Decision == Allowed {
				t.Errorf("%s: %q is allowed by %s", name, command, got.RuleID)
			}
		}
	}
	// A command given otherwise than as a text is not covered by its text.
	if got := decide(rules(t, "rules:\n  - {function: shell::exec, action: allow, args: {command: {equals: [a, ;]}}}\n"), "shell::exec", `{"command":["a",";"]}`); got.Decision != Allowed {
		t.Errorf("a list: %+v", got)
	}
	if got := decide(rules(t, allowFirst), "shell::exec", `{"command":"git status -s"}`); got.Decision != Allowed {
		t.Errorf("a plain command: %+v", got)
	}
	// Known foot-gun: a pattern without an end also covers what follows.
	if got := decide(rules(t, allowFirst), "shell::exec", `{"command":"git statusx"}`); got.Decision != Allowed {
		t.Errorf("an unanchored pattern: %+v", got)
	}
	// Known foot-gun: a constrained deny can be dodged by other spelling.
	for _, dodge := range []string{"/bin/rm  x", "RM x"} {
		if got := decide(rules(t, denyFirst), "shell::exec", string(must(t, map[string]string{"command": dodge}))); got.Decision == Allowed {
			t.Errorf("%q is allowed", dodge)
		}
	}
}

// Go's decoder takes "Command" for the field command, and the later of the two
// wins: what the rules judged must be what the function reads.
func TestF34FieldsThatDifferInCaseOnly(t *testing.T) {
	t.Parallel()
	r := rules(t, `version: 1
rules:
  - {rule_id: no-rm, function: shell::exec, action: deny, args: {command: {matches: "^rm "}}}
  - {rule_id: git, function: shell::exec, action: allow, args: {command: {matches: "^git status"}}}
`)
	for _, tt := range []struct {
		name, args string
		want       Decision
	}{
		{"one field", `{"command":"git status"}`, Decision{Decision: Allowed, RuleID: "git"}},
		{"a twin that is denied", `{"command":"git status","Command":"rm -rf x"}`, Decision{Decision: Denied, RuleID: "no-rm"}},
		{"a twin in front", `{"COMMAND":"rm -rf x","command":"git status"}`, Decision{Decision: Denied, RuleID: "no-rm"}},
		{"a twin alone", `{"Command":"rm -rf x"}`, Decision{Decision: Denied, RuleID: "no-rm"}},
		{"a twin that no allow covers", `{"command":"git status","Command":"make"}`, Decision{Decision: NeedsApproval}},
		{"a compound twin", `{"command":"git status","Command":"git status; x"}`, Decision{Decision: NeedsApproval}},
		{"a twin that is no text", `{"command":"git status","Command":7}`, Decision{Decision: NeedsApproval}},
		{"a twin by Unicode folding", `{"command":"git status","\u212aommand":"x","c\u00f6mmand":"x"}`, Decision{Decision: Allowed, RuleID: "git"}},
		{"a harmless twin", `{"command":"git status","Command":"git status -s"}`, Decision{Decision: Allowed, RuleID: "git"}},
		{"args that no allow speaks of", `{"command":"git status","args":["-c","core.pager=x"]}`, Decision{Decision: NeedsApproval}},
		{"args that are not a list", `{"command":"git status","Args":"x"}`, Decision{Decision: NeedsApproval}},
		{"no args", `{"command":"git status","args":[ ]}`, Decision{Decision: Allowed, RuleID: "git"}},
		{"null args", `{"command":"git status","args":null}`, Decision{Decision: Allowed, RuleID: "git"}},
		{"args of a denial", `{"command":"rm x","args":["y"]}`, Decision{Decision: Denied, RuleID: "no-rm"}},
		{"an allow needs the very name", `{"Command":"git status"}`, Decision{Decision: NeedsApproval}},
	} {
		got := decide(r, "shell::exec", tt.args)
		if got.Decision != tt.want.Decision || got.RuleID != tt.want.RuleID {
			t.Errorf("%s: got %s by %q, want %s by %q", tt.name, got.Decision, got.RuleID, tt.want.Decision, tt.want.RuleID)
		}
	}
	// The long s folds to s: what Go reads as "scope" is one.
	folded := rules(t, "rules:\n  - {function: a::b, action: allow, args: {scope: {equals: mine}}}\n")
	if got := decide(folded, "a::b", `{"scope":"mine","\u017fcope":"other"}`); got.Decision != NeedsApproval {
		t.Errorf("a field in another spelling: %+v", got)
	}
}

// Paths are judged as they are written; shell::fs::* itself confines them.
func TestF34PathsAreNotNormalised(t *testing.T) {
	t.Parallel()
	r := rules(t, "rules:\n  - {function: shell::fs::read, action: allow, args: {path: {matches: \"^docs/[^.%]*$\"}}}\n")
	for path, want := range map[string]Kind{"docs/a": Allowed, "docs/../secret": NeedsApproval, "docs/..%2f": NeedsApproval, "//etc": NeedsApproval} {
		if got := decide(r, "shell::fs::read", string(must(t, map[string]string{"path": path}))); got.Decision != want {
			t.Errorf("%q: got %s, want %s", path, got.Decision, want)
		}
	}
}

// Every name that a model may make up reaches the rules and gets a decision.
func TestF19OddNames(t *testing.T) {
	t.Parallel()
	r := rules(t, sample)
	for _, id := range []string{"no such tool", "rm -rf /", strings.Repeat("a", 300), "a\x00b", "Models::List", "shell::fs::a\nb", "shell\u200d::fs::ls"} {
		if got := decide(r, id, `{}`); got.Decision != NeedsApproval {
			t.Errorf("%q: got %s", id, got.Decision)
		}
	}
}

// Whatever a file says, the kernel's denials stand.
func TestA12KernelDeniesBeatTheFile(t *testing.T) {
	t.Parallel()
	r := rules(t, "rules:\n  - \"*\"\n  - \"state::*\"\n  - state::set\n")
	for _, rule := range kernel.Denies() {
		id := strings.ReplaceAll(rule, "*", "x")
		for _, args := range []string{``, `{}`, `[]`, `{"scope":"notes","key":"k"}`, `{"function_id":"models::list"}`} {
			if got := decide(r, id, args); got.Decision != Denied || got.RuleID != rule {
				t.Errorf("%s %s: got %s by %q", id, args, got.Decision, got.RuleID)
			}
		}
	}
	if got := decide(r, "shell::exec", `{}`); got.Decision != Allowed {
		t.Errorf("the star allows nothing: %+v", got)
	}
}

func must(t testing.TB, v any) json.RawMessage {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestA50NoneAllowsAllButTheKernel(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]Kind{"shell::exec": Allowed, "state::set": Denied, "provider::x::stream": Denied} {
		if got := decide(None(), id, `{}`); got.Decision != want {
			t.Errorf("%s: %+v, want %s", id, got, want)
		}
	}
	if got := None().Decide("my::own", nil, bus.Meta{Internal: true}); got.Decision != Denied {
		t.Errorf("an internal function: %+v", got)
	}
}

func TestClosedAllowsNothing(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]Kind{"models::list": NeedsApproval, "demo::time": NeedsApproval, "state::set": Denied} {
		if got := decide(Closed(), id, `{}`); got.Decision != want {
			t.Errorf("%s: %+v, want %s", id, got, want)
		}
	}
}

func TestBuiltinRules(t *testing.T) {
	t.Parallel()
	r := rules(t, Builtin)
	for id, want := range map[string]Kind{
		"demo::time": Allowed, "shell::fs::ls": Allowed, "shell::fs::read": Allowed, "shell::fs::grep": Allowed, "shell::fs::glob": Allowed,
		"shell::fs::write": NeedsApproval, "shell::exec": NeedsApproval, "anything::else": NeedsApproval,
	} {
		if got := decide(r, id, `{"command":"ls"}`); got.Decision != want {
			t.Errorf("%s: %+v, want %s", id, got, want)
		}
	}
	if r.Len() != 5 {
		t.Errorf("%d rules", r.Len())
	}
}

func BenchmarkDecide100Rules(b *testing.B) {
	var text strings.Builder
	text.WriteString("version: 1\nrules:\n")
	for i := range 98 {
		fmt.Fprintf(&text, "  - {function: \"work%d::*\", action: allow, args: {path: {matches: \"^/srv/[a-z]+\"}, mode: {equals: %d}}}\n", i, i)
	}
	text.WriteString("  - {function: shell::exec, action: deny, args: {command: {matches: \"^rm \"}}}\n  - {function: shell::exec, action: allow, args: {command: {matches: \"^git (status|log)$\"}}}\n")
	r := rules(b, text.String())
	args := json.RawMessage(`{"command":"git status","cwd":"/repo","env":{"A":"b"}}`)
	b.ReportAllocs()
	for b.Loop() {
		if d := r.Decide("shell::exec", args, bus.Meta{}); d.Decision != Allowed {
			b.Fatal(d)
		}
	}
}

func FuzzDecide(f *testing.F) {
	f.Add("shell::exec", `{"command":"git status; rm x"}`)
	f.Add("state::set", `{"scope":"x"}`)
	f.Add("shell::exec", `{"command":"git status","cwd":"/repo","Command":"git status; x","CWD":"/"}`)
	f.Add("a::b\n", `[]`)
	f.Fuzz(func(t *testing.T, id, args string) {
		r := rules(t, sample)
		d := decide(r, id, args)
		if k := decide(None(), id, args); k.Decision == Denied && d.Decision != Denied {
			t.Fatalf("%q is denied by the kernel and %s by the rules", id, d.Decision)
		}
		var a struct {
			Command string `json:"command"`
			Cwd     string `json:"cwd"`
		}
		if id != "shell::exec" || d.Decision != Allowed || json.Unmarshal([]byte(args), &a) != nil {
			return
		}
		// What a function written in Go would run.
		if strings.ContainsAny(a.Command, ";&|`<>\n\x00") || strings.Contains(a.Command, "$(") || !strings.HasPrefix(a.Command, "git ") || a.Cwd != "/repo" {
			t.Fatalf("%q in %q is allowed", a.Command, a.Cwd)
		}
	})
}
