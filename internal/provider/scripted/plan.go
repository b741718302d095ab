package scripted

import (
	"strings"
	"time"

	"github.com/iii-aws/harness/internal/agent"
)

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
	prompt string
	// rounds are the assistant messages since, each as the results of its
	// calls, in the order of the calls.
	rounds [][]agent.Message
}

// look reads a conversation. Results that no assistant message precedes count
// for a round of their own.
func look(messages []agent.Message) view {
	var v view
	for _, m := range messages {
		switch m.Role {
		case agent.RoleUser:
			v = view{prompt: text(m.Content)}
		case agent.RoleAssistant:
			v.rounds = append(v.rounds, nil)
		case agent.RoleFunctionResult:
			if len(v.rounds) == 0 {
				v.rounds = append(v.rounds, nil)
			}
			last := len(v.rounds) - 1
			v.rounds[last] = append(v.rounds[last], m)
		}
	}
	return v
}

// text is the text of a content.
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
	var say, think []string
	matched := false
	for i := range r.Rules {
		rule := &r.Rules[i]
		m := rule.When.re.FindStringSubmatchIndex(v.prompt)
		if m == nil {
			continue
		}
		matched = true
		expand := func(s string) string { return string(rule.When.re.ExpandString(nil, s, v.prompt, m)) }
		if rule.Delay != nil {
			p.delay = *rule.Delay
		}
		if t := expand(rule.Think); t != "" && len(v.rounds) == 0 {
			think = append(think, t)
		}
		for _, c := range rule.round(len(v.rounds)) {
			p.calls = append(p.calls, c.fill(expand))
		}
		if rule.Fail != nil {
			p.fail = rule.Fail.fill(expand)
		}
		if s := rule.answer(expand, v.take(rule)); s != "" {
			say = append(say, s)
		}
	}
	p.think = strings.Join(think, "\n")
	if len(p.calls) > 0 {
		return p // the answer comes when they have their results
	}
	if !matched {
		say = append(say, "You said: "+v.prompt)
		for _, results := range v.rounds {
			say = append(say, quotes(results)...)
		}
	}
	p.text = strings.Join(say, "\n")
	return p
}

// take is the results of the rule's own calls. Those of the rules before it
// have been taken.
func (v *view) take(rule *Rule) []agent.Message {
	var own []agent.Message
	for i, results := range v.rounds {
		n := min(len(rule.round(i)), len(results))
		own = append(own, results[:n]...)
		v.rounds[i] = results[n:]
	}
	return own
}

// answer says what the rule says, with the results of its calls.
func (r *Rule) answer(expand func(string) string, results []agent.Message) string {
	if r.Say == "" {
		return strings.Join(quotes(results), "\n")
	}
	texts := make([]string, len(results))
	for i, m := range results {
		texts[i] = quote(m)
	}
	parts := strings.Split(r.Say, "{result}")
	for i, p := range parts {
		parts[i] = expand(p)
	}
	return strings.Join(parts, strings.Join(texts, "\n"))
}
