package functions

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/internal/strict"
)

func TestEveryFolderHasItsManifest(t *testing.T) {
	t.Parallel()
	manifests, err := Manifests()
	if err != nil {
		t.Fatal(err)
	}
	var folders, names []string
	dirs, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		if d.IsDir() {
			folders = append(folders, d.Name())
		}
	}
	for _, m := range manifests {
		names = append(names, m.Name)
	}
	if diff := cmp.Diff(folders, names); diff != "" {
		t.Error(diff)
	}
}

// Each manifest fits the others: a trigger asks a function that somebody has,
// and what is written where a trigger listens is within a grant.
func TestManifestsFitTogether(t *testing.T) {
	t.Parallel()
	manifests, err := Manifests()
	if err != nil {
		t.Fatal(err)
	}
	served := map[string]string{}
	for _, m := range manifests {
		for _, f := range m.Functions {
			if other := served[f.ID]; other != "" {
				t.Errorf("%s: %s is a function of %s too", m.Name, f.ID, other)
			}
			served[f.ID] = m.Name
			if strings.ContainsAny(f.Description, "\r\n") {
				t.Errorf("%s: the description of %s has more than a line", m.Name, f.ID)
			}
			if f.Internal && f.Slow {
				t.Errorf("%s: %s is internal, so no turn waits for it", m.Name, f.ID)
			}
		}
	}
	for id, worker := range map[string]string{"run::start": "turn-orchestrator", "policy::check_permissions": "harness", "approval::resolve": "approval-gate", "auth::get_token": "auth-credentials"} {
		if served[id] != worker {
			t.Errorf("%s is a function of %q, want %s", id, served[id], worker)
		}
	}
	for _, m := range manifests {
		for i, tr := range m.Triggers {
			var c struct {
				Scope     string `json:"scope"`
				Stream    string `json:"stream_name"`
				Condition string `json:"condition_function_id"`
			}
			if err := json.Unmarshal(tr.Config, &c); err != nil {
				t.Errorf("%s: triggers[%d].config: %v", m.Name, i, err)
			}
			if c.Condition != "" && served[c.Condition] == "" {
				t.Errorf("%s: triggers[%d] asks %s, which nobody serves", m.Name, i, c.Condition)
			}
			name := map[string]string{"state": c.Scope, "stream": c.Stream}[tr.Type]
			if name == "" {
				t.Errorf("%s: triggers[%d] of type %s listens to everything or to nothing", m.Name, i, tr.Type)
			}
			if name == "models" { // written by the catalogue, which is not among these workers
				continue
			}
			if !slices.ContainsFunc(manifests, func(w Manifest) bool { return w.writes(tr.Type, name) }) {
				t.Errorf("%s: triggers[%d] listens to %s %s, which no worker may write", m.Name, i, tr.Type, name)
			}
		}
	}
}

func (m Manifest) writes(port, name string) bool {
	return slices.ContainsFunc(m.Grants, func(g Grant) bool {
		return g.Port == port && slices.Contains(g.Access, "write") && slices.ContainsFunc(g.Scopes, func(s string) bool {
			prefix, open := strings.CutSuffix(s, "*")
			return s == name || open && strings.HasPrefix(name, prefix)
		})
	})
}

const good = `name: demo
version: 0.1.0
description: Says hello.
functions:
  - {id: demo::hello, description: Says hello., idempotent: true, slow: true, sensitive: true, internal: true, timeout_ms: 5}
triggers:
  - {type: "durable:subscriber", function_id: demo::hello, config: {topic: a}}
  - {type: state, function_id: demo::hello}
memory: 128
timeout: 900
grants: [{port: state, scopes: ["demo:*", x], access: [read, write]}]
env: [DEMO_KEY]
skills: [demo/index]
`

func TestParse(t *testing.T) {
	t.Parallel()
	got, err := Parse("f.yaml", []byte(good))
	if err != nil {
		t.Fatal(err)
	}
	want := Manifest{
		Name: "demo", Version: "0.1.0", Description: "Says hello.", Memory: 128, Timeout: 900,
		Functions: []Function{{ID: "demo::hello", Description: "Says hello.", Idempotent: true, Slow: true, Sensitive: true, Internal: true, TimeoutMS: 5}},
		Triggers: []Trigger{
			{Type: "durable:subscriber", FunctionID: "demo::hello", Config: json.RawMessage(`{"topic":"a"}`)}, {Type: "state", FunctionID: "demo::hello"},
		},
		Grants: []Grant{{Port: "state", Scopes: []string{"demo:*", "x"}, Access: []string{"read", "write"}}}, Env: []string{"DEMO_KEY"}, Skills: []string{"demo/index"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	meta := bus.Meta{Idempotent: true, Slow: true, Sensitive: true, Internal: true, TimeoutMS: 5}
	if diff := cmp.Diff(meta, got.Functions[0].Meta()); diff != "" {
		t.Error(diff)
	}
}

func TestMalformedManifests(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, old, new, want string }{
		{"nothing", good, "", `f.yaml: name is ""; allowed: lower case words`},
		{"name", "name: demo", "name: Demo_1", `f.yaml:1: name is "Demo_1"; allowed: lower case words with dashes between them`},
		{"version", "0.1.0", "v1", `f.yaml:1: version is "v1"; allowed: three numbers such as 0.1.0`},
		{"description", "description: Says hello.\n", "", "f.yaml:1: description is missing; allowed: a line"},
		{"no functions", "functions:\n  - {id", "skillz:\n  - {id", "f.yaml:4: skillz: unknown key; allowed: description, env, functions"},
		{"empty functions", "\n  - {id: demo::hello, description: Says hello., idempotent: true, slow: true, sensitive: true, internal: true, timeout_ms: 5}", " []", "f.yaml:1: functions is missing"},
		{"memory", "memory: 128", "memory: 127", "f.yaml:1: memory is 127; allowed: 128 to 10240 (MiB)"},
		{"memory missing", "memory: 128\n", "", "f.yaml:1: memory is 0; allowed: 128 to 10240 (MiB)"},
		{"timeout", "timeout: 900", "timeout: 901", "f.yaml:1: timeout is 901; allowed: 1 to 900 (seconds)"},
		{"env", "DEMO_KEY", "demo-key", `f.yaml:1: env names "demo-key"; allowed: names of environment variables`},
		{"function id", "{id: demo::hello,", "{id: hello,", `f.yaml:5: functions[0]: id is "hello"; allowed: namespace::name in lower case`},
		{"function description", "description: Says hello., idem", "description: '', idem", "f.yaml:5: functions[0]: description is missing; allowed: a line"},
		{"function timeout", "timeout_ms: 5", "timeout_ms: -5", "f.yaml:5: functions[0]: timeout_ms is -5; allowed: 0 to 86400000"},
		{"function flag", "slow: true", "slow: maybe", `f.yaml:5: functions[0].slow: is "maybe"; allowed: true or false`},
		{"function twice", "triggers:", "  - {id: demo::hello, description: again}\ntriggers:", `f.yaml: functions[1].id: names "demo::hello" again; allowed: each id once`},
		{"trigger type", "type: state", "type: ''", `f.yaml:8: triggers[1]: type is ""; allowed: a trigger type such as state`},
		{"trigger config", "config: {topic: a}", "config: a", `f.yaml:7: triggers[0]: config is "a"; allowed: a mapping`},
		{"trigger of somebody else", "{type: state, function_id: demo::hello}", "{type: state, function_id: other::hello}", `f.yaml: triggers[1].function_id: is "other::hello"; allowed: a function of this worker`},
		{"port", "port: state", "port: disk", `f.yaml:11: grants[0]: port is "disk"; allowed: [state stream queue timer blob secret channel]`},
		{"no scopes", `["demo:*", x]`, "[]", "f.yaml:11: grants[0]: scopes is missing; allowed: one scope or more"},
		{"scope", `"demo:*"`, `"*demo"`, `f.yaml:11: grants[0]: scopes has "*demo"; allowed: names, with * at the end for any rest`},
		{"empty scope", `"demo:*"`, `""`, `f.yaml:11: grants[0]: scopes has ""; allowed: names`},
		{"no access", "access: [read, write]", "access: []", "f.yaml:11: grants[0]: access is missing; allowed: read, write"},
		{"access", "[read, write]", "[all]", `f.yaml:11: grants[0]: access has "all"; allowed: read, write, each once`},
		{"access twice", "[read, write]", "[read, read]", `f.yaml:11: grants[0]: access has "read"; allowed: read, write, each once`},
		{"not YAML", "name: demo", "name: [", "is not valid YAML"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			text := strings.Replace(good, tt.old, tt.new, 1)
			if text == good {
				t.Fatal("the manifest is not malformed")
			}
			_, err := Parse("f.yaml", []byte(text))
			var e *strict.Error
			if !errors.As(err, &e) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error = %v, want %s", err, tt.want)
			}
		})
	}
}

type noFolder struct{}

func (noFolder) Open(string) (fs.File, error) { return nil, fs.ErrPermission }

func TestFoldersThatDoNotFit(t *testing.T) {
	t.Parallel()
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	for _, tt := range []struct {
		name   string
		folder fs.FS
		want   string
	}{
		{"unreadable", noFolder{}, "permission denied"},
		{"folder without a manifest", fstest.MapFS{"demo/readme.md": file("")}, "demo/iii.worker.yaml"},
		{"bad manifest", fstest.MapFS{"demo/iii.worker.yaml": file("name: x")}, "functions/demo/iii.worker.yaml"},
		{"other name", fstest.MapFS{"other/iii.worker.yaml": file(good)}, `functions/other/iii.worker.yaml: name: is "demo"; allowed: "other", the name of its folder`},
		{
			"an id of two workers", fstest.MapFS{"demo/iii.worker.yaml": file(good), "two/iii.worker.yaml": file(strings.Replace(good, "name: demo", "name: two", 1))},
			`functions/two/iii.worker.yaml: functions[0].id: is "demo::hello", which worker demo has; allowed: an id that no other worker has`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if _, err := load(tt.folder); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error = %v, want %s", err, tt.want)
			}
		})
	}
	got, err := load(fstest.MapFS{"demo/iii.worker.yaml": file(good)})
	if err != nil || len(got) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

// What is in the folder and what the program carries are the same.
func TestManifestsAreThoseOfTheFolder(t *testing.T) {
	t.Parallel()
	want, err := Manifests()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range want {
		data, err := os.ReadFile(m.Name + "/iii.worker.yaml")
		if err != nil {
			t.Fatal(err)
		}
		got, err := Parse(m.Name, data)
		if diff := cmp.Diff(m, got); diff != "" || err != nil {
			t.Errorf("%v %s", err, diff)
		}
	}
}
