package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestRevokedTokenEndsAWatch: nobody makes another one for it.
func TestRevokedTokenEndsAWatch(t *testing.T) {
	t.Parallel()
	s := startDev(t, t.TempDir())
	session, _ := parked(t, s, "run touch one")
	var made struct{ ID, Token string }
	a := s.want(exitDone, "token", "create", "--role", "operator", "--json")
	if err := json.Unmarshal([]byte(a.stdout), &made); err != nil {
		t.Fatal(err)
	}
	p := s.person("events", session, "--follow", "--token", made.Token)
	p.sees("function_awaiting_approval")
	s.want(exitDone, "token", "revoke", made.ID)
	if code := <-p.done; code != exitUnauthorized {
		t.Errorf("exit %d", code)
	}
	if !strings.Contains(p.err.String(), "the server refused the token") || !strings.Contains(p.err.String(), "hint: ") {
		t.Errorf("stderr: %s", p.err)
	}
}
