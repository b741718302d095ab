package policy

import (
	"encoding/json"
	"regexp"
	"slices"
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
	// equals is set for operator equals, re for matches. Equals wins.
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
	command, rest := false, false
	for _, c := range r.constraints {
		if !r.covers(c, args) {
			return false
		}
		command, rest = command || c.field == "command", rest || c.field == "args"
	}
	return r.action == Deny || !command || rest || args.bare()
}

// covers reports whether a constraint holds. Decoders differ about letter case
// in field names, Go's own takes Command for command; so an allow has to hold
// for every field that the function may read, and a denial for one of them.
func (r *rule) covers(c constraint, args *arguments) bool {
	values, exact := args.values(c.field)
	if r.action == Deny {
		return slices.ContainsFunc(values, c.holds)
	}
	for _, v := range values {
		if !c.holds(v) || c.field == "command" && compound(v) {
			return false
		}
	}
	return exact
}

// bare reports whether a command comes without args: what an allow says of the
// one says nothing of the other.
func (a *arguments) bare() bool {
	values, _ := a.values("args")
	for _, v := range values {
		if t := strings.Join(strings.Fields(string(v)), ""); t != "" && t != "null" && t != "[]" {
			return false
		}
	}
	return true
}

// idle reports whether a rule can never match.
func (r *rule) idle() bool {
	return r.action == Allow && slices.ContainsFunc(r.constraints, func(c constraint) bool {
		return c.field == "command" && c.equals != nil && compound(c.equals.raw)
	})
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
	asked  map[string]answers
}

// answers are the values that a function may read for one field.
type answers struct {
	values []json.RawMessage
	exact  bool
}

// values are those of the fields that have the name, or differ from it in
// letter case only. exact reports whether one has the very name.
func (a *arguments) values(name string) (values []json.RawMessage, exact bool) {
	if !a.read {
		a.read = true
		var m map[string]json.RawMessage
		if json.Unmarshal(a.raw, &m) == nil {
			a.fields = m
		}
		a.asked = map[string]answers{}
	}
	w, known := a.asked[name]
	if !known {
		for field, v := range a.fields {
			if strings.EqualFold(field, name) {
				w.values = append(w.values, v)
				w.exact = w.exact || field == name
			}
		}
		a.asked[name] = w
	}
	return w.values, w.exact
}
