package main

import (
	"strings"
	"testing"
	"time"
)

// TestTurnIsWatchedAcrossARestart: the server that comes back has another port
// and another token, and the one who watches sees the whole answer.
func TestTurnIsWatchedAcrossARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := startDev(t, dir)
	words := strings.Repeat("word ", 500) + "end"
	p := first.person("turn", "say slowly: "+words)
	p.sees("word word")
	if code := first.end(); code != exitDone {
		t.Fatalf("dev ended with %d", code)
	}
	p.sees("connection lost, reconnecting")
	second := startDev(t, dir)
	if second.ready.Token == first.ready.Token {
		t.Fatal("the token is the same")
	}
	select {
	case code := <-p.done:
		if code != exitDone || !strings.HasSuffix(strings.TrimSpace(p.out.String()), " end") {
			t.Errorf("turn ended with %d\n%s\n%s", code, p.out, p.err)
		}
	case <-time.After(50 * time.Second):
		t.Fatalf("the turn is not seen to end\nstdout: %s\nstderr: %s\n%s", p.out, p.err, second.log)
	}
}

// TestRefusedTokenEndsAWatch: one that was given, and that the server does not
// know any more.
func TestRefusedTokenEndsAWatch(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := startDev(t, dir)
	session, _ := parked(t, first, "run true")
	p := first.person("events", session, "--follow", "--token", first.ready.Token)
	p.sees("function_awaiting_approval")
	first.end()
	p.sees("connection lost")
	startDev(t, dir, "--addr", first.address(t))
	select {
	case code := <-p.done:
		if code != exitUnauthorized {
			t.Errorf("events ended with %d\n%s", code, p.err)
		}
	case <-time.After(50 * time.Second):
		t.Fatalf("it tries for ever\n%s", p.err)
	}
}
