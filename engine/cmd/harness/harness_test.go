package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/iii-aws/harness/engine/clock"
)

// buffer is a bytes.Buffer for several goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// quickRules is the built-in model without its pauses.
func quickRules(t testing.TB) string {
	t.Helper()
	b, err := os.ReadFile("../../../internal/provider/scripted/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	text := strings.Replace(string(b), "delay: 10ms", "delay: 0s", 1)
	text = strings.Replace(text, "delay: 250ms", "delay: 20ms", 1)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// server is a dev that runs in this process.
type server struct {
	t     *testing.T
	dir   string // the working folder of its shell
	ready ready
	env   map[string]string
	stop  context.CancelFunc
	done  chan int
	log   *buffer
}

const testConfig = `
workers:
  - turn-orchestrator
  - session
  - harness
  - approval-gate
  - auth-credentials
  - {name: provider-scripted, config: {rules: RULES}}
  - {name: shell, config: {root: ROOT}}
  - demo
`

// startDev runs dev with the given flags; its data and working folder are in
// dir.
func startDev(t *testing.T, dir string, flags ...string) *server {
	t.Helper()
	s := &server{t: t, dir: filepath.Join(dir, "work"), env: map[string]string{}, done: make(chan int, 1), log: &buffer{}}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	cfg := filepath.Join(dir, "config.yaml")
	if _, err := os.Stat(cfg); err != nil {
		text := strings.NewReplacer("RULES", quickRules(t), "ROOT", s.dir).Replace(testConfig)
		if err := os.WriteFile(cfg, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	out, in := io.Pipe()
	env := s.environment(nil, in)
	env.signals = func(context.Context) (context.Context, context.CancelFunc) { return ctx, cancel }
	args := devArgs(t, dir, flags...)
	go func() {
		s.done <- run(ctx, args, env)
		in.Close()
	}()
	lines := bufio.NewReader(out)
	first, err := lines.ReadString('\n')
	if err != nil || !strings.HasPrefix(first, "ready ") {
		t.Fatalf("dev said %q, %v\n%s", first, err, s.log)
	}
	if err := json.Unmarshal([]byte(strings.TrimPrefix(first, "ready ")), &s.ready); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	t.Cleanup(func() { s.end() })
	return s
}

// devArgs run dev on a folder, in the mode of this run.
func devArgs(t testing.TB, dir string, flags ...string) []string {
	t.Helper()
	args := []string{"dev", "--addr", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data", filepath.Join(dir, "data"), "--config", filepath.Join(dir, "config.yaml")}
	return append(append(args, modeFlags(t)...), flags...)
}

// end stops the server and gives its exit code.
func (s *server) end() int {
	s.stop()
	select {
	case code := <-s.done:
		s.done <- code
		return code
	case <-time.After(20 * time.Second):
		s.t.Errorf("dev did not end\n%s", s.log)
		return -1
	}
}

func (s *server) environment(stdin io.Reader, stdout io.Writer) environment {
	if stdin == nil {
		stdin = strings.NewReader("")
	}
	return environment{
		stdin: stdin, stdout: stdout, stderr: s.log, getenv: func(k string) string { return s.env[k] }, environ: os.Environ,
		clock: clock.System(), ids: clock.Random(),
		signals: func(ctx context.Context) (context.Context, context.CancelFunc) { return context.WithCancel(ctx) },
	}
}

// answer is what a command said.
type answer struct {
	code           int
	stdout, stderr string
}

// harness runs a client command against the server.
func (s *server) harness(args ...string) answer { return s.harnessIn("", args...) }

func (s *server) harnessIn(stdin string, args ...string) answer {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var out, errs buffer
	env := s.environment(strings.NewReader(stdin), &out)
	env.stderr = &errs
	code := run(ctx, append(args, "--data", s.ready.Data), env)
	return answer{code, out.String(), errs.String()}
}

// want fails unless a command ends with a code.
func (s *server) want(code int, args ...string) answer {
	s.t.Helper()
	a := s.harness(args...)
	if a.code != code {
		s.t.Fatalf("harness %s: exit %d, want %d\nstdout: %s\nstderr: %s\nlog: %s", strings.Join(args, " "), a.code, code, a.stdout, a.stderr, s.log)
	}
	return a
}

// lines is JSON lines as objects.
func jsonLines[T any](t *testing.T, text string) []T {
	t.Helper()
	var out []T
	dec := json.NewDecoder(strings.NewReader(text))
	for dec.More() {
		var v T
		if err := dec.Decode(&v); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		out = append(out, v)
	}
	return out
}

// last is the last line of turn --json.
func last(t *testing.T, a answer) summary {
	t.Helper()
	rows := strings.Split(strings.TrimSpace(a.stdout), "\n")
	var s summary
	if err := json.Unmarshal([]byte(rows[len(rows)-1]), &s); err != nil {
		t.Fatalf("%v in %s", err, a.stdout)
	}
	return s
}
