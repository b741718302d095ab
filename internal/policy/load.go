package policy

import (
	"encoding/json"
	"fmt"
	"regexp"
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
	Version int         `yaml:"version"`
	Rules   []ruleEntry `yaml:"rules"`
}

// Check tells what is wrong.
func (f *file) Check() (string, string) {
	if f.Version != 1 {
		return fmt.Sprintf("version is %d", f.Version), "1"
	}
	return "", ""
}

// ruleEntry is one entry of rules: a text, or a mapping.
type ruleEntry struct{ rule rule }

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
	p, err := pattern.Compile(text)
	if err != nil {
		return d.Fail(n, path, err.Error(), "a function id, with * as the only wildcard")
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
	p, err := pattern.Compile(o.Function)
	if err != nil {
		return d.Fail(n, path+".function", err.Error(), "a function id, with * as the only wildcard")
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

func (o operatorPair) compile(d *strict.Decoder, n *yaml.Node, path, field string) (constraint, error) {
	switch {
	case o.Equals.Kind != 0:
		var raw json.RawMessage
		if err := d.Into(&o.Equals, &raw, path+".equals"); err != nil {
			return constraint{}, err
		}
		return constraint{field: field, equals: newValue(raw)}, nil
	case o.Matches != nil:
		re, err := regexp.Compile(*o.Matches)
		if err != nil {
			return constraint{}, d.Fail(n, path+".matches", fmt.Sprintf("is %q: %v", *o.Matches, err), "a regular expression (RE2: no lookaround, no backreferences)")
		}
		return constraint{field: field, re: re, text: *o.Matches}, nil
	}
	return constraint{}, d.Fail(n, path, "has no operator", "equals or matches")
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
	for _, e := range f.Rules {
		r.rules = append(r.rules, e.rule)
	}
	return r, nil
}
