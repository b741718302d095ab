package functions

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/internal/strict"
)

// Manifest describes one worker.
type Manifest struct {
	Name        string     `yaml:"name"`
	Version     string     `yaml:"version"`
	Description string     `yaml:"description"`
	Functions   []Function `yaml:"functions"`
	Triggers    []Trigger  `yaml:"triggers"`
	// Memory in MiB and Timeout in seconds of the Lambda.
	Memory  int64   `yaml:"memory"`
	Timeout int64   `yaml:"timeout"`
	Grants  []Grant `yaml:"grants"`
	// Env names the environment variables that the worker reads.
	Env    []string `yaml:"env"`
	Skills []string `yaml:"skills"`
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
	Preview     string `yaml:"preview"`
}

// Meta is what the bus acts on.
func (f Function) Meta() bus.Meta {
	return bus.Meta{Idempotent: f.Idempotent, Slow: f.Slow, Sensitive: f.Sensitive, Internal: f.Internal, TimeoutMS: f.TimeoutMS, Preview: f.Preview}
}

// Trigger binds a function of the worker to a trigger type.
type Trigger struct {
	Type       string          `yaml:"type"`
	FunctionID string          `yaml:"function_id"`
	Config     json.RawMessage `yaml:"config"`
}

// Grant is a port that the worker uses; its IAM role is built from them.
type Grant struct {
	Port string `yaml:"port"`
	// Scopes are names of scopes, streams, queues or timers; a * at the end
	// stands for any rest.
	Scopes []string `yaml:"scopes"`
	Access []string `yaml:"access"` // read, write
}

// The forms of names, and the names there are.
var (
	workerName  = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	version     = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+$`)
	functionID  = regexp.MustCompile(`^[a-z0-9_-]+(::[a-z0-9_-]+)+$`)
	triggerType = regexp.MustCompile(`^[a-z0-9_-]+(::?[a-z0-9_-]+)*$`)
	scope       = regexp.MustCompile(`^[a-z0-9_:/-]*\*?$`)
	variable    = regexp.MustCompile(`^[A-Z_][A-Z0-9_]*$`)
	grantPorts  = []string{"state", "stream", "queue", "timer", "blob", "secret", "channel"}
	grantAccess = []string{"read", "write"}
)

// maxTimeoutMS is a day.
const maxTimeoutMS = 24 * 60 * 60 * 1000

// Check tells what is wrong.
func (m *Manifest) Check() (problem, allowed string) {
	switch {
	case !workerName.MatchString(m.Name):
		return fmt.Sprintf("name is %q", m.Name), "lower case words with dashes between them"
	case !version.MatchString(m.Version):
		return fmt.Sprintf("version is %q", m.Version), "three numbers such as 0.1.0"
	case m.Description == "":
		return "description is missing", "a line that says what the worker does"
	case len(m.Functions) == 0:
		return "functions is missing", "one function or more"
	case m.strayPreview() != "":
		return fmt.Sprintf("preview is %q", m.strayPreview()), "a function of the same worker"
	case m.Memory < 128 || m.Memory > 10240:
		return fmt.Sprintf("memory is %d", m.Memory), "128 to 10240 (MiB)"
	case m.Timeout < 1 || m.Timeout > 900:
		return fmt.Sprintf("timeout is %d", m.Timeout), "1 to 900 (seconds)"
	}
	for _, name := range m.Env {
		if !variable.MatchString(name) {
			return fmt.Sprintf("env names %q", name), "names of environment variables"
		}
	}
	return "", ""
}

// strayPreview is a preview that the worker does not serve.
func (m *Manifest) strayPreview() string {
	for _, f := range m.Functions {
		if f.Preview != "" && !slices.ContainsFunc(m.Functions, func(o Function) bool { return o.ID == f.Preview }) {
			return f.Preview
		}
	}
	return ""
}

// Check tells what is wrong.
func (f *Function) Check() (problem, allowed string) {
	switch {
	case !functionID.MatchString(f.ID):
		return fmt.Sprintf("id is %q", f.ID), "namespace::name in lower case"
	case f.Description == "":
		return "description is missing", "a line that says what the function does"
	case f.TimeoutMS < 0 || f.TimeoutMS > maxTimeoutMS:
		return fmt.Sprintf("timeout_ms is %d", f.TimeoutMS), fmt.Sprintf("0 to %d", maxTimeoutMS)
	}
	return "", ""
}

// Check tells what is wrong.
func (t *Trigger) Check() (problem, allowed string) {
	switch {
	case !triggerType.MatchString(t.Type):
		return fmt.Sprintf("type is %q", t.Type), "a trigger type such as state"
	case len(t.Config) > 0 && t.Config[0] != '{':
		return "config is " + string(t.Config), "a mapping"
	}
	return "", ""
}

// Check tells what is wrong.
func (g *Grant) Check() (problem, allowed string) {
	switch {
	case !slices.Contains(grantPorts, g.Port):
		return fmt.Sprintf("port is %q", g.Port), fmt.Sprint(grantPorts)
	case len(g.Scopes) == 0:
		return "scopes is missing", "one scope or more"
	case len(g.Access) == 0:
		return "access is missing", "read, write"
	}
	for _, s := range g.Scopes {
		if s == "" || !scope.MatchString(s) {
			return fmt.Sprintf("scopes has %q", s), "names, with * at the end for any rest"
		}
	}
	for i, a := range g.Access {
		if !slices.Contains(grantAccess, a) || slices.Contains(g.Access[:i], a) {
			return fmt.Sprintf("access has %q", a), "read, write, each once"
		}
	}
	return "", ""
}

// Parse reads and checks one manifest. Errors: *strict.Error.
func Parse(file string, data []byte) (Manifest, error) {
	// The document itself may be empty, which strict leaves unchecked.
	var m Manifest
	if err := strict.Decode(file, data, &m); err != nil {
		return Manifest{}, err
	}
	bad := func(field, problem, allowed string) (Manifest, error) {
		return Manifest{}, &strict.Error{File: file, Field: field, Problem: problem, Allowed: allowed}
	}
	if problem, allowed := m.Check(); problem != "" {
		return bad("", problem, allowed)
	}
	seen := map[string]bool{}
	for i, f := range m.Functions {
		if seen[f.ID] {
			return bad(fmt.Sprintf("functions[%d].id", i), fmt.Sprintf("names %q again", f.ID), "each id once")
		}
		seen[f.ID] = true
	}
	for i, t := range m.Triggers {
		if !seen[t.FunctionID] {
			return bad(fmt.Sprintf("triggers[%d].function_id", i), fmt.Sprintf("is %q", t.FunctionID), "a function of this worker")
		}
	}
	return m, nil
}
