package scripted

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/internal/agent"
	"github.com/iii-aws/harness/internal/strict"
)

func TestBadRules(t *testing.T) {
	t.Parallel()
	const kinds = "rate_limited, transient, permanent, auth_expired, context_overflow, cut, silence, garbage, length, refused, no_credential, duplicate"
	for _, tt := range []struct{ name, text, want string }{
		{"no pattern", "rules:\n- say: x\n", "r.yaml:2: rules[0].when: is missing; allowed: a regular expression (RE2)"},
		{"empty rule", "rules: [{}]\n", "r.yaml:1: rules[0].when: is missing; allowed: a regular expression (RE2)"},
		{"empty pattern", "rules: [{when: ''}]\n", `r.yaml:1: rules[0].when: is ""; allowed: a regular expression (RE2)`},
		{"pattern that does not parse", "rules:\n- {when: a}\n- {when: '('}\n", "r.yaml:3: rules[1].when: is \"(\": error parsing regexp: missing closing ): `(`; allowed: a regular expression (RE2)"},
		{"pattern that RE2 does not know", "rules: [{when: 'a(?=b)'}]\n", "r.yaml:1: rules[0].when: is \"a(?=b)\": error parsing regexp: invalid or unsupported Perl syntax: `(?=`; allowed: a regular expression (RE2)"},
		{"pattern that is a number", "rules: [{when: 5}]\n", `r.yaml:1: rules[0].when: is "5"; allowed: a text (put it in quotes)`},
		{"unknown key", "rules: [{when: x, sya: y}]\n", "r.yaml:1: rules[0].sya: unknown key; allowed: calls, delay, fail, say, then, think, when"},
		{"rules that are none", "rules: 7\n", `r.yaml:1: rules: is "7"; allowed: a list`},
		{"call of nothing", "rules:\n- when: x\n  calls:\n  - {payload: {}}\n", "r.yaml:4: rules[0].calls[0]: is a call of nothing; allowed: function or arguments"},
		{"call of nothing later", "rules: [{when: x, then: [[{function: a::b}], [{tool: t}]]}]\n", "r.yaml:1: rules[0].then[1][0]: is a call of nothing; allowed: function or arguments"},
		{"kind", "rules: [{when: x, fail: {kind: bad}}]\n", `r.yaml:1: rules[0].fail.kind: is "bad"; allowed: ` + kinds},
		{"no kind", "rules: [{when: x, fail: {after: 3}}]\n", "r.yaml:1: rules[0].fail: kind is missing; allowed: " + kinds},
		{"after", "rules: [{when: x, fail: {kind: cut, after: -1}}]\n", "r.yaml:1: rules[0].fail: after is -1; allowed: 0 or more runes"},
		{"times", "rules: [{when: x, fail: {kind: cut, times: -1}}]\n", "r.yaml:1: rules[0].fail: times is -1; allowed: 0 (always) or more"},
		{"retry", "rules: [{when: x, fail: {kind: cut, retry_after_ms: -1}}]\n", "r.yaml:1: rules[0].fail: retry_after_ms is -1; allowed: 0 or more milliseconds"},
		{"delay", "delay: -1s\n", `r.yaml:1: delay: is "-1s"; allowed: a duration such as 30s, 5m or 2h`},
		{"long", strings.Repeat("# comment\n", 7000), "r.yaml: has 70000 bytes; allowed: at most 65536"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := ParseRules("r.yaml", []byte(tt.text))
			var e *strict.Error
			if !errors.As(err, &e) {
				t.Fatalf("error = %v, want a *strict.Error", err)
			}
			if diff := cmp.Diff(tt.want, err.Error()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := file("r.yaml", "rules: [{when: x, say: mine}]")
	if p, err := New(Deps{Config: json.RawMessage(fmt.Sprintf(`{"rules":%q}`, good))}); err != nil || len(p.rules.Rules) != 1 {
		t.Errorf("error %v", err)
	}
	if p, err := New(Deps{}); err != nil || len(p.rules.Rules) == 0 {
		t.Errorf("error %v", err)
	}
	if p, err := New(Deps{Config: json.RawMessage(`7`), Rules: &Rules{}}); err != nil || len(p.rules.Rules) != 0 {
		t.Errorf("given rules do not replace the config: %v", err)
	}
	for _, bad := range []string{`{}`, `{"rule":"x"}`, `7`, `{"rules":""}`, `{"rules":5}`} {
		var e *bus.InvalidError
		if _, err := New(Deps{Config: json.RawMessage(bad)}); !errors.As(err, &e) || e.Field != "workers.provider-scripted.config" {
			t.Errorf("%s: error %v", bad, err)
		}
	}
	for name, want := range map[string]string{
		filepath.Join(dir, "none.yaml"): "no such file",
		dir:                             "it is no regular file",
		file("bad.yaml", "rules: [{}]"): "bad.yaml:1: rules[0].when",
		file("big.yaml", strings.Repeat("#\n", maxRules)):       "has 65537 bytes",
		file("cut.yaml", "rules:\n"+strings.Repeat(" ", 9)+"]"): "is not valid YAML",
	} {
		var e *strict.Error
		_, err := New(Deps{Config: json.RawMessage(fmt.Sprintf(`{"rules":%q}`, name))})
		if !errors.As(err, &e) || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), name) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// Every built-in rule is reached by what its pattern says, and no other.
func TestBuiltinRulesAnswer(t *testing.T) {
	t.Parallel()
	used := map[int]bool{}
	rules := Builtin().Rules
	for prompt, want := range map[string]plan{
		"What time is it?":                         {calls: []Call{{Function: "demo::time"}}},
		"please list the files":                    {calls: []Call{{Function: "shell::fs::ls", Payload: json.RawMessage(`{"path":"."}`)}}},
		"list docs/":                               {calls: []Call{{Function: "shell::fs::ls", Payload: json.RawMessage(`{"path":"docs/"}`)}}},
		"read a.txt":                               {calls: []Call{{Function: "shell::fs::read", Payload: json.RawMessage(`{"path":"a.txt"}`)}}},
		"run echo $1 '{result}' && \"$HOME\"":      {calls: []Call{{Function: "shell::exec", Payload: json.RawMessage(`{"command":"echo $1 '{result}' && \"$HOME\""}`)}}},
		"write a.txt new words":                    {calls: []Call{{Function: "shell::fs::write", Payload: json.RawMessage(`{"content":"new words\n","path":"a.txt"}`)}}},
		"call session-tree::list":                  {calls: []Call{{Function: "session-tree::list"}}},
		"look around first":                        {calls: []Call{{Function: "shell::fs::ls"}}},
		"think about tea":                          {think: "Let me think about tea.", text: "I thought about tea."},
		"say slowly: a b":                          {text: "a b"},
		"fail with context_overflow":               {fail: &Fail{Kind: "context_overflow"}},
		"fail twice":                               {text: "The third try worked.", fail: &Fail{Kind: "transient", Times: 2}},
		"be overloaded once":                       {text: "The second try worked.", fail: &Fail{Kind: "rate_limited", Times: 1, RetryAfterMS: 2000, Message: "overloaded, come back in two seconds"}},
		"fail halfway":                             {text: "This answer breaks off in the middle.", fail: &Fail{Kind: "transient", After: 12}},
		"fail in a call":                           {calls: []Call{{Function: "demo::time"}}, fail: &Fail{Kind: "transient", After: 12}},
		"break the arguments":                      {calls: []Call{{Arguments: ptr(`{"function": "demo::time", "payl`)}}},
		"close without an end":                     {text: "This answer never comes to an end.", fail: &Fail{Kind: failCut, After: 12}},
		"fall silent":                              {text: "After this nothing more is heard.", fail: &Fail{Kind: failSilence, After: 12}},
		"speak garbage":                            {text: "One event of this answer means nothing.", fail: &Fail{Kind: failGarbage, After: 12}},
		"stop at the limit":                        {text: "This answer is longer than the model may say.", fail: &Fail{Kind: failLength, After: 12}},
		"end twice":                                {text: "This answer ends twice.", fail: &Fail{Kind: failDuplicate}},
		"refuse to start":                          {fail: &Fail{Kind: failRefused}},
		"lose the key":                             {fail: &Fail{Kind: failNoCredential, Message: "provider scripted has no credential; it never had one"}},
		"what time is it, and list the files here": {calls: []Call{{Function: "demo::time"}, {Function: "shell::fs::ls", Payload: json.RawMessage(`{"path":"."}`)}}},
	} {
		got := Builtin().decide([]agent.Message{agent.User(prompt, 1)})
		for i := range rules {
			used[i] = used[i] || rules[i].When.re.MatchString(prompt)
		}
		if want.calls == nil && want.text == "" && want.fail == nil {
			t.Fatalf("%q: nothing wanted", prompt)
		}
		got.delay = 0
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(plan{})); diff != "" {
			t.Errorf("%q: %s", prompt, diff)
		}
	}
	for i := range rules {
		if !used[i] {
			t.Errorf("rule %d is never reached: %s", i, rules[i].When.re)
		}
	}
}

func ptr[T any](v T) *T { return &v }
