package scripted

import (
	_ "embed" // the built-in rules
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/iii-aws/harness/internal/agent"
	"github.com/iii-aws/harness/internal/strict"
)

//go:embed rules.yaml
var builtin []byte

// Rules is a rules file.
type Rules struct {
	// Delay is the pause before each piece of text.
	Delay time.Duration `yaml:"delay"`
	Rules []Rule        `yaml:"rules"`
}

// Rule is one rule.
type Rule struct {
	When  string `yaml:"when"`
	Calls []Call `yaml:"calls"`
	// Then is further rounds of calls, each after the results of the one
	// before.
	Then  [][]Call       `yaml:"then"`
	Say   string         `yaml:"say"`
	Think string         `yaml:"think"`
	Delay *time.Duration `yaml:"delay"`
	Fail  *Fail          `yaml:"fail"`

	re *regexp.Regexp
}

// Call is a call that the model makes.
type Call struct {
	Function string          `yaml:"function"`
	Payload  json.RawMessage `yaml:"payload"`
	// Arguments replaces the whole argument text, however broken.
	Arguments *string `yaml:"arguments"`
	// ID is the provider's call id; empty makes one.
	ID *string `yaml:"id"`
	// Tool is the name of the block; empty is agent_trigger.
	Tool string `yaml:"tool"`
}

// Fail says how a model call goes wrong.
type Fail struct {
	Kind         string `yaml:"kind"`
	Message      string `yaml:"message"`
	After        int    `yaml:"after"`
	Times        int    `yaml:"times"`
	RetryAfterMS int64  `yaml:"retry_after_ms"`
}

// The kinds of a failure beside the error kinds of a real provider.
const (
	failCut       = "cut"       // the stream closes without a terminal event
	failSilence   = "silence"   // nothing more comes until the call is given up
	failGarbage   = "garbage"   // a message that is no event, then goes on
	failLength    = "length"    // stop_reason length
	failRefused   = "refused"   // an invocation error before the first event
	failDuplicate = "duplicate" // the terminal event comes twice
)

var failKinds = []string{string(agent.ErrRateLimited), string(agent.ErrTransient), string(agent.ErrPermanent),
	string(agent.ErrAuthExpired), string(agent.ErrContextOverflow), failCut, failSilence, failGarbage, failLength, failRefused, failDuplicate}

// Builtin is the rules that serve without a file.
func Builtin() Rules {
	r, err := ParseRules("rules.yaml", builtin)
	if err != nil {
		panic(err) // a test reads the same file
	}
	return r
}

// ParseRules reads and checks a rules file.
func ParseRules(file string, data []byte) (Rules, error) {
	var r Rules
	if len(data) > 64<<10 {
		return r, &strict.Error{File: file, Problem: fmt.Sprintf("has %d bytes", len(data)), Allowed: "at most 65536"}
	}
	if err := strict.Decode(file, data, &r); err != nil {
		return Rules{}, err
	}
	for i := range r.Rules {
		rule := &r.Rules[i]
		field := func(name string) string { return fmt.Sprintf("rules[%d].%s", i, name) }
		re, err := regexp.Compile(rule.When)
		if err != nil || rule.When == "" {
			return Rules{}, &strict.Error{File: file, Field: field("when"), Problem: fmt.Sprintf("is %q", rule.When), Allowed: "a regular expression (RE2)", Err: err}
		}
		rule.re = re
		if f := rule.Fail; f != nil && !strings.HasPrefix(f.Kind, "$") && !known(f.Kind) {
			return Rules{}, &strict.Error{File: file, Field: field("fail.kind"), Problem: fmt.Sprintf("is %q", f.Kind), Allowed: strings.Join(failKinds, ", ")}
		}
		for _, round := range append([][]Call{rule.Calls}, rule.Then...) {
			for _, c := range round {
				if c.Function == "" && c.Arguments == nil {
					return Rules{}, &strict.Error{File: file, Field: field("calls"), Problem: "has a call without a function", Allowed: "function or arguments"}
				}
			}
		}
	}
	return r, nil
}

func known(kind string) bool {
	for _, k := range failKinds {
		if k == kind {
			return true
		}
	}
	return false
}
