package functions

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/iii-aws/harness/engine/bus"
)

func TestManifests(t *testing.T) {
	t.Parallel()
	all, err := Manifests()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 8 {
		t.Errorf("%d manifests", len(all))
	}
	owner := map[string]string{}
	for i, m := range all {
		if i > 0 && all[i-1].Name >= m.Name {
			t.Errorf("%s is not in its place", m.Name)
		}
		if m.Description == "" || m.Memory < 128 || m.Memory > 10240 || m.Timeout < 1 || m.Timeout > 900 {
			t.Errorf("%s: description, memory %d or timeout %d", m.Name, m.Memory, m.Timeout)
		}
		for _, f := range m.Functions {
			if other := owner[f.ID]; other != "" {
				t.Errorf("%s is served by %s and %s", f.ID, other, m.Name)
			}
			owner[f.ID] = m.Name
			if f.Description == "" || !strings.Contains(f.ID, "::") || f.TimeoutMS < 0 {
				t.Errorf("%s: %+v", m.Name, f)
			}
		}
		for _, tr := range m.Triggers {
			if !json.Valid(tr.Config) || (tr.Type != "state" && tr.Type != "stream") {
				t.Errorf("%s: trigger %+v", m.Name, tr)
			}
		}
		for _, g := range m.Grants {
			if g.Port == "" || len(g.Scopes) == 0 || len(g.Access) == 0 {
				t.Errorf("%s: grant %+v", m.Name, g)
			}
			for _, a := range g.Access {
				if a != "read" && a != "write" {
					t.Errorf("%s: grant %+v", m.Name, g)
				}
			}
		}
	}
	for id, worker := range map[string]string{"run::start": "turn-orchestrator", "policy::check_permissions": "harness", "approval::resolve": "approval-gate", "auth::get_token": "auth-credentials"} {
		if owner[id] != worker {
			t.Errorf("%s is served by %q, want %s", id, owner[id], worker)
		}
	}
}

func TestMeta(t *testing.T) {
	t.Parallel()
	f := Function{Idempotent: true, Slow: true, Sensitive: true, Internal: true, TimeoutMS: 5}
	if got := f.Meta(); got != (bus.Meta{Idempotent: true, Slow: true, Sensitive: true, Internal: true, TimeoutMS: 5}) {
		t.Errorf("meta %+v", got)
	}
}

func TestBadManifests(t *testing.T) {
	t.Parallel()
	const good = "name: a\nversion: 1.0.0\nfunctions: [{id: a::b}]\n"
	if _, err := Parse("m.yaml", []byte(good)); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"":                          "missing",
		"name: a\nversion: 1.0.0\n": "missing",
		good + "memroy: 1\n":        "memroy: unknown key",
		good + "triggers: [{type: state, function_id: x::y, config: {}}]\n": "triggers[0]: binds",
		good + "triggers: [{function_id: a::b}]\n":                          "triggers[0]: binds",
		"name: a\nversion: 1.0.0\nfunctions: [{id: a::b}, {id: a::b}]\n":    "functions[1].id",
		"name: a\nversion: 1.0.0\nfunctions: [{description: x}]\n":          "functions[0].id",
		"name: a\nversion: 1.0.0\nfunctions: [{id: a::b, slow: maybe}]\n":   "functions[0].slow",
	} {
		if _, err := Parse("m.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "m.yaml") {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}
