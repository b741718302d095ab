package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"sort"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/iii-aws/harness/engine/pattern"
	"github.com/iii-aws/harness/internal/kernel"
	"github.com/iii-aws/harness/internal/strict"
)

// Builtin is the rules of a server without a file: look around freely, ask
// before anything else.
const Builtin = `version: 1
rules:
  - "demo::*"
  - "shell::fs::ls"
  - "shell::fs::read"
  - "shell::fs::grep"
  - "shell::fs::glob"
`

// file is the permissions file.
type file struct {
	Version int      `yaml:"version"`
	Rules   ruleList `yaml:"rules"`
}

// Check tells what is wrong.
func (f *file) Check() (string, string) {
	if f.Version != 1 {
		return fmt.Sprintf("version is %d", f.Version), "1"
	}
	return "", ""
}

// ruleList is the entries of rules. Anything but a list holds none.
type ruleList struct {
	entries []ruleEntry
	// odd is where rules is, if it is no list and not empty.
	odd *yaml.Node
}

// DecodeNode reads the entries.
func (l *ruleList) DecodeNode(d *strict.Decoder, n *yaml.Node, path string) error {
	if n.Kind != yaml.SequenceNode {
		if n.Tag != "!!null" {
			l.odd = n
		}
		return nil
	}
	l.entries = make([]ruleEntry, len(n.Content))
	for i, c := range n.Content {
		if err := d.Into(c, &l.entries[i], fmt.Sprintf("%s[%d]", path, i)); err != nil {
			return err
		}
	}
	return nil
}

// ruleEntry is one entry of rules: a text, or a mapping.
type ruleEntry struct {
	rule rule
	line int
}

// entryObject is the mapping form.
type entryObject struct {
	RuleID   string                  `yaml:"rule_id"`
	Function string                  `yaml:"function"`
	Action   string                  `yaml:"action"`
	Args     map[string]operatorPair `yaml:"args"`
}

// operatorPair is a constraint; equals wins over matches.
type operatorPair struct {
	Equals  yaml.Node `yaml:"equals"`
	Matches *string   `yaml:"matches"`
}

// DecodeNode reads either form.
func (e *ruleEntry) DecodeNode(d *strict.Decoder, n *yaml.Node, path string) error {
	e.line = n.Line
	switch {
	case n.Kind == yaml.ScalarNode && n.Tag == "!!str":
		return e.short(d, n, path)
	case n.Kind == yaml.MappingNode:
		return e.object(d, n, path)
	}
	return d.Fail(n, path, "is no rule", `a function pattern such as "demo::*", "!state::set" to deny, or a mapping with function and action`)
}

func (e *ruleEntry) short(d *strict.Decoder, n *yaml.Node, path string) error {
	text, action := n.Value, Allow
	if rest, deny := strings.CutPrefix(text, "!"); deny {
		text, action = rest, Deny
	}
	if text == "" {
		return d.Fail(n, path, fmt.Sprintf("is %q", n.Value), `a function pattern, with "!" in front to deny`)
	}
	p, err := functionPattern(d, n, path, text)
	if err != nil {
		return err
	}
	e.rule = rule{id: text, function: p, action: action}
	return nil
}

func (e *ruleEntry) object(d *strict.Decoder, n *yaml.Node, path string) error {
	var o entryObject
	if err := d.Into(n, &o, path); err != nil {
		return err
	}
	if o.Function == "" {
		return d.Fail(n, path+".function", "is missing", "a function id or pattern")
	}
	p, err := functionPattern(d, n, path+".function", o.Function)
	if err != nil {
		return err
	}
	action := Action(o.Action)
	if action != Allow && action != Deny {
		return d.Fail(n, path+".action", fmt.Sprintf("is %q", o.Action), "allow, deny")
	}
	e.rule = rule{id: o.RuleID, function: p, action: action}
	if e.rule.id == "" {
		e.rule.id = o.Function
	}
	fields := make([]string, 0, len(o.Args))
	for name := range o.Args {
		fields = append(fields, name)
	}
	sort.Strings(fields)
	for _, name := range fields {
		c, err := o.Args[name].compile(d, n, path+".args."+name, name)
		if err != nil {
			return err
		}
		e.rule.constraints = append(e.rule.constraints, c)
	}
	return nil
}

// functionPattern compiles the pattern of a rule. One that could never match
// an id is a mistake, and dangerous where it should deny.
func functionPattern(d *strict.Decoder, n *yaml.Node, path, text string) (pattern.Pattern, error) {
	const allowed = "a function id, with * as the only wildcard"
	switch {
	case strings.TrimSpace(text) != text:
		return pattern.Pattern{}, d.Fail(n, path, fmt.Sprintf("is %q, with space around it", text), allowed)
	case strings.HasPrefix(text, "!"):
		return pattern.Pattern{}, d.Fail(n, path, fmt.Sprintf("is %q, and no function starts so", text), allowed+`; "!" only in front of a rule that is one text, else action: deny`)
	}
	p, err := pattern.Compile(text)
	if err != nil {
		return p, d.Fail(n, path, err.Error(), allowed)
	}
	return p, nil
}

func (o operatorPair) compile(d *strict.Decoder, n *yaml.Node, path, field string) (constraint, error) {
	c := constraint{field: field}
	if o.Matches != nil {
		re, err := regexp.Compile(*o.Matches)
		if err != nil {
			return c, d.Fail(n, path+".matches", fmt.Sprintf("is %q: %s", *o.Matches, why(err)), "a regular expression (RE2: no lookaround, no backreferences)")
		}
		c.re, c.text = re, *o.Matches
	}
	if o.Equals.Kind != 0 {
		var raw json.RawMessage
		if err := d.Into(&o.Equals, &raw, path+".equals"); err != nil {
			return c, err
		}
		c.equals = newValue(raw)
	}
	if c.re == nil && c.equals == nil {
		return c, d.Fail(n, path, "has no operator", "equals or matches")
	}
	return c, nil
}

// why is what is wrong with a regular expression, on one line.
func why(err error) string {
	var e *syntax.Error
	if errors.As(err, &e) {
		return fmt.Sprintf("%s %q", e.Code, e.Expr)
	}
	return fmt.Sprintf("%q", err)
}

// Parse reads the text of a permissions file. Any mistake rejects it as a
// whole; the error is a *strict.Error. Scopes are config agent_scopes.
func Parse(name string, data []byte, scopes []string) (*Rules, error) {
	if err := kernel.CheckScopes(scopes); err != nil {
		return nil, err
	}
	f := file{Version: 1}
	if err := strict.Decode(name, data, &f); err != nil {
		return nil, err
	}
	r := &Rules{scopes: scopes}
	warn := func(line int, format string, args ...any) {
		r.warnings = append(r.warnings, fmt.Sprintf("%s:%d: ", name, line)+fmt.Sprintf(format, args...))
	}
	if odd := f.Rules.odd; odd != nil {
		warn(odd.Line, "rules is no list, so there are no rules")
	}
	seen := map[string]int{}
	for i, e := range f.Rules.entries {
		r.rules = append(r.rules, e.rule)
		if first, twice := seen[e.rule.id]; twice {
			warn(e.line, "rules[%d] has the rule id %q of rules[%d]: a decision cannot tell them apart", i, e.rule.id, first)
		} else {
			seen[e.rule.id] = i
		}
		if e.rule.idle() {
			warn(e.line, "rules[%d] allows a command with a shell control operator, which no rule does: it never matches", i)
		}
	}
	return r, nil
}
