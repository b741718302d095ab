package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/client"
	"github.com/iii-aws/harness/internal/agent"
	"github.com/iii-aws/harness/internal/config"
)

func TestExplain(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err  error
		code int
		want string
	}{
		{nil, exitDone, ""},
		{exitError(7), 7, ""},
		{usagef("flag %s", "x"), exitUsage, "error: usage: flag x"},
		{&client.ConnectError{URL: "ws://x", Err: errors.New("no")}, exitUnreachable, "error: unreachable:"},
		{&client.ConnectError{URL: "ws://x", Status: 401}, exitUnauthorized, "error: unauthorized:"},
		{&bus.Error{Code: "FORBIDDEN", Message: "m"}, exitUnauthorized, "error: FORBIDDEN: m"},
		{&bus.Error{Code: "x", Message: "two\nlines with sk-CANARY-7f3a"}, exitFailed, "error: x: two lines with [REDACTED]"},
		{errors.New("plain"), exitFailed, "error: invocation_failed: plain"},
	} {
		var out buffer
		e := environment{stderr: &out}
		if got := e.report(t.Context(), tt.err); got != tt.code || !strings.Contains(out.String(), tt.want) || strings.Count(out.String(), "error:") > 1 {
			t.Errorf("%v: exit %d, %s", tt.err, got, out.String())
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := (environment{}).report(ctx, context.Canceled); got != exitInterrupted {
		t.Errorf("an interrupt ends with %d", got)
	}
	for _, err := range []error{exitError(3), usagef("x"), &failure{code: "c", message: "m"}} {
		if err.Error() == "" {
			t.Errorf("%T has no text", err)
		}
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{"already_decided": "ann was first: approved", "not_found": "no such call", "resume_failed": "nothing was decided", "invalid_payload": "was not stored"} {
		err := refused(decisionAnswer{Error: code, Decision: agent.DecisionAllow, DecidedBy: "ann"}, "s1")
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", code, err)
		}
	}
	if past("aborted") != "aborted" {
		t.Error("past is wrong")
	}
}

func TestWhichModel(t *testing.T) {
	t.Chdir(t.TempDir())
	a := &app{}
	for _, tt := range []struct {
		name string
		fl   turnFlags
		dev  *ready
		file string
		want string
	}{
		{"a flag", turnFlags{model: "m"}, nil, "", "m"},
		{"the server's", turnFlags{}, &ready{Provider: "p", Models: map[string]string{"p": "pm"}}, "", "pm"},
		{"scripted has one", turnFlags{provider: "Scripted"}, nil, "", "scripted-1"},
		{"the file's", turnFlags{provider: "x"}, nil, "default_model: {x: xm}\n", "xm"},
		{"the file's default provider", turnFlags{}, nil, "default_provider: x\ndefault_model: {x: xm}\n", "xm"},
		{"a bad file", turnFlags{}, nil, "defaults: x\n", ""},
		{"none", turnFlags{provider: "y"}, &ready{}, "", ""},
		{"nobody", turnFlags{}, nil, "", ""},
	} {
		if tt.file != "" {
			write(t, "config.yaml", tt.file)
		} else if err := os.RemoveAll("config.yaml"); err != nil {
			t.Fatal(err)
		}
		got, err := a.model(tt.fl, tt.dev)
		if got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%s: %q, %v; want %q", tt.name, got, err, tt.want)
		}
		if err != nil && tt.file == "" && !strings.Contains(err.Error(), "model_required") {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func TestJSONAnswers(t *testing.T) {
	t.Parallel()
	s := startDev(t, t.TempDir())
	session, call := parked(t, s, "run true")
	busy := last(t, s.want(exitBusy, "turn", "hi", "--session", session, "--json"))
	if busy.Outcome != outcomeBusy {
		t.Errorf("busy: %+v", busy)
	}
	s.want(exitBusy, "turn", "hi", "--session", session, "--no-wait")
	if a := s.want(exitDone, "approve", session, call, "--json"); strings.TrimSpace(a.stdout) != `{"ok":true}` {
		t.Errorf("approve: %s", a.stdout)
	}
	ended(t, s, session)
	if a := s.want(exitFailed, "approve", session, call, "--json"); !strings.Contains(a.stdout, "already_decided") {
		t.Errorf("approve: %s", a.stdout)
	}
	if a := s.want(exitDone, "abort", session, "--json"); !strings.Contains(a.stdout, `"aborted":false`) {
		t.Errorf("abort: %s", a.stdout)
	}
	if a := s.want(exitDone, "workers"); !strings.Contains(a.stdout, "demo") {
		t.Errorf("workers: %s", a.stdout)
	}
	for _, args := range [][]string{{"sessions", "--json"}, {"functions", "--json"}, {"token", "list", "--json"}, {"version", "--json"}, {"workers", "--json"}} {
		jsonLines[map[string]any](t, s.want(exitDone, args...).stdout)
	}
	made := jsonLines[map[string]any](t, s.want(exitDone, "token", "create", "--role", "worker", "--register", "x::*", "--json").stdout)
	id, _ := made[0]["id"].(string)
	if a := s.want(exitDone, "token", "revoke", id, "--json"); strings.TrimSpace(a.stdout) != `{"revoked":true}` {
		t.Errorf("revoke: %s", a.stdout)
	}
	for _, group := range []string{"session", "token"} {
		if a := s.want(exitDone, group); !strings.Contains(a.stdout, "Usage") {
			t.Errorf("%s: %s", group, a.stdout)
		}
	}
}

func TestDuplicateOfAParkedTurnIsParked(t *testing.T) {
	t.Parallel()
	s := startDev(t, t.TempDir())
	first := last(t, s.want(exitParked, "turn", "run true", "--message-id", "m1", "--json"))
	again := last(t, s.want(exitParked, "turn", "run true", "--message-id", "m1", "--session", first.SessionID, "--json"))
	if len(again.AwaitingApproval) != 1 || again.AwaitingApproval[0].FunctionCallID != first.AwaitingApproval[0].FunctionCallID {
		t.Errorf("again %+v", again)
	}
	if a := s.harness("turn", "run true", "--message-id", "m1", "--session", first.SessionID); !strings.Contains(a.stderr, "harness approve") {
		t.Errorf("again: %s", a.stderr)
	}
	s.want(exitDone, "deny", first.SessionID, first.AwaitingApproval[0].FunctionCallID)
	ended(t, s, first.SessionID)
	s.want(exitDone, "turn", "run true", "--message-id", "m1", "--session", first.SessionID)
}

func TestStreamOverride(t *testing.T) {
	t.Parallel()
	s := startDev(t, t.TempDir())
	c := dial(t, s)
	c.Handle("stream::get(mine)", bus.Raw(func(context.Context, *bus.Call) (json.RawMessage, error) {
		return json.RawMessage(`"from a worker"`), nil
	}))
	const get = `{"stream_name":"mine","group_id":"g","item_id":"i"}`
	for {
		if a := s.want(exitDone, "call", "stream::get", get); strings.Contains(a.stdout, "from a worker") {
			break
		}
	}
	if a := s.want(exitDone, "call", "stream::get", strings.Replace(get, "mine", "other", 1)); strings.TrimSpace(a.stdout) != "null" {
		t.Errorf("another stream: %s", a.stdout)
	}
}

func TestDamagedDevFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, readyFile), "{")
	s := &server{t: t, env: map[string]string{}, log: &buffer{}, ready: ready{Data: dir}}
	if a := s.harness("sessions"); a.code != exitFailed || !strings.Contains(a.stderr, "bad_dev_file") {
		t.Errorf("%+v", a)
	}
}

func TestPolicyNone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "work"), 0o700); err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("RULES", quickRules(t), "ROOT", filepath.Join(dir, "work")).Replace(testConfig)
	write(t, filepath.Join(dir, "config.yaml"), text+"policy: none\ntelemetry: {log_level: debug}\nqueues: {mail: {}}\n")
	s := startDev(t, dir)
	if a := s.want(exitDone, "turn", "run echo nobody asked"); !strings.Contains(a.stdout, "nobody asked") {
		t.Errorf("answer: %s", a.stdout)
	}
	if a := s.want(exitDone, "call", "demo::time", "--queue", "mail"); !strings.Contains(a.stdout, "messageReceiptId") {
		t.Errorf("queue: %s", a.stdout)
	}
	if !strings.Contains(s.log.String(), "policy: none") {
		t.Error("the log does not say that nobody is asked")
	}
}

func TestCredentialFile(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, config, home, want string }{
		{"the config's", `{"store_path":"/etc/keys.json"}`, "/home/x", "/etc/keys.json"},
		{"at home", "", "/home/x", "/home/x/.harness/credentials.json"},
		{"beside the data", "", "", "/data/credentials.json"},
		{"a mistake", `{"path":"/x"}`, "/home/x", ""},
	} {
		s := &stack{stackOptions: stackOptions{data: "/data", getenv: func(string) string { return tt.home }}}
		s.config.Workers = []config.Worker{{Name: "auth-credentials", Config: json.RawMessage(tt.config)}}
		if got, err := s.credentialFile(); got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%s: %q, %v", tt.name, got, err)
		}
	}
}

func TestKeysOfAProviderNeverReachTheShell(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "work"), 0o700); err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("RULES", quickRules(t), "ROOT", dir).Replace(testConfig)
	text = strings.Replace(text, "  - auth-credentials", "  - {name: auth-credentials, config: {store_path: "+filepath.Join(dir, "keys", "k.json")+"}}", 1)
	write(t, filepath.Join(dir, "config.yaml"), text)
	s := startDev(t, dir)
	s.want(exitDone, "call", "auth::set_token", `{"provider":"openai","credential":{"type":"api_key","key":"sk-CANARY-7f3a"}}`)
	for _, path := range []string{"keys/k.json", "data/harness.db", "work/../keys/k.json"} {
		if a := s.want(exitDone, "turn", "read "+path); strings.Contains(a.stdout, "CANARY") || !strings.Contains(a.stdout, "belongs to the harness") {
			t.Errorf("%s: %s", path, a.stdout)
		}
	}
	if a := s.want(exitDone, "call", "auth::status", `{"provider":"openai"}`); strings.Contains(a.stdout, "CANARY") || !strings.Contains(a.stdout, `"stored"`) {
		t.Errorf("status: %s", a.stdout)
	}
	if strings.Contains(s.log.String(), "CANARY") {
		t.Error("the key is in the log")
	}
}
