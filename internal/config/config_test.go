package config

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/queue"
	"github.com/iii-aws/harness/internal/strict"
)

var known = []string{"turn-orchestrator", "session", "harness", "shell", "llm-budget"}

func TestParse(t *testing.T) {
	t.Parallel()
	c, err := Parse("config.yaml", []byte(`
workers:
  - turn-orchestrator
  - session
  - harness
  - {name: shell, config: {root: ".", list: [1, 2]}}
queues:
  mail: {type: fifo, message_group_field: to, max_retries: 4, backoff: 2s, concurrency: 3}
  plain: {}
policy: none
approval: {expires_after: 30m}
default_model: {scripted: s1}
turn: {shards: 2}
telemetry: {log_level: debug, endpoint: "http://127.0.0.1:4318"}
removal: prod
http: {middleware: [auth::check], hosts: [dev.example]}
remote: {plain_http: true, private_networks: ["127.0.0.1/8", "fd00::/8"], secret_keys: [PAY_TOKEN]}
budget:
`), known)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"harness", "session", "shell", "turn-orchestrator"}, c.Names()); diff != "" {
		t.Error(diff)
	}
	if got := string(c.WorkerConfig("shell")); got != `{"list":[1,2],"root":"."}` {
		t.Errorf("shell config = %s", got)
	}
	if c.WorkerConfig("nobody") != nil || !c.Has("shell") || c.Has("llm-budget") {
		t.Error("Has or WorkerConfig is wrong")
	}
	q := c.Queues["mail"]
	want := queue.Config{Name: "mail", Type: queue.FIFO, MaxReceives: 4, Backoff: 2 * time.Second, Concurrency: 3, GroupField: "to"}
	if diff := cmp.Diff(want, q.Define("mail")); diff != "" {
		t.Error(diff)
	}
	p := c.Queues["plain"]
	if p.Define("plain").Type != queue.Standard {
		t.Error("a queue without a type is not standard")
	}
	if c.Policy != PolicyNone || c.Approval.ExpiresAfter != 30*time.Minute || c.Turn.Shards != 2 || c.Turn.MaxParallelCalls != 16 || c.Budget != nil {
		t.Errorf("config = %+v", c)
	}
	networks := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	if !c.Remote.PlainHTTP || !slices.Equal(c.Remote.Networks(), networks) || !slices.Equal(c.Remote.SecretKeys, []string{"PAY_TOKEN"}) ||
		!slices.Equal(c.HTTP.Middleware, []string{"auth::check"}) || !slices.Equal(c.HTTP.Hosts, []string{"dev.example"}) {
		t.Errorf("config = %+v", c)
	}
	if d := Default(known); !slices.Equal(d.Remote.SecretKeys, []string{"HOOK_*"}) || d.Remote.PlainHTTP || len(d.Remote.Networks()) != 0 {
		t.Errorf("default = %+v", d.Remote)
	}
}

func TestEmptyFileIsTheDefault(t *testing.T) {
	t.Parallel()
	c, err := Parse("config.yaml", []byte("# nothing\n"), known)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Default(known), c); diff != "" {
		t.Error(diff)
	}
}

func TestMistakesNameFieldAndWhatIsAllowed(t *testing.T) {
	t.Parallel()
	const core = "workers: [turn-orchestrator, session, harness]\n"
	for _, tt := range []struct{ name, text, want string }{
		{"unknown key", core + "qeues: {}\n", "c.yaml:2: qeues: unknown key; allowed: agent_scopes, approval, budget"},
		{"unknown nested key", core + "turn: {shard: 1}\n", "c.yaml:2: turn.shard: unknown key; allowed: coalesce_window"},
		{"unknown worker", "workers: [shel]\n", `workers[0]: names the unknown worker "shel"; allowed: harness, llm-budget`},
		{"worker twice", "workers: [shell, shell]\n", `workers[1]: names "shell" twice`},
		{"worker number", "workers: [1]\n", `workers[0]: is "1"; allowed: the name of a worker`},
		{"core missing", "workers: [shell]\n", `workers: lacks "turn-orchestrator"`},
		{"policy", core + "policy: lax\n", `policy: is "lax"; allowed: rules, none`},
		{"providers", core + "providers: x\n", `providers: is "x"; allowed: separate, linked`},
		{"removal", core + "removal: x\n", `removal: is "x"; allowed: dev, prod`},
		{"budget without worker", core + "budget: {ceiling_usd: 1, period: day}\n", "budget: names a ceiling but the worker llm-budget"},
		{"ceiling", core + "budget: {ceiling_usd: 0, period: day}\n", "ceiling_usd is 0; allowed: more than 0"},
		{"period", core + "budget: {ceiling_usd: 1, period: hour}\n", `period is "hour"; allowed: day, week, month`},
		{"price", core + "budget: {ceiling_usd: 1, period: day, unknown_price: x}\n", `unknown_price is "x"; allowed: allow, refuse`},
		{"hooks", core + "hooks: {required: [a]}\n", "hooks.required: names a topic but the worker hook-fanout"},
		{"queue type", core + "queues: {a: {type: x}}\n", `queues.a: type is "x"; allowed: standard, fifo`},
		{"queue group", core + "queues: {a: {type: fifo}}\n", "message_group_field is missing"},
		{"queue negative", core + "queues: {a: {concurrency: -1}}\n", "negative; allowed: 1 or more"},
		{"built-in queue", core + "queues: {turn-step: {}}\n", "queues.turn-step: is built in"},
		{"provider case", core + "default_provider: Scripted\n", "lower case"},
		{"shards", core + "turn: {shards: 0}\n", "shards is 0; allowed: 1 to 64"},
		{"parallel", core + "turn: {max_parallel_calls: 0}\n", "max_parallel_calls is 0"},
		{"text limit", core + "turn: {result_text_limit: 1}\n", "result_text_limit is 1"},
		{"concurrency", core + "turn: {concurrency: 0}\n", "concurrency is 0"},
		{"log level", core + "telemetry: {log_level: loud}\n", `log_level is "loud"`},
		{"endpoint", core + "telemetry: {endpoint: x}\n", `endpoint is "x"; allowed: an http or https URL`},
		{"middleware", core + "http: {middleware: [' ']}\n", "http: middleware names a function without an id"},
		{"host", core + "http: {hosts: ['http://x']}\n", `http: hosts has "http://x"; allowed: names of hosts`},
		{"network", core + "remote: {private_networks: [10.0.0.1]}\n", `remote: private_networks has "10.0.0.1"; allowed: networks such as`},
		{"all secrets", core + "remote: {secret_keys: ['*']}\n", `remote: secret_keys has "*"; allowed: names of environment variables`},
		{"remote key", core + "remote: {plain: true}\n", "remote.plain: unknown key; allowed: plain_http, private_networks, secret_keys"},
		{"duration", core + "approval: {expires_after: soon}\n", `approval.expires_after: is "soon"; allowed: a duration`},
		{"twice", core + "policy: none\npolicy: none\n", "policy: is given twice"},
		{"syntax", "a: [\n", "is not valid YAML"},
		{"documents", core + "---\na: 1\n", "more than one document"},
		{"list", "[]\n", "is a list; allowed: a mapping"},
		{"mapping for list", "workers: {}\n", "workers: is a mapping; allowed: a list"},
		{"anchor", "workers: &a [shell]\n", "uses an anchor or alias"},
		{"number for text", core + "default_provider: 7\n", `default_provider: is "7"; allowed: a text`},
		{"text for number", core + "turn: {shards: many}\n", `turn.shards: is "many"; allowed: a whole number`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := Parse("c.yaml", []byte(tt.text), known)
			var e *strict.Error
			if !errors.As(err, &e) {
				t.Fatalf("error = %v, want a *strict.Error", err)
			}
			if !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "c.yaml") || strings.Contains(err.Error(), "\n") {
				t.Errorf("error = %q, want one line with %q", err, tt.want)
			}
		})
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if _, err := Load(file, known); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("error = %v", err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(file, known); err != nil {
		t.Error(err)
	}
	if _, err := Load(filepath.Dir(file), known); err == nil {
		t.Error("a folder was read as a config")
	}
}
