package main

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestNothingIsHiddenFromWhoeverDecides: not behind a long option, not in white
// space.
func TestNothingIsHiddenFromWhoeverDecides(t *testing.T) {
	t.Parallel()
	s := startDev(t, t.TempDir())
	hidden := "true --option   " + strings.Repeat("a", 720) + "; touch HIDDEN"
	a := s.want(exitParked, "turn", "run "+hidden)
	if !strings.Contains(a.stderr, hidden) {
		t.Errorf("turn shows %s", a.stderr)
	}
	if a := s.want(exitDone, "approvals"); !strings.Contains(a.stdout, hidden) {
		t.Errorf("approvals shows %s", a.stdout)
	}
	rows := jsonLines[struct{ Args json.RawMessage }](t, s.want(exitDone, "approvals", "--json").stdout)
	if len(rows) != 1 || !strings.Contains(string(rows[0].Args), hidden) {
		t.Errorf("approvals --json gives %s", rows)
	}
	p := s.person("chat")
	p.types("run " + hidden)
	p.sees("waiting for you: shell::exec")
	p.sees(hidden)
	secret := s.want(exitDone, "token", "create", "--role", "approver", "--sessions", "*").stdout
	if a := s.want(exitDone, "approvals", "--token", strings.TrimSpace(secret)); strings.Count(a.stdout, hidden) != 2 {
		t.Errorf("an approver sees %s", a.stdout)
	}
	p.types("/abort")
	p.leaves()
}

func TestLongArgumentsAreCutAloud(t *testing.T) {
	t.Parallel()
	a := &app{environment: environment{program: "./harness"}}
	for size, more := range map[int]string{decisionLimit: "", decisionLimit + 5: "(5 more bytes: ./harness call turn::get_state '{\"session_id\":\"s1\"}')"} {
		got := a.decisionArgs("s1", json.RawMessage(strings.Repeat("a", size)))
		if !strings.HasSuffix(got, more) || (more == "") != (len(got) == size) {
			t.Errorf("%d bytes end in %q", size, got[len(got)-80:])
		}
	}
	if got := a.decisionArgs("s1", json.RawMessage("a"+strings.Repeat("é", decisionLimit))); !utf8.ValidString(got) {
		t.Error("a character is cut in two")
	}
}

func TestNameOfTheProgram(t *testing.T) {
	t.Parallel()
	for called, want := range map[string]string{"": "harness", "./harness": "./harness", "harness": "harness", "bin/harness": "bin/harness", "/tmp/go-build1/exe/harness": "harness", "./a b": "harness"} {
		if got := (environment{program: called}).name(); got != want {
			t.Errorf("%q is named %q, want %q", called, got, want)
		}
	}
}

func TestSmallWordsOfTheCommandLine(t *testing.T) {
	t.Parallel()
	s := startDev(t, t.TempDir())
	for _, tt := range []struct {
		code int
		args []string
		says string
		not  string
	}{
		{exitDone, []string{"--version"}, "harness " + version, ""},
		{exitUsage, []string{"aprove"}, "did you mean approve?", ""},
		{exitUsage, []string{"call"}, "FUNCTION_ID", "usage: usage:"},
		{exitDone, []string{"turn", "--help"}, "off, minimal, low, medium, high or xhigh", ""},
		{exitDone, []string{"token", "create", "--role", "approver"}, "sees no session", ""},
	} {
		a := s.want(tt.code, tt.args...)
		said := a.stdout + a.stderr
		if !strings.Contains(said, tt.says) || tt.not != "" && strings.Contains(said, tt.not) {
			t.Errorf("%v says %s", tt.args, said)
		}
	}
}
