package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// devFails runs a dev that cannot start and gives what it said.
func devFails(t *testing.T, args ...string) answer {
	t.Helper()
	s := &server{t: t, env: map[string]string{}, log: &buffer{}}
	var out buffer
	code := run(context.Background(), append([]string{"dev", "--addr", "127.0.0.1:0", "--http", "127.0.0.1:0"}, args...), s.environment(nil, &out))
	return answer{code, out.String(), s.log.String()}
}

func TestBadConfigurationStopsDevWithOneLine(t *testing.T) {
	t.Parallel()
	file := func(name, text string) string {
		f := filepath.Join(t.TempDir(), name)
		write(t, f, text)
		return f
	}
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	damaged := t.TempDir()
	write(t, filepath.Join(damaged, "harness.db"), strings.Repeat("no database", 10000))
	core := "workers: [turn-orchestrator, session, harness, approval-gate, auth-credentials, provider-scripted, shell, demo]\n"
	plain := file("config.yaml", core)
	for _, tt := range []struct {
		name string
		args []string
		want []string
	}{
		{"unknown key", []string{"--config", file("c.yaml", core+"polcy: none\n")}, []string{"c.yaml:2", "polcy", "policy"}},
		{"unknown worker", []string{"--config", file("c.yaml", "workers: [turn-orchestrator, session, harness, shel]\n")}, []string{"c.yaml", "workers[3]", "shel", "shell"}},
		{"missing config", []string{"--config", filepath.Join(damaged, "none.yaml")}, []string{"none.yaml", "does not exist"}},
		{"bad rule", []string{"--config", plain, "--permissions", file("p.yaml", "version: 1\nrules:\n  - {function: a::b, action: maybe}\n")}, []string{"p.yaml", "3", "action", "allow"}},
		{"bad regex", []string{"--config", plain, "--permissions", file("p.yaml", "version: 1\nrules:\n  - {function: a::b, action: allow, args: {x: {matches: \"(\"}}}\n")}, []string{"p.yaml", "3", "matches"}},
		{"missing permissions", []string{"--config", plain, "--permissions", filepath.Join(damaged, "none.yaml")}, []string{"none.yaml"}},
		{"port in use", []string{"--config", plain, "--addr", busy.Addr().String()}, []string{"--addr", "in use"}},
		{"bad shell config", []string{"--config", file("c.yaml", strings.Replace(core, "shell", "{name: shell, config: {rot: x}}", 1))}, []string{"shell", "root"}},
		{"corrupt data", []string{"--config", plain, "--data", damaged}, []string{"harness.db", "--data"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := tt.args
			if !strings.Contains(strings.Join(args, " "), "--data") {
				args = append(args, "--data", t.TempDir())
			}
			a := devFails(t, args...)
			if a.code != exitFailed || a.stdout != "" {
				t.Fatalf("exit %d, stdout %q, stderr %s", a.code, a.stdout, a.stderr)
			}
			var errorLine string
			for _, l := range strings.Split(a.stderr, "\n") {
				if strings.HasPrefix(l, "error: ") || strings.HasPrefix(l, "hint: ") {
					errorLine += l
				}
			}
			for _, w := range tt.want {
				if !strings.Contains(errorLine, w) {
					t.Errorf("%q does not say %q", errorLine, w)
				}
			}
			if strings.Count(a.stderr, "error: ") != 1 {
				t.Errorf("more than one line: %s", a.stderr)
			}
		})
	}
}

func TestUnwritableDataFolder(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	write(t, file, "x")
	if a := devFails(t, "--data", filepath.Join(file, "data")); a.code != exitFailed || !strings.Contains(a.stderr, "--data") {
		t.Errorf("%+v", a)
	}
}

func TestSecondServerOnTheSameDataNamesTheFirst(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startDev(t, dir)
	a := devFails(t, "--config", filepath.Join(dir, "config.yaml"), "--data", s.ready.Data)
	if a.code != exitFailed || !strings.Contains(a.stderr, "data_in_use") {
		t.Errorf("%+v", a)
	}
	s.want(exitDone, "turn", "hello") // the first is unharmed
}

func TestDevDrainsAndRemovesItsFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startDev(t, dir)
	session, call := parked(t, s, "run touch later")
	if info, err := os.Stat(filepath.Join(s.ready.Data, readyFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("dev.json: %v, %v", info, err)
	}
	if code := s.end(); code != exitDone {
		t.Errorf("exit %d, want 0\n%s", code, s.log)
	}
	if _, err := os.Stat(filepath.Join(s.ready.Data, readyFile)); !os.IsNotExist(err) {
		t.Errorf("dev.json is still there: %v", err)
	}
	again := startDev(t, dir)
	again.want(exitDone, "approve", session, call)
	ended(t, again, session)
	if _, err := os.Stat(filepath.Join(again.dir, "later")); err != nil {
		t.Errorf("the call did not run after the restart: %v", err)
	}
}
