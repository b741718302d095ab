package policy

import (
	"encoding/json"
	"regexp"
	"strings"

	"github.com/iii-aws/harness/engine/pattern"
)

// Action is what a rule does.
type Action string

// The actions.
const (
	Allow Action = "allow"
	Deny  Action = "deny"
)

// rule is a compiled rule.
type rule struct {
	id          string
	function    pattern.Pattern
	action      Action
	constraints []constraint // by field
}

// constraint looks at one top-level argument.
type constraint struct {
	field string
	// equals is set for operator equals, re for matches.
	equals *value
	re     *regexp.Regexp
	text   string
}

// Matched is the constraint that a decision reports.
type Matched struct {
	Field    string          `json:"field"`
	Operator string          `json:"operator"`
	Value    json.RawMessage `json:"value"`
}

func (c constraint) report() *Matched {
	if c.equals != nil {
		return &Matched{c.field, "equals", c.equals.raw}
	}
	return &Matched{c.field, "matches", quote(c.text)}
}

// matches reports whether a rule covers a call.
func (r *rule) matches(functionID string, args *arguments) bool {
	if !r.function.Match(functionID) {
		return false
	}
	for _, c := range r.constraints {
		v, ok := args.field(c.field)
		if !ok || !c.holds(v) {
			return false
		}
		if r.action == Allow && c.field == "command" && compound(v) {
			return false
		}
	}
	return true
}

func (c constraint) holds(raw json.RawMessage) bool {
	if c.equals != nil {
		return c.equals.equal(raw)
	}
	s, ok := text(raw)
	return ok && c.re.MatchString(s)
}

// operators let a shell run more than the command that a rule was written for.
const operators = ";&|`<>\n\r\x00"

// compound reports whether a command holds a shell control operator. A command
// that is no text is not judged by its text.
func compound(raw json.RawMessage) bool {
	s, ok := text(raw)
	return ok && (strings.ContainsAny(s, operators) || strings.Contains(s, "$("))
}

func text(raw json.RawMessage) (string, bool) {
	var s string
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return "", false
	}
	return s, true
}

// arguments are the top-level fields of a call's arguments, read when a
// constraint first asks. What is no object has none.
type arguments struct {
	raw    json.RawMessage
	read   bool
	fields map[string]json.RawMessage
}

func (a *arguments) field(name string) (json.RawMessage, bool) {
	if !a.read {
		a.read = true
		var m map[string]json.RawMessage
		if json.Unmarshal(a.raw, &m) == nil {
			a.fields = m
		}
	}
	v, ok := a.fields[name]
	return v, ok
}
