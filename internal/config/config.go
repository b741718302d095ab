package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sort"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/iii-aws/harness/engine/queue"
	"github.com/iii-aws/harness/internal/strict"
)

// Config is config.yaml.
type Config struct {
	Workers         []Worker          `yaml:"workers"`
	Queues          map[string]Queue  `yaml:"queues"`
	Sticky          []string          `yaml:"sticky"`
	Policy          Policy            `yaml:"policy"`
	DefaultProvider string            `yaml:"default_provider"`
	DefaultModel    map[string]string `yaml:"default_model"`
	Providers       Providers         `yaml:"providers"`
	AgentScopes     []string          `yaml:"agent_scopes"`
	Hooks           Hooks             `yaml:"hooks"`
	Budget          *Budget           `yaml:"budget"`
	Approval        Approval          `yaml:"approval"`
	Turn            Turn              `yaml:"turn"`
	Telemetry       Telemetry         `yaml:"telemetry"`
	Removal         Removal           `yaml:"removal"`
	Bus             Bus               `yaml:"bus"`
	HTTP            HTTP              `yaml:"http"`
	Remote          Remote            `yaml:"remote"`
}

// Worker is a line of workers: a name, or a name with a config of its own.
type Worker struct {
	Name   string          `yaml:"name"`
	Config json.RawMessage `yaml:"config"`
}

// DecodeNode takes the short form, a name alone.
func (w *Worker) DecodeNode(d *strict.Decoder, n *yaml.Node, path string) error {
	if n.Kind == yaml.ScalarNode {
		if n.Tag != "!!str" {
			return d.Fail(n, path, fmt.Sprintf("is %q", n.Value), "the name of a worker")
		}
		w.Name = n.Value
		return nil
	}
	type plain Worker
	return d.Into(n, (*plain)(w), path)
}

// Queue configures a named queue.
type Queue struct {
	Type              string        `yaml:"type"`
	MaxRetries        int           `yaml:"max_retries"`
	Backoff           time.Duration `yaml:"backoff"`
	Concurrency       int           `yaml:"concurrency"`
	MessageGroupField string        `yaml:"message_group_field"`
}

// Check tells what is wrong.
func (q *Queue) Check() (string, string) {
	switch {
	case q.Type != "" && q.Type != string(queue.Standard) && q.Type != string(queue.FIFO):
		return fmt.Sprintf("type is %q", q.Type), "standard, fifo"
	case q.Type == string(queue.FIFO) && q.MessageGroupField == "":
		return "message_group_field is missing", "a member of the data, required for fifo"
	case q.Concurrency < 0 || q.MaxRetries < 0:
		return "concurrency or max_retries is negative", "1 or more"
	}
	return "", ""
}

// Define is the queue's definition.
func (q *Queue) Define(name string) queue.Config {
	t := queue.Type(q.Type)
	if t == "" {
		t = queue.Standard
	}
	return queue.Config{Name: name, Type: t, MaxReceives: q.MaxRetries, Backoff: q.Backoff, Concurrency: q.Concurrency, GroupField: q.MessageGroupField}
}

// Policy is "rules" (the permissions file) or "none".
type Policy string

// The policies. PolicyNone has to be said in words.
const (
	PolicyRules Policy = "rules"
	PolicyNone  Policy = "none"
)

// Check tells what is wrong.
func (p *Policy) Check() (string, string) {
	if *p != PolicyRules && *p != PolicyNone {
		return fmt.Sprintf("is %q", string(*p)), "rules, none"
	}
	return "", ""
}

// Providers is "separate" (a Lambda each) or "linked" (in the turn's).
type Providers string

// Check tells what is wrong.
func (p *Providers) Check() (string, string) {
	if *p != "separate" && *p != "linked" {
		return fmt.Sprintf("is %q", string(*p)), "separate, linked"
	}
	return "", ""
}

// Hooks configures hook topics.
type Hooks struct {
	// Required topics deny every call while nobody subscribes to them.
	Required []string `yaml:"required"`
}

// Budget is the ceiling of the whole stack.
type Budget struct {
	CeilingUSD   float64 `yaml:"ceiling_usd"`
	Period       string  `yaml:"period"`
	UnknownPrice string  `yaml:"unknown_price"`
}

// Check tells what is wrong.
func (b *Budget) Check() (string, string) {
	switch {
	case b.CeilingUSD <= 0:
		return fmt.Sprintf("ceiling_usd is %v", b.CeilingUSD), "more than 0"
	case b.Period != "day" && b.Period != "week" && b.Period != "month":
		return fmt.Sprintf("period is %q", b.Period), "day, week, month"
	case b.UnknownPrice != "" && b.UnknownPrice != "allow" && b.UnknownPrice != "refuse":
		return fmt.Sprintf("unknown_price is %q", b.UnknownPrice), "allow, refuse"
	}
	return "", ""
}

// Approval configures the wait for a person.
type Approval struct {
	// ExpiresAfter denies what nobody decided; 0 waits for ever.
	ExpiresAfter time.Duration `yaml:"expires_after"`
}

// Turn configures the orchestrator.
type Turn struct {
	Shards              int           `yaml:"shards"`
	MaxParallelCalls    int           `yaml:"max_parallel_calls"`
	ResultTextLimit     int           `yaml:"result_text_limit"`
	Concurrency         int           `yaml:"concurrency"`
	CoalesceWindow      time.Duration `yaml:"coalesce_window"`
	SystemDefaultSkills []string      `yaml:"system_default_skills"`
}

// Check tells what is wrong.
func (t *Turn) Check() (string, string) {
	switch {
	case t.Shards < 1 || t.Shards > 64:
		return fmt.Sprintf("shards is %d", t.Shards), "1 to 64"
	case t.MaxParallelCalls < 1 || t.MaxParallelCalls > 256:
		return fmt.Sprintf("max_parallel_calls is %d", t.MaxParallelCalls), "1 to 256"
	case t.ResultTextLimit < 1024 || t.ResultTextLimit > 256<<10:
		return fmt.Sprintf("result_text_limit is %d", t.ResultTextLimit), "1024 to 262144 bytes"
	case t.Concurrency < 1 || t.Concurrency > 10000:
		return fmt.Sprintf("concurrency is %d", t.Concurrency), "1 to 10000"
	}
	return "", ""
}

// Telemetry configures spans and logs.
type Telemetry struct {
	// Endpoint is an OTLP/HTTP URL; empty exports nothing.
	Endpoint string `yaml:"endpoint"`
	LogLevel string `yaml:"log_level"`
}

// Check tells what is wrong.
func (t *Telemetry) Check() (string, string) {
	switch t.LogLevel {
	case "", "debug", "info", "warn", "error":
	default:
		return fmt.Sprintf("log_level is %q", t.LogLevel), "debug, info, warn, error"
	}
	if t.Endpoint != "" && !strings.HasPrefix(t.Endpoint, "http://") && !strings.HasPrefix(t.Endpoint, "https://") {
		return fmt.Sprintf("endpoint is %q", t.Endpoint), "an http or https URL"
	}
	return "", ""
}

// Removal is what a deleted stack leaves: "prod" keeps data, "dev" does not.
type Removal string

// Check tells what is wrong.
func (r *Removal) Check() (string, string) {
	if *r != "dev" && *r != "prod" {
		return fmt.Sprintf("is %q", string(*r)), "dev, prod"
	}
	return "", ""
}

// Bus configures the connections of workers.
type Bus struct {
	// ReattachGrace is how long a worker that lost its connection may take to come back before what it serves goes.
	ReattachGrace time.Duration `yaml:"reattach_grace"`
}

// Check tells what is wrong.
func (b *Bus) Check() (string, string) {
	if b.ReattachGrace <= 0 || b.ReattachGrace > 10*time.Minute {
		return fmt.Sprintf("reattach_grace is %s", b.ReattachGrace), "above 0s, at most 10m"
	}
	return "", ""
}

// Default is what serves without a file: every known worker, thick.
func Default(known []string) Config {
	c := defaults()
	for _, n := range known {
		c.Workers = append(c.Workers, Worker{Name: n})
	}
	return c
}

func defaults() Config {
	return Config{
		Policy: PolicyRules, Providers: "separate", Removal: "dev",
		Turn: Turn{Shards: 1, MaxParallelCalls: 16, ResultTextLimit: 64 << 10, Concurrency: 1000, CoalesceWindow: 60 * time.Millisecond,
			SystemDefaultSkills: []string{"iii://iii-directory/index"}},
		Remote: Remote{SecretKeys: []string{"HOOK_*"}}, Bus: Bus{ReattachGrace: 5 * time.Second},
	}
}

// core is what cannot be removed.
var core = []string{"turn-orchestrator", "session", "harness"}

// Load reads a file. Known names the workers that exist.
func Load(file string, known []string) (Config, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		problem := err.Error()
		if errors.Is(err, fs.ErrNotExist) {
			problem = "does not exist"
		}
		return Config{}, &strict.Error{File: file, Problem: problem, Allowed: "a readable file", Err: err}
	}
	return Parse(file, data, known)
}

// Parse reads the text of a file.
func Parse(file string, data []byte, known []string) (Config, error) {
	c := defaults()
	if err := strict.Decode(file, data, &c); err != nil {
		return Config{}, err
	}
	if len(c.Workers) == 0 {
		c.Workers = Default(known).Workers
	}
	return c, c.check(file, known)
}

func (c Config) check(file string, known []string) error {
	bad := func(field, problem, allowed string) error {
		return &strict.Error{File: file, Field: field, Problem: problem, Allowed: allowed}
	}
	have := map[string]bool{}
	names := append([]string(nil), known...)
	sort.Strings(names)
	for i, w := range c.Workers {
		field := fmt.Sprintf("workers[%d]", i)
		if !contains(names, w.Name) {
			return bad(field, fmt.Sprintf("names the unknown worker %q", w.Name), strings.Join(names, ", "))
		}
		if have[w.Name] {
			return bad(field, fmt.Sprintf("names %q twice", w.Name), "each worker once")
		}
		have[w.Name] = true
	}
	for _, n := range core {
		if !have[n] {
			return bad("workers", fmt.Sprintf("lacks %q", n), "the core, "+strings.Join(core, ", ")+", cannot be removed")
		}
	}
	if c.Budget != nil && !have["llm-budget"] {
		return bad("budget", "names a ceiling but the worker llm-budget is not listed", "add llm-budget to workers, or remove budget")
	}
	if len(c.Hooks.Required) > 0 && !have["hook-fanout"] {
		return bad("hooks.required", "names a topic but the worker hook-fanout is not listed", "add hook-fanout to workers, or remove hooks.required")
	}
	for _, name := range sortedKeys(c.Queues) {
		if strings.HasPrefix(name, "turn-step") {
			return bad("queues."+name, "is built in", "another name")
		}
	}
	if p := c.DefaultProvider; p != "" && p != strings.ToLower(p) {
		return bad("default_provider", fmt.Sprintf("is %q", p), "a provider name in lower case")
	}
	return nil
}

// Names is the listed workers.
func (c Config) Names() []string {
	out := make([]string, len(c.Workers))
	for i, w := range c.Workers {
		out[i] = w.Name
	}
	sort.Strings(out)
	return out
}

// Has reports whether a worker is listed.
func (c Config) Has(name string) bool { return contains(c.Names(), name) }

// WorkerConfig is the config of one worker, nil if it has none.
func (c Config) WorkerConfig(name string) json.RawMessage {
	for _, w := range c.Workers {
		if w.Name == name {
			return w.Config
		}
	}
	return nil
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}
