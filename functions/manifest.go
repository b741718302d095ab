package functions

import (
	"embed"
	"encoding/json"
	"fmt"
	"path"
	"sort"
	"sync"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/internal/strict"
)

//go:embed */iii.worker.yaml
var files embed.FS

// Manifest describes one worker.
type Manifest struct {
	Name        string     `yaml:"name"`
	Version     string     `yaml:"version"`
	Description string     `yaml:"description"`
	Functions   []Function `yaml:"functions"`
	Triggers    []Trigger  `yaml:"triggers"`
	// Memory in MiB and Timeout in seconds of the Lambda.
	Memory  int64    `yaml:"memory"`
	Timeout int64    `yaml:"timeout"`
	Grants  []Grant  `yaml:"grants"`
	Env     []string `yaml:"env"`
	Skills  []string `yaml:"skills"`
}

// Function is one function of a worker.
type Function struct {
	ID          string `yaml:"id"`
	Description string `yaml:"description"`
	Idempotent  bool   `yaml:"idempotent"`
	Slow        bool   `yaml:"slow"`
	Sensitive   bool   `yaml:"sensitive"`
	Internal    bool   `yaml:"internal"`
	TimeoutMS   int64  `yaml:"timeout_ms"`
}

// Meta is what the bus acts on.
func (f Function) Meta() bus.Meta {
	return bus.Meta{Idempotent: f.Idempotent, Slow: f.Slow, Sensitive: f.Sensitive, Internal: f.Internal, TimeoutMS: f.TimeoutMS}
}

// Trigger binds a function of the worker to a trigger type.
type Trigger struct {
	Type       string          `yaml:"type"`
	FunctionID string          `yaml:"function_id"`
	Config     json.RawMessage `yaml:"config"`
}

// Grant is a port that the worker uses; its IAM role is built from them.
type Grant struct {
	Port   string   `yaml:"port"`
	Scopes []string `yaml:"scopes"`
	Access []string `yaml:"access"`
}

// Manifests is every built-in worker, sorted by name.
var Manifests = sync.OnceValues(func() ([]Manifest, error) {
	names, err := files.ReadDir(".")
	if err != nil {
		return nil, err
	}
	var out []Manifest
	for _, dir := range names {
		file := path.Join(dir.Name(), "iii.worker.yaml")
		data, err := files.ReadFile(file)
		if err != nil {
			return nil, err
		}
		m, err := Parse("functions/"+file, data)
		if err != nil {
			return nil, err
		}
		if m.Name != dir.Name() {
			return nil, fmt.Errorf("functions/%s: name: is %q; allowed: the name of its folder, %q", file, m.Name, dir.Name())
		}
		out = append(out, m)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out, nil
})

// Parse reads and checks one manifest.
func Parse(file string, data []byte) (Manifest, error) {
	var m Manifest
	if err := strict.Decode(file, data, &m); err != nil {
		return Manifest{}, err
	}
	bad := func(field, problem, allowed string) (Manifest, error) {
		return Manifest{}, &strict.Error{File: file, Field: field, Problem: problem, Allowed: allowed}
	}
	if m.Name == "" || m.Version == "" || len(m.Functions) == 0 {
		return bad("name, version, functions", "missing", "all three are required")
	}
	seen := map[string]bool{}
	for i, f := range m.Functions {
		if f.ID == "" || seen[f.ID] {
			return bad(fmt.Sprintf("functions[%d].id", i), fmt.Sprintf("is %q", f.ID), "a function id, each once")
		}
		seen[f.ID] = true
	}
	for i, t := range m.Triggers {
		if t.Type == "" || !seen[t.FunctionID] {
			return bad(fmt.Sprintf("triggers[%d]", i), fmt.Sprintf("binds %q", t.FunctionID), "a type, and a function of this worker")
		}
	}
	return m, nil
}
