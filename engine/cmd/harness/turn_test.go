package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/iii-aws/harness/internal/agent"
)

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestTurnQuotesTheRealResults(t *testing.T) {
	t.Parallel()
	s := startDev(t, t.TempDir())
	const prompt = "what time is it, and list the files here"
	write(t, filepath.Join(s.dir, "alpha.txt"), "a")
	first := s.want(exitDone, "turn", prompt)
	if !strings.Contains(first.stdout, "alpha.txt") || !strings.Contains(first.stdout, "The time is 20") {
		t.Errorf("answer: %s", first.stdout)
	}
	if !strings.Contains(first.stderr, "-> demo::time") || !strings.Contains(first.stderr, "-> shell::fs::ls") {
		t.Errorf("calls: %s", first.stderr)
	}
	write(t, filepath.Join(s.dir, "beta.txt"), "b")
	second := s.want(exitDone, "turn", prompt)
	if !strings.Contains(second.stdout, "beta.txt") {
		t.Errorf("the answer did not change with the folder: %s", second.stdout)
	}
}

func TestTurnThatNoRuleKnowsQuotesThePrompt(t *testing.T) {
	t.Parallel()
	s := startDev(t, t.TempDir())
	if a := s.want(exitDone, "turn", "hello", "wörld"); !strings.Contains(a.stdout, "hello wörld") {
		t.Errorf("answer: %s", a.stdout)
	}
	if a := s.harnessIn("from stdin", "turn", "-"); a.code != 0 || !strings.Contains(a.stdout, "from stdin") {
		t.Errorf("answer: %+v", a)
	}
}

// parked runs a turn that waits for a person and gives session and call.
func parked(t *testing.T, s *server, prompt string) (session, call string) {
	t.Helper()
	sum := last(t, s.want(exitParked, "turn", prompt, "--json"))
	if sum.Outcome != outcomeParked || len(sum.AwaitingApproval) != 1 {
		t.Fatalf("summary %+v", sum)
	}
	return sum.SessionID, sum.AwaitingApproval[0].FunctionCallID
}

func TestApproveLetsTheCallRunOnce(t *testing.T) {
	t.Parallel()
	s := startDev(t, t.TempDir())
	session, call := parked(t, s, "run echo x >> ran; ls -la")
	if _, err := os.Stat(filepath.Join(s.dir, "ran")); err == nil {
		t.Fatal("the call ran before it was approved")
	}
	if a := s.want(exitDone, "approvals", "--json"); !strings.Contains(a.stdout, call) {
		t.Errorf("approvals: %s", a.stdout)
	}
	if a := s.want(exitDone, "approvals"); !strings.Contains(a.stdout, "harness approve "+session+" "+call) {
		t.Errorf("approvals: %s", a.stdout)
	}
	s.want(exitBusy, "turn", "hi", "--session", session)
	s.want(exitDone, "approve", session, call)
	ended(t, s, session)
	b, err := os.ReadFile(filepath.Join(s.dir, "ran"))
	if err != nil || string(b) != "x\n" {
		t.Errorf("ran %q, %v", b, err)
	}
	late := s.want(exitFailed, "deny", session, call)
	if !strings.Contains(late.stderr, "already_decided") || !strings.Contains(late.stderr, "local") {
		t.Errorf("late decision: %s", late.stderr)
	}
	if a := s.want(exitDone, "approvals"); a.stdout != "" {
		t.Errorf("approvals: %s", a.stdout)
	}
	if a := s.want(exitDone, "session", "show", session); !strings.Contains(a.stdout, "shell::exec") {
		t.Errorf("transcript: %s", a.stdout)
	}
}

// ended waits until a session's run has ended, by its events.
func ended(t *testing.T, s *server, session string) []line {
	t.Helper()
	for {
		view := s.want(exitDone, "call", "turn::get_state", fmt.Sprintf(`{"session_id":%q}`, session))
		var v agent.TurnStateView
		if err := json.Unmarshal([]byte(view.stdout), &v); err != nil {
			t.Fatal(err)
		}
		if v.State != "stopped" && v.State != "failed" {
			continue // the next call waits for the server
		}
		rows := jsonLines[line](t, s.want(exitDone, "events", session, "--json").stdout)
		if n := len(rows); n > 0 && strings.Contains(string(rows[n-1].Event), `"agent_end"`) {
			return rows
		}
	}
}

func TestDenyTellsTheModel(t *testing.T) {
	t.Parallel()
	s := startDev(t, t.TempDir())
	session, call := parked(t, s, "run touch denied")
	s.want(exitDone, "deny", session, call, "--reason", "not today")
	ended(t, s, session)
	if _, err := os.Stat(filepath.Join(s.dir, "denied")); err == nil {
		t.Error("a denied call ran")
	}
	if a := s.want(exitDone, "session", "show", session); !strings.Contains(a.stdout, "not today") {
		t.Errorf("transcript: %s", a.stdout)
	}
}

func TestEventsHaveNoGap(t *testing.T) {
	t.Parallel()
	s := startDev(t, t.TempDir())
	sum := last(t, s.want(exitDone, "turn", "what time is it", "--json"))
	rows := jsonLines[line](t, s.want(exitDone, "events", sum.SessionID, "--json").stdout)
	for i, r := range rows {
		if r.Seq == nil || *r.Seq != int64(i) {
			t.Fatalf("event %d has sequence %v", i, r.Seq)
		}
	}
	tail := jsonLines[line](t, s.want(exitDone, "events", sum.SessionID, "--json", "--from", "3").stdout)
	if len(tail) != len(rows)-3 || *tail[0].Seq != 3 {
		t.Errorf("%d events from 3, want %d", len(tail), len(rows)-3)
	}
	if a := s.want(exitDone, "events", sum.SessionID); !strings.Contains(a.stdout, "agent_end") {
		t.Errorf("events: %s", a.stdout)
	}
	s.want(exitFailed, "events", "no-such-session")
}

func TestOutcomesHaveTheirExitCodes(t *testing.T) {
	t.Parallel()
	s := startDev(t, t.TempDir())
	for _, tt := range []struct {
		args    []string
		code    int
		outcome string
	}{
		{[]string{"turn", "fail with permanent"}, exitTurnError, outcomeError},
		{[]string{"turn", "fail with auth_expired"}, exitTurnError, outcomeError},
		{[]string{"turn", "what time is it", "--max-turns", "1"}, exitLimit, outcomeLimit},
		{[]string{"turn", "hello"}, exitDone, outcomeEnded},
		{[]string{"turn", "close without an end"}, exitTurnError, outcomeError},
	} {
		sum := last(t, s.harness(append(tt.args, "--json")...))
		if sum.Outcome != tt.outcome {
			t.Errorf("%v: outcome %q, want %q", tt.args, sum.Outcome, tt.outcome)
		}
		if a := s.harness(tt.args...); a.code != tt.code {
			t.Errorf("%v: exit %d, want %d: %s", tt.args, a.code, tt.code, a.stderr)
		}
	}
}

func TestSameMessageRunsOnce(t *testing.T) {
	t.Parallel()
	s := startDev(t, t.TempDir())
	sum := last(t, s.want(exitDone, "turn", "hello", "--message-id", "m1", "--json"))
	again := s.want(exitDone, "turn", "hello", "--message-id", "m1", "--session", sum.SessionID, "--json")
	if got := last(t, again); got.Outcome != outcomeEnded || !strings.Contains(again.stderr, "accepted before") {
		t.Errorf("again: %+v, %s", got, again.stderr)
	}
	if a := s.want(exitDone, "session", "show", sum.SessionID, "--json"); strings.Count(a.stdout, "\n") != 2 {
		t.Errorf("transcript: %s", a.stdout)
	}
}

func TestAbort(t *testing.T) {
	t.Parallel()
	s := startDev(t, t.TempDir())
	session, _ := parked(t, s, "run touch aborted")
	if a := s.want(exitDone, "abort", session); !strings.Contains(a.stdout, "aborted") {
		t.Errorf("abort: %s", a.stdout)
	}
	ended(t, s, session)
	if a := s.want(exitDone, "abort", session); !strings.Contains(a.stdout, "nothing ran") {
		t.Errorf("abort: %s", a.stdout)
	}
}

func TestNoWait(t *testing.T) {
	t.Parallel()
	s := startDev(t, t.TempDir())
	session := strings.TrimSpace(s.want(exitDone, "turn", "hello", "--no-wait").stdout)
	ended(t, s, session)
	st := jsonLines[started](t, s.want(exitDone, "turn", "hello", "--no-wait", "--json", "--session", session).stdout)
	if len(st) != 1 || !st[0].Started || st[0].SessionID != session {
		t.Errorf("started %+v", st)
	}
}

func TestChat(t *testing.T) {
	t.Parallel()
	s := startDev(t, t.TempDir())
	a := s.harnessIn("hello\nwhat time is it\n/help\n/unknown\n", "chat")
	if a.code != exitDone || !strings.Contains(a.stdout, "You said: hello") || !strings.Contains(a.stdout, "The time is") {
		t.Errorf("chat: %+v", a)
	}
	if a := s.harnessIn("run ls\n", "chat"); a.code != exitParked || !strings.Contains(a.stderr, "harness approve") {
		t.Errorf("chat that parks: %+v", a)
	}
	if a := s.harnessIn("/quit\nhello\n", "chat"); a.code != exitDone || strings.Contains(a.stdout, "hello") {
		t.Errorf("chat that quits: %+v", a)
	}
}

func TestSessionsAndLists(t *testing.T) {
	t.Parallel()
	s := startDev(t, t.TempDir())
	sum := last(t, s.want(exitDone, "turn", "hello", "--json"))
	ended(t, s, sum.SessionID)
	if a := s.want(exitDone, "sessions"); !strings.Contains(a.stdout, sum.SessionID) {
		t.Errorf("sessions: %s", a.stdout)
	}
	if a := s.want(exitDone, "functions", "demo::"); !strings.Contains(a.stdout, "demo::time") || strings.Contains(a.stdout, "run::start") {
		t.Errorf("functions: %s", a.stdout)
	}
	if a := s.want(exitDone, "workers", "--json"); !strings.Contains(a.stdout, `"turn-orchestrator"`) {
		t.Errorf("workers: %s", a.stdout)
	}
	if a := s.want(exitDone, "call", "demo::time", `{"time_zone":"Europe/Paris"}`); !strings.Contains(a.stdout, "Europe/Paris") {
		t.Errorf("call: %s", a.stdout)
	}
	if a := s.harnessIn(`{}`, "call", "demo::time", "-"); a.code != 0 {
		t.Errorf("call: %+v", a)
	}
	s.want(exitDone, "call", "demo::time", "--void")
	if a := s.want(exitDone, "call", "demo::time", "--queue", "default"); !strings.Contains(a.stdout, "messageReceiptId") {
		t.Errorf("call --queue: %s", a.stdout)
	}
	if a := s.want(exitFailed, "call", "no::such"); !strings.Contains(a.stderr, "error: function_not_found:") || !strings.Contains(a.stderr, "hint:") {
		t.Errorf("call: %s", a.stderr)
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	s := startDev(t, t.TempDir(), "--require-token")
	secret := strings.TrimSpace(s.want(exitDone, "token", "create", "--role", "client", "--name", "n", "--expires", "1d").stdout)
	if a := s.want(exitDone, "token", "list"); strings.Contains(a.stdout, secret) {
		t.Error("the list shows the secret")
	}
	s.want(exitDone, "turn", "hello", "--token", secret)
	s.want(exitUnauthorized, "call", "state::list_groups", "--token", secret)
	s.want(exitUnauthorized, "turn", "hello", "--token", "hrn_wrong_token_of_nobody")
	rows := jsonLines[struct{ ID string }](t, s.want(exitDone, "token", "list", "--json").stdout)
	s.want(exitDone, "token", "revoke", rows[0].ID)
	s.want(exitFailed, "token", "revoke", rows[0].ID)
	s.want(exitUnauthorized, "turn", "hello", "--token", secret)
}

func TestUsageErrorsNameTheFlag(t *testing.T) {
	t.Parallel()
	s := &server{t: t, env: map[string]string{}, log: &buffer{}, ready: ready{Data: t.TempDir()}}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"turn"}, "TEXT is missing"},
		{[]string{"turn", "x", "--mode", "fast"}, "allowed: plan, ask, agent"},
		{[]string{"turn", "x", "--max-turns", "0"}, "--max-turns must be 1 or more"},
		{[]string{"turn", "x", "--thinking", "hard"}, "--thinking is"},
		{[]string{"turn", "x", "--timeout", "0s"}, "--timeout must be"},
		{[]string{"turn", "x", "--nope"}, "unknown flag: --nope"},
		{[]string{"approve", "s"}, "CALL is missing"},
		{[]string{"approve", "s", "c", "d"}, `unexpected argument "d"`},
		{[]string{"events", ""}, "SESSION is empty"},
		{[]string{"events", "s", "--from", "-1"}, "--from must be"},
		{[]string{"call", "a::b", "{"}, "not valid JSON"},
		{[]string{"call", "a::b", "--void", "--queue", "q"}, "exclude each other"},
		{[]string{"token", "create", "--role", "king"}, "allowed: client, approver, operator, worker"},
		{[]string{"token", "create", "--role", "client", "--expires", "soon"}, "--expires"},
		{[]string{"token", "nope"}, "allowed: token create"},
		{[]string{"session", "nope"}, "allowed: session show"},
		{[]string{"nope"}, "unknown command"},
		{[]string{"sessions", "--limit", "0"}, "--limit must be"},
		{[]string{"functions", "a", "b"}, "unexpected argument"},
		{[]string{"dev", "--token", "short"}, "at least 16"},
	} {
		a := s.harness(tt.args...)
		if a.code != exitUsage || !strings.Contains(a.stderr, tt.want) {
			t.Errorf("%v: exit %d, %s; want %d with %q", tt.args, a.code, a.stderr, exitUsage, tt.want)
		}
	}
	if a := s.harness("sessions"); a.code != exitUnreachable || !strings.Contains(a.stderr, "harness dev") {
		t.Errorf("no server: %+v", a)
	}
	if a := s.harness("sessions", "--url", "ws://127.0.0.1:1/"); a.code != exitUnreachable {
		t.Errorf("wrong server: %+v", a)
	}
	if a := s.harness("help", "turn"); a.code != exitDone || !strings.Contains(a.stdout, "--session") {
		t.Errorf("help: %+v", a)
	}
	if a := s.harness("version"); a.code != exitDone || !strings.Contains(a.stdout, version) {
		t.Errorf("version: %+v", a)
	}
}

// TestTerminalIsSafe: what a model says is shown, not obeyed.
func TestTerminalIsSafe(t *testing.T) {
	t.Parallel()
	s := startDev(t, t.TempDir())
	a := s.want(exitDone, "turn", "evil \x1b]0;title\x07")
	if strings.Contains(a.stdout, "\x1b") || !strings.Contains(a.stdout, `\u001b]0;title\u0007`) {
		t.Errorf("stdout %q", a.stdout)
	}
}

// TestApproveAndRemember: the very same call does not ask again, until the
// grant is revoked.
func TestApproveAndRemember(t *testing.T) {
	t.Parallel()
	s := startDev(t, t.TempDir())
	session, call := parked(t, s, "run echo hi")
	s.want(exitDone, "approve", session, call, "--remember")
	ended(t, s, session)
	a := s.want(exitDone, "grants", session)
	hash, _, _ := strings.Cut(a.stdout, " ")
	if !strings.Contains(a.stdout, "shell::exec") || !strings.Contains(a.stdout, "echo hi") {
		t.Errorf("grants: %q", a.stdout)
	}
	s.want(exitDone, "turn", "--session", session, "run echo hi")
	s.want(exitParked, "turn", "run echo hi") // another session
	s.want(exitDone, "grants", session, "--revoke", hash)
	s.want(exitFailed, "grants", session, "--revoke", hash)
	s.want(exitParked, "turn", "--session", session, "run echo hi")
}
