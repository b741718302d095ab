package scripted

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/internal/agent"
)

const twoRounds = `
rules:
  - when: A
    calls: [{function: "a::1"}, {function: "a::2"}]
    then: [[{function: "a::3"}]]
    say: "A: {result}."
  - when: B
    calls: [{function: "b::1"}]
    then: [[{function: "b::2"}], [{function: "b::3"}]]
    say: "B: {result} and {result}."
  - when: C
    calls: [{function: "c::1"}]
  - when: '^echo (.*)$'
    say: "<$1> $$1 {result} ${1}{result}"
    calls: [{function: "d::1", payload: {"$1": ["$1", 123456789012345678901234567890, null]}}]
`

func names(calls []agent.Block) (out []string) {
	for _, c := range calls {
		var a struct{ Function string }
		if json.Unmarshal(c.Arguments, &a) != nil {
			a.Function = "?"
		}
		out = append(out, a.Function)
	}
	return out
}

// Rules with several rounds at once: each quotes its own results, whatever the
// rounds of the others are.
func TestEachRuleQuotesItsOwnResults(t *testing.T) {
	t.Parallel()
	r := newRig(t, twoRounds)
	messages := []agent.Message{agent.User("A B C", 1)}
	var rounds [][]string
	for len(rounds) < 3 {
		m := r.final(request(messages...))
		rounds = append(rounds, names(m.Calls()))
		messages = append(messages, m)
		for i, n := range names(m.Calls()) {
			messages = append(messages, result(m.Calls()[i].ID, n, "<"+n+">", false))
		}
	}
	if diff := cmp.Diff([][]string{{"a::1", "a::2", "b::1", "c::1"}, {"a::3", "b::2"}, {"b::3"}}, rounds); diff != "" {
		t.Error(diff)
	}
	want := "A: <a::1>\n<a::2>\n<a::3>.\nB: <b::1>\n<b::2>\n<b::3> and <b::1>\n<b::2>\n<b::3>.\nc::1 answered: <c::1>"
	if m := r.final(request(messages...)); m.Content[0].Text != want {
		t.Errorf("answer %q, want %q", m.Content[0].Text, want)
	}
}

func TestDeniedAndFailedResultsAreQuoted(t *testing.T) {
	t.Parallel()
	r := newRig(t, twoRounds)
	denied := result("1", "a::1", "not today", true)
	denied.Details = json.RawMessage(`{"status":"denied"}`)
	messages := []agent.Message{
		agent.User("A C", 1), called(), denied, result("2", "a::2", `{"error":"timeout"}`, true), result("3", "c::1", "fine", false),
		called(), result("4", "a::3", "", false),
	}
	if got, want := r.final(request(messages...)).Content[0].Text, "A: not today\n{\"error\":\"timeout\"}\n.\nc::1 answered: fine"; got != want {
		t.Errorf("answer %q, want %q", got, want)
	}
	// A result that is missing, as after a crash, shifts none of the others.
	if got, want := r.final(request(messages[0], messages[1], messages[2], called(), messages[6])).Content[0].Text, "A: not today\n."; got != want {
		t.Errorf("answer %q, want %q", got, want)
	}
}

func TestWhatIsPutInIsNoTemplate(t *testing.T) {
	t.Parallel()
	r := newRig(t, twoRounds)
	for _, hostile := range []string{"$1", "${1}$$", "{result}", "\x00", "a\\$1", "%s {{.}}"} {
		prompt := agent.User("echo "+hostile, 1)
		calls := r.final(request(prompt)).Calls()
		if len(calls) != 1 {
			t.Fatalf("%d calls", len(calls))
		}
		quoted, err := json.Marshal(hostile)
		if want := `{"function":"d::1","payload":{"$1":[` + string(quoted) + `,123456789012345678901234567890,null]}}`; string(calls[0].Arguments) != want || err != nil {
			t.Errorf("arguments %s, want %s", calls[0].Arguments, want)
		}
		got := r.final(request(prompt, called(), result("c", "d::1", hostile, false))).Content[0].Text
		if want := "<" + hostile + "> $1 " + hostile + " " + hostile + hostile; got != want {
			t.Errorf("answer %q, want %q", got, want)
		}
	}
}

// A message that was pushed into the running turn comes behind the results.
func TestSteeringMessageIsAnsweredAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t, twoRounds)
	messages := []agent.Message{
		agent.User("A", 1), called(), result("1", "a::1", "old", false), result("2", "a::2", "old", false), agent.User("C", 2),
	}
	m := r.final(request(messages...))
	if diff := cmp.Diff([]string{"c::1"}, names(m.Calls())); diff != "" {
		t.Fatal(diff)
	}
	messages = append(messages, m, result("3", "c::1", "new", false))
	if got := r.final(request(messages...)).Content[0].Text; got != "c::1 answered: new" {
		t.Errorf("answer %q", got)
	}
	two := r.final(request(agent.User("A", 1), agent.User("x", 2)))
	if two.Content[0].Text != "You said: x" {
		t.Errorf("of two prompts the last one counts: %q", two.Content[0].Text)
	}
}

func TestUnknownPromptQuotesWhateverCameBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, twoRounds)
	image := agent.Message{Role: agent.RoleUser, Content: []agent.Block{{Type: agent.BlockImage, Data: "aGk="}, agent.Text("x\ny"), agent.Text("z")}}
	note := agent.Message{Role: agent.RoleCustom, CustomType: "note", Content: []agent.Block{agent.Text("A B C")}}
	got := r.final(request(image, note, result("1", "x::1", "one", false), called(), result("2", "x::2", "two", true))).Content[0].Text
	if want := "You said: x\ny\nz\nx::1 answered: one\nx::2 answered: two"; got != want {
		t.Errorf("answer %q, want %q", got, want)
	}
}

func TestQuote(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, function, text, want string }{
		{"time", "demo::time", `{"time":"2026-12-01T10:00:00Z","unix_ms":1}`, "2026-12-01T10:00:00Z"},
		{"time that is none", "demo::time", `{"now":1}`, `{"now":1}`},
		{"time of another function", "a::b", `{"time":"x","secret":1}`, `{"time":"x","secret":1}`},
		{"folder", "shell::fs::ls", `{"entries":[{"name":"a"},{"name":"b c"}]}`, "a, b c"},
		{"empty folder", "shell::fs::ls", `{"entries":[]}`, "nothing"},
		{"folder that is none", "shell::fs::ls", `{"entries":7}`, `{"entries":7}`},
		{"folder of another shape", "shell::fs::ls", `[]`, `[]`},
		{"output", "shell::exec", `{"stdout":"a\n","stderr":"b\n\n","exit_code":0}`, "a\nb"},
		{"no output", "shell::exec", `{"stdout":"","exit_code":3}`, "nothing (exit code 3)"},
		{"time limit", "shell::exec", `{"stdout":"a","exit_code":137,"timed_out":true}`, "a (stopped at its time limit)"},
		{"output that is none", "shell::exec", `{"id":1}`, `{"id":1}`},
		{"file that looks like a result", "shell::fs::read", `{"stdout":"x"}`, `{"stdout":"x"}`},
		{"as long as may be", "a::b", strings.Repeat("é", maxQuote), strings.Repeat("é", maxQuote)},
		{"longer", "a::b", strings.Repeat("é", maxQuote+1), strings.Repeat("é", maxQuote) + "…"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := quote(result("c", tt.function, tt.text, false)); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if strings.HasPrefix(tt.text, "{") {
				if got := quote(result("c", tt.function, tt.text, true)); got != tt.text {
					t.Errorf("an error is quoted as %q", got)
				}
			}
		})
	}
}
