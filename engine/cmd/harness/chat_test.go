package main

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// person sits at a terminal and types.
type person struct {
	t    *testing.T
	in   *io.PipeWriter
	out  *buffer
	err  *buffer
	done chan int
}

func (s *server) person(args ...string) *person {
	s.t.Helper()
	r, w := io.Pipe()
	p := &person{t: s.t, in: w, out: &buffer{}, err: &buffer{}, done: make(chan int, 1)}
	env := s.environment(r, p.out)
	env.stderr, env.terminal = p.err, true
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	s.t.Cleanup(func() {
		cancel()
		_ = w.Close()
	})
	go func() { p.done <- run(ctx, append(args, "--data", s.ready.Data), env) }()
	return p
}

func (p *person) types(line string) {
	p.t.Helper()
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		p.t.Fatal(err)
	}
}

// sees waits until a text stands on the screen.
func (p *person) sees(text string) {
	p.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !strings.Contains(p.out.String()+p.err.String(), text); {
		if time.Now().After(deadline) {
			p.t.Fatalf("never saw %q\nstdout: %s\nstderr: %s", text, p.out, p.err)
		}
		time.Sleep(5 * time.Millisecond) // the screen has no signal
	}
}

func (p *person) leaves() {
	p.t.Helper()
	p.types("/quit")
	if code := <-p.done; code != exitDone {
		p.t.Errorf("chat ended with %d\n%s", code, p.err)
	}
}

func TestChatApprovesInPlace(t *testing.T) {
	t.Parallel()
	s := startDev(t, t.TempDir())
	p := s.person("chat")
	p.types("run touch one")
	p.sees("waiting for you: shell::exec")
	p.types("/approve")
	p.sees("The command answered")
	if _, err := os.Stat(filepath.Join(s.dir, "one")); err != nil {
		t.Error(err)
	}
	p.types("run touch two")
	p.sees("touch two")
	p.types("/deny nonsense not today")
	p.sees("no such call waits")
	p.types("/abort")
	p.types("/help")
	p.sees("refuse it")
	p.types("/what")
	p.sees("unknown command /what")
	p.leaves()
}

func TestChatSteersARunningTurn(t *testing.T) {
	t.Parallel()
	s := startDev(t, t.TempDir())
	p := s.person("chat")
	p.types("run sleep 1; echo slow")
	p.sees("/approve call_")
	p.types("/approve")
	p.sees("-> shell::exec")
	p.types("and now something else")
	p.sees("You said: and now something else")
	p.types("fail with permanent")
	p.sees("error: permanent")
	p.types("hello again")
	p.sees("You said: hello again")
	p.leaves()
}

// TestFollowerResumesAfterARestart watches a session while the server goes
// away and comes back.
func TestFollowerResumesAfterARestart(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	const token = "a-token-for-this-test-only"
	s := startDev(t, dir, "--addr", addr, "--token", token)
	session, call := parked(t, s, "run touch three")
	p := s.person("events", session, "--follow", "--json", "--token", token)
	p.sees("function_awaiting_approval")
	s.end()
	again := startDev(t, dir, "--addr", addr, "--token", token)
	again.want(exitDone, "approve", session, call)
	p.sees(`"agent_end"`)
	rows := jsonLines[line](t, p.out.String())
	next := int64(0)
	for _, r := range rows {
		if r.Seq == nil {
			continue
		}
		if *r.Seq != next {
			t.Fatalf("sequence %d, want %d", *r.Seq, next)
		}
		next++
	}
}

// TestPersonSeesWhatAWriteChanges: before it is done.
func TestPersonSeesWhatAWriteChanges(t *testing.T) {
	t.Parallel()
	s := startDev(t, t.TempDir())
	file := filepath.Join(s.dir, "plan.txt")
	write(t, file, "old plan\n")
	p := s.person("chat")
	p.types("write plan.txt new plan")
	p.sees("waiting for you: shell::fs::write")
	for _, line := range []string{"  --- a/plan.txt", "  -old plan", "  +new plan"} {
		p.sees(line)
	}
	if a := s.want(exitDone, "approvals"); !strings.Contains(a.stdout, "\n  -old plan\n  +new plan\n") {
		t.Errorf("approvals show %s", a.stdout)
	}
	p.types("/approve")
	p.sees("Written:")
	if b, err := os.ReadFile(file); err != nil || string(b) != "new plan\n" {
		t.Errorf("the file is %q, %v", b, err)
	}
	p.leaves()
}

// TestAgentsDoNotWriteTheRules: neither the policy nor the configuration.
func TestAgentsDoNotWriteTheRules(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	work := filepath.Join(dir, "work")
	if err := os.Mkdir(work, 0o700); err != nil {
		t.Fatal(err)
	}
	rules := filepath.Join(work, "rules.yaml")
	write(t, rules, "version: 1\nrules: [\"shell::fs::*\"]\n")
	s := startDev(t, dir, "--permissions", rules)
	if err := os.Link(filepath.Join(dir, "config.yaml"), filepath.Join(work, "config.yaml")); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"rules.yaml", "config.yaml"} {
		err := call(t.Context(), dial(t, s), "shell::fs::write", map[string]string{"path": file, "content": "x"}, nil)
		if err == nil || !strings.Contains(err.Error(), "only people change it") {
			t.Errorf("%s: error = %v", file, err)
		}
	}
}
