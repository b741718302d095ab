package sdk

import (
	"bytes"
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// said is what a command of the program said.
type said struct {
	code           int
	stdout, stderr string
}

// harness runs a client command against a server.
func harness(t testing.TB, s *Server, command ...string) said {
	t.Helper()
	file, err := program()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(within(t), file, append(command, "--data", s.Ready.Data)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("harness %v: %v\n%s", command, err, errs.String())
	}
	return said{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// outcome is the last line of turn --json.
type outcome struct {
	SessionID string          `json:"session_id"`
	Outcome   string          `json:"outcome"`
	Error     json.RawMessage `json:"error"`
}

// turn runs one turn to its end and gives its events beside the outcome.
func turn(t testing.TB, s *Server, text string, flags ...string) (outcome, []json.RawMessage) {
	t.Helper()
	a := harness(t, s, append([]string{"turn", text, "--json"}, flags...)...)
	var events []json.RawMessage
	var end outcome
	for row := range strings.Lines(a.stdout) {
		var line struct {
			Event json.RawMessage `json:"event"`
			outcome
		}
		if err := json.Unmarshal([]byte(row), &line); err != nil {
			t.Fatalf("%v in %s", err, row)
		}
		if line.Event != nil {
			events = append(events, line.Event)
		}
		end = line.outcome
	}
	if end.Outcome == "" {
		t.Fatalf("turn %q: exit %d\n%s%s\n%s", text, a.code, a.stdout, a.stderr, s.Log)
	}
	return end, events
}

// results are the results of the calls of a turn, as text.
func results(t testing.TB, events []json.RawMessage) []string {
	t.Helper()
	var out []string
	for _, raw := range events {
		var e struct {
			Type   string          `json:"type"`
			Result json.RawMessage `json:"result"`
		}
		if err := json.Unmarshal(raw, &e); err != nil {
			t.Fatal(err)
		}
		if e.Type == "function_execution_end" {
			out = append(out, string(e.Result))
		}
	}
	return out
}

// example starts one of the scripts that the README shows, as it stands.
func example(t testing.TB, l Language, script, url string) *Process {
	t.Helper()
	dir := t.TempDir()
	argv, err := l.Command(dir, script)
	if err != nil {
		t.Fatal(err)
	}
	p, err := StartProcess(dir, argv, "III_URL="+url, "HOME="+filepath.Join(dir, "home"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("%s said:\n%s", script, p.Log)
		}
	})
	return p
}
