package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestRulesAreReadAgain: of a running server, when the file changes. A broken
// file leaves the rules that were good.
func TestRulesAreReadAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rules := filepath.Join(dir, "rules.yaml")
	write(t, rules, "version: 1\nrules: [\"shell::*\"]\n")
	s := startDev(t, dir, "--permissions", rules)
	c := dial(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	decides := func(want string) {
		t.Helper()
		for {
			var got struct{ Decision string }
			err := call(ctx, c, "policy::check_permissions", map[string]any{"function_id": "shell::exec", "args": map[string]string{"command": "date"}}, &got)
			if err != nil {
				t.Fatalf("never %s: %v", want, err)
			}
			if got.Decision == want {
				return
			}
		}
	}
	decides("allow")
	replace := func(text string) {
		t.Helper()
		write(t, rules+".new", text)
		if err := os.Rename(rules+".new", rules); err != nil {
			t.Fatal(err)
		}
	}
	replace("version: 1\nrules: [\"!shell::exec\"]\n")
	decides("deny")
	replace("version: 1\nrules: [{function: 7}]\n")
	for !contains(s.log, "permissions file rejected") {
		if ctx.Err() != nil {
			t.Fatalf("a broken file is not told of\n%s", s.log)
		}
	}
	decides("deny")
	replace("version: 1\nrules: []\n")
	decides("needs_approval")
}
