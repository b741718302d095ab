package scripted

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/iii-aws/harness/internal/agent"
)

const maxQuote = 4000

// plan is what one model call will say.
type plan struct {
	delay time.Duration
	think string
	text  string
	calls []Call
	fail  *Fail
}

// view is what the rules look at: the last user message and what came since.
type view struct {
	prompt  string
	rounds  int // assistant messages since
	results []agent.Message
}

func look(messages []agent.Message) view {
	var v view
	for _, m := range messages {
		switch m.Role {
		case agent.RoleUser:
			v = view{prompt: text(m.Content)}
		case agent.RoleAssistant:
			v.rounds++
		case agent.RoleFunctionResult:
			v.results = append(v.results, m)
		}
	}
	return v
}

func text(blocks []agent.Block) string {
	var parts []string
	for _, b := range blocks {
		if b.Type == agent.BlockText {
			parts = append(parts, b.Text)
		}
	}
	return strings.Join(parts, "\n")
}

// decide makes the plan. It depends on nothing but the rules and messages.
func (r Rules) decide(messages []agent.Message) plan {
	v := look(messages)
	p := plan{delay: r.Delay}
	var say []string
	next := 0 // the first result that no rule has quoted
	matched := false
	for _, rule := range r.Rules {
		m := rule.re.FindStringSubmatchIndex(v.prompt)
		if m == nil {
			continue
		}
		matched = true
		expand := func(s string) string { return string(rule.re.ExpandString(nil, s, v.prompt, m)) }
		if rule.Delay != nil {
			p.delay = *rule.Delay
		}
		if v.rounds == 0 {
			p.think += expand(rule.Think)
		}
		rounds := append([][]Call{rule.Calls}, rule.Then...)
		if v.rounds < len(rounds) {
			for _, c := range rounds[v.rounds] {
				p.calls = append(p.calls, c.expand(expand))
			}
		}
		if f := rule.Fail; f != nil {
			g := *f
			g.Kind, g.Message = expand(f.Kind), expand(f.Message)
			p.fail = &g
		}
		n := 0
		for _, round := range rounds {
			n += len(round)
		}
		quoted := v.results[min(next, len(v.results)):min(next+n, len(v.results))]
		next += n
		if s := rule.answer(expand, quoted); s != "" {
			say = append(say, s)
		}
	}
	if len(p.calls) > 0 {
		return p
	}
	if !matched {
		say = append(say, "You said: "+v.prompt)
		for _, res := range v.results {
			say = append(say, res.FunctionID+" answered: "+quote(res))
		}
	}
	p.text = strings.Join(say, "\n")
	return p
}

// answer quotes the results of the rule's own calls.
func (rule Rule) answer(expand func(string) string, results []agent.Message) string {
	var quotes []string
	for _, res := range results {
		quotes = append(quotes, quote(res))
	}
	all := strings.Join(quotes, "\n")
	if rule.Say == "" {
		var lines []string
		for i, res := range results {
			lines = append(lines, res.FunctionID+" answered: "+quotes[i])
		}
		return strings.Join(lines, "\n")
	}
	return strings.ReplaceAll(expand(strings.ReplaceAll(rule.Say, "{result}", "\x00")), "\x00", all)
}

// quote is the text of a result, as a person would want to read it.
func quote(m agent.Message) string {
	t := text(m.Content)
	var object struct {
		Time    string                  `json:"time"`
		Entries []struct{ Name string } `json:"entries"`
		Stdout  *string                 `json:"stdout"`
		Stderr  string                  `json:"stderr"`
	}
	if !m.IsError && json.Unmarshal([]byte(t), &object) == nil {
		switch {
		case object.Time != "":
			t = object.Time
		case object.Entries != nil:
			names := make([]string, len(object.Entries))
			for i, e := range object.Entries {
				names[i] = e.Name
			}
			t = strings.Join(names, ", ")
		case object.Stdout != nil:
			t = strings.TrimRight(*object.Stdout+object.Stderr, "\n")
		}
	}
	if r := []rune(t); len(r) > maxQuote {
		t = string(r[:maxQuote]) + "…"
	}
	return t
}

func (c Call) expand(f func(string) string) Call {
	c.Function = f(c.Function)
	if len(c.Payload) > 0 {
		c.Payload = expandJSON(c.Payload, f)
	}
	if c.Arguments != nil {
		a := f(*c.Arguments)
		c.Arguments = &a
	}
	return c
}

// expandJSON expands every text of a value.
func expandJSON(raw json.RawMessage, f func(string) string) json.RawMessage {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return raw
	}
	b, err := json.Marshal(walk(v, f))
	if err != nil {
		return raw
	}
	return b
}

func walk(v any, f func(string) string) any {
	switch x := v.(type) {
	case string:
		return f(x)
	case []any:
		for i := range x {
			x[i] = walk(x[i], f)
		}
	case map[string]any:
		for k := range x {
			x[k] = walk(x[k], f)
		}
	}
	return v
}

// arguments is the argument text of a call to agent_trigger.
func (c Call) arguments() string {
	if c.Arguments != nil {
		return *c.Arguments
	}
	payload := c.Payload
	if len(payload) == 0 {
		payload = json.RawMessage("{}")
	}
	name, err := json.Marshal(c.Function)
	if err != nil {
		panic(err) // a string always encodes
	}
	return fmt.Sprintf(`{"function":%s,"payload":%s}`, name, payload)
}
