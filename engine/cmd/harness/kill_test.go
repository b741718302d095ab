package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/iii-aws/harness/internal/agent"
)

// TestMain lets the test binary be the program, for tests that kill it.
func TestMain(m *testing.M) {
	if os.Getenv("HARNESS_TEST_AS_PROGRAM") == "1" {
		os.Exit(run(context.Background(), os.Args[1:], system()))
	}
	os.Exit(m.Run())
}

// program is a dev in a process of its own.
type program struct {
	*server
	cmd *exec.Cmd
}

func startProgram(t *testing.T, dir string) *program {
	t.Helper()
	p := &program{server: &server{t: t, dir: filepath.Join(dir, "work"), env: map[string]string{}, log: &buffer{}}}
	p.cmd = exec.Command(os.Args[0], devArgs(t, dir)...)
	p.cmd.Env = append(os.Environ(), "HARNESS_TEST_AS_PROGRAM=1", "GOCOVERDIR="+t.TempDir())
	p.cmd.Stderr = p.log
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	first, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || json.Unmarshal([]byte(strings.TrimPrefix(first, "ready ")), &p.ready) != nil {
		t.Fatalf("dev said %q, %v\n%s", first, err, p.log)
	}
	return p
}

func (p *program) kill() {
	p.t.Helper()
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatal(err)
	}
	_ = p.cmd.Wait() // "signal: killed"
}

const killRules = `
rules:
  - when: '^go$'
    calls:
      - {function: "shell::exec", payload: {command: "echo approved >> ran"}}
      - {function: "demo::time"}
    say: "Results: {result}"
    delay: 5ms
`

// TestC_E2E_507_KilledAtTwentyMoments kills dev at moments spread over a turn
// with two parallel calls of which one waits for approval. After a restart the
// turn goes on, whatever the moment.
func TestC_E2E_507_KilledAtTwentyMoments(t *testing.T) {
	const moments = 20
	for i := range moments {
		t.Run(fmt.Sprintf("moment %d", i), func(t *testing.T) { killedAt(t, time.Duration(i)*4*time.Millisecond) })
	}
}

func killedAt(t *testing.T, after time.Duration) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "work"), 0o700); err != nil {
		t.Fatal(err)
	}
	rules := filepath.Join(dir, "rules.yaml")
	write(t, rules, killRules)
	write(t, filepath.Join(dir, "config.yaml"), strings.NewReplacer("RULES", rules, "ROOT", filepath.Join(dir, "work")).Replace(testConfig))

	p := startProgram(t, dir)
	st := jsonLines[started](t, p.want(exitDone, "turn", "go", "--no-wait", "--json").stdout)[0]
	wait(after)
	p.kill()

	p = startProgram(t, dir)
	// The client that lost the reply may always send again.
	again := jsonLines[started](t, p.want(exitDone, "turn", "go", "--no-wait", "--json", "--session", st.SessionID, "--message-id", st.MessageID).stdout)[0]
	if !again.Duplicate {
		t.Fatalf("an accepted message was forgotten: %+v", again)
	}
	call := awaitParked(t, p.server, st.SessionID)
	if b, err := os.ReadFile(filepath.Join(dir, "work", "ran")); err == nil {
		t.Fatalf("the call ran before it was approved: %q", b)
	}
	p.want(exitDone, "approve", st.SessionID, call)
	wait(after)
	p.kill()

	p = startProgram(t, dir)
	rows := ended(t, p.server, st.SessionID)
	checkEvents(t, rows)
	checkRan(t, p.server, filepath.Join(dir, "work", "ran"), st.SessionID)
}

// wait lets a moment pass that nothing signals: the kill is to come in the
// middle of something.
func wait(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
}

// awaitParked waits until the turn waits for a person, as its events tell.
func awaitParked(t *testing.T, s *server, session string) string {
	t.Helper()
	for {
		var v agent.TurnStateView
		if err := json.Unmarshal([]byte(s.want(exitDone, "call", "turn::get_state", fmt.Sprintf(`{"session_id":%q}`, session)).stdout), &v); err != nil {
			t.Fatal(err)
		}
		if v.State == "function_awaiting_approval" {
			return v.AwaitingApproval[0].FunctionCallID
		}
		if v.State == "stopped" || v.State == "failed" {
			t.Fatalf("the turn ended as %+v\n%s", v, s.log)
		}
	}
}

// checkEvents wants no gap, no repeat, and one end.
func checkEvents(t *testing.T, rows []line) {
	t.Helper()
	seen := map[string]int{}
	for i, r := range rows {
		if r.Seq == nil || *r.Seq != int64(i) {
			t.Fatalf("event %d has sequence %v", i, r.Seq)
		}
		var head struct {
			Type string `json:"type"`
			Call string `json:"function_call_id"`
		}
		if err := json.Unmarshal(r.Event, &head); err != nil {
			t.Fatal(err)
		}
		seen[head.Type+" "+head.Call]++
	}
	for what, n := range seen {
		once := strings.HasPrefix(what, agent.EventExecutionStart) || strings.HasPrefix(what, agent.EventExecutionEnd) || strings.HasPrefix(what, agent.EventAgentEnd)
		if once && n != 1 {
			t.Errorf("%s happened %d times", what, n)
		}
	}
}

// checkRan wants the approved call to have run once, or to be told as unknown.
func checkRan(t *testing.T, s *server, file, session string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	runs := bytes.Count(b, []byte("\n"))
	transcript := s.want(exitDone, "session", "show", session, "--json").stdout
	unknown := strings.Contains(transcript, "outcome_unknown")
	if runs > 1 || (runs == 0 && !unknown) {
		t.Errorf("the call ran %d times, unknown: %v\n%s", runs, unknown, transcript)
	}
	if n := strings.Count(transcript, `"role":"function_result"`); n != 2 {
		t.Errorf("%d results in the transcript, want 2\n%s", n, transcript)
	}
}
