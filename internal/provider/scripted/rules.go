package scripted

import (
	_ "embed" // the built-in rules
	"encoding/json"
	"fmt"
	"regexp"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/iii-aws/harness/internal/strict"
)

// maxRules is the size of a rules file, in bytes.
const maxRules = 64 << 10

//go:embed rules.yaml
var builtin []byte

// Rules is a rules file.
type Rules struct {
	// Delay is the pause before each piece of text.
	Delay time.Duration `yaml:"delay"`
	Rules []Rule        `yaml:"rules"`
}

// Rule is one rule. Its texts are templates.
type Rule struct {
	When  Pattern `yaml:"when"`
	Calls []Call  `yaml:"calls"`
	// Then is further rounds of calls, each after the results of the one
	// before.
	Then [][]Call `yaml:"then"`
	// Say is the answer; empty quotes each result behind its function.
	Say   string `yaml:"say"`
	Think string `yaml:"think"`
	// Delay replaces that of the file; of several rules the last one counts.
	Delay *time.Duration `yaml:"delay"`
	Fail  *Fail          `yaml:"fail"`
}

// DecodeNode reads a rule, which has a pattern at least.
func (r *Rule) DecodeNode(d *strict.Decoder, n *yaml.Node, path string) error {
	type plain Rule
	if err := d.Into(n, (*plain)(r), path); err != nil {
		return err
	}
	if r.When.re == nil {
		return d.Fail(n, path+".when", "is missing", "a regular expression (RE2)")
	}
	return nil
}

// round is the calls of a round, none after the last.
func (r *Rule) round(i int) []Call {
	switch {
	case i == 0:
		return r.Calls
	case i <= len(r.Then):
		return r.Then[i-1]
	default:
		return nil
	}
}

// Pattern is a regular expression over the prompt.
type Pattern struct{ re *regexp.Regexp }

// DecodeNode reads a pattern.
func (p *Pattern) DecodeNode(d *strict.Decoder, n *yaml.Node, path string) error {
	var text string
	if err := d.Into(n, &text, path); err != nil {
		return err
	}
	re, err := regexp.Compile(text)
	if err != nil || text == "" {
		problem := fmt.Sprintf("is %q", text)
		if err != nil {
			problem += ": " + err.Error()
		}
		return d.Fail(n, path, problem, "a regular expression (RE2)")
	}
	p.re = re
	return nil
}

// Call is a call that the model makes.
type Call struct {
	Function string          `yaml:"function"`
	Payload  json.RawMessage `yaml:"payload"`
	// Arguments replaces the whole argument text, however broken.
	Arguments *string `yaml:"arguments"`
	// ID is the provider's call id; without it one is made.
	ID *string `yaml:"id"`
	// Tool is the name of the block; empty is agent_trigger.
	Tool string `yaml:"tool"`
}

// Check tells what is wrong.
func (c *Call) Check() (problem, allowed string) {
	if c.Function == "" && c.Arguments == nil {
		return "is a call of nothing", "function or arguments"
	}
	return "", ""
}

// Builtin is the rules that serve without a file.
func Builtin() Rules {
	r, err := ParseRules("rules.yaml", builtin)
	if err != nil {
		panic(err) // a test reads the same file
	}
	return r
}

// ParseRules reads and checks a rules file. Errors: *strict.Error.
func ParseRules(file string, data []byte) (Rules, error) {
	if len(data) > maxRules {
		return Rules{}, &strict.Error{File: file, Problem: fmt.Sprintf("has %d bytes", len(data)), Allowed: fmt.Sprintf("at most %d", maxRules)}
	}
	var r Rules
	if err := strict.Decode(file, data, &r); err != nil {
		return Rules{}, err
	}
	return r, nil
}
