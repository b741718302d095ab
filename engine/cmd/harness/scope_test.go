package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/client"
)

// worker is a connection with a token of its own, which may call only the
// given functions.
func worker(ctx context.Context, t *testing.T, s *server, calls ...string) *client.Client {
	t.Helper()
	var made struct {
		Token string `json:"token"`
	}
	err := call(ctx, dial(t, s), "auth::api_tokens::create",
		map[string]any{"role": "worker", "name": "w", "call": calls, "register": []string{"mine::*"}}, &made)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.Dial(ctx, client.Options{URL: s.ready.Bus, Token: made.Token, Name: "w"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// TestNobodyReachesFurtherByWayOfTheBus: what the bus calls later for somebody
// is what that one may call, and no internal function.
func TestNobodyReachesFurtherByWayOfTheBus(t *testing.T) {
	t.Parallel()
	s := startDev(t, t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := call(ctx, dial(t, s), "queue::define", map[string]string{"queue": "jobs"}, nil); err != nil {
		t.Fatal(err)
	}
	limited := worker(ctx, t, s, "engine::*", "mine::*", "demo::*")
	for _, target := range []string{"state::set", "turn::step", "turn::on_dead_letter", "turn::none"} {
		for name, in := range map[string]any{
			"engine::queue::enqueue":   map[string]any{"queue": "jobs", "function_id": target, "data": map[string]string{"scope": "s", "key": "k", "value": "v"}},
			"engine::register_trigger": map[string]any{"trigger_type": "state", "function_id": target, "config": map[string]string{"scope": "x"}},
		} {
			if err := call(ctx, limited, name, in, nil); bus.Code(err) != "FORBIDDEN" {
				t.Errorf("%s of %s: error = %v, want FORBIDDEN", name, target, err)
			}
		}
		by := map[string]any{"trigger_type": "state", "function_id": "demo::time", "config": map[string]string{"condition_function_id": target}}
		if err := call(ctx, limited, "engine::register_trigger", by, nil); bus.Code(err) != "FORBIDDEN" {
			t.Errorf("condition %s: error = %v, want FORBIDDEN", target, err)
		}
	}
	for name, in := range map[string]any{
		"engine::queue::enqueue":   map[string]any{"queue": "jobs", "function_id": "demo::time"},
		"engine::register_trigger": map[string]any{"trigger_type": "state", "function_id": "mine::f", "config": map[string]string{"scope": "x"}},
	} {
		if err := call(ctx, limited, name, in, nil); err != nil {
			t.Errorf("%s of what it may call: %v", name, err)
		}
	}
}

// TestNewQueueIsServedAtOnce: one that is defined while the server runs.
func TestNewQueueIsServedAtOnce(t *testing.T) {
	t.Parallel()
	s := startDev(t, t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c := dial(t, s)
	got := make(chan string, 2)
	w := worker(ctx, t, s)
	w.Handle("mine::job", bus.Endpoint{Handle: func(_ context.Context, call *bus.Call) (json.RawMessage, error) {
		got <- string(call.Data)
		return nil, nil
	}})
	for range 2 { // the second changes its config
		if err := call(ctx, c, "queue::define", map[string]any{"queue": "jobs", "config": map[string]int{"concurrency": 1}}, nil); err != nil {
			t.Fatal(err)
		}
		if err := call(ctx, c, "queue::define", map[string]any{"queue": "jobs", "config": map[string]int{"concurrency": 2}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := call(ctx, c, "engine::queue::enqueue", map[string]any{"queue": "jobs", "function_id": "mine::job", "data": map[string]int{"n": 1}}, nil); err != nil {
		t.Fatal(err)
	}
	select {
	case <-got:
	case <-ctx.Done():
		t.Fatal("the job was not served")
	}
}

// TestShellKeepsOutOfTheFolderOfSecrets: of all of it, not just of the file
// with the credentials.
func TestShellKeepsOutOfTheFolderOfSecrets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	work := filepath.Join(dir, "work")
	secrets := filepath.Join(work, ".harness")
	if err := os.MkdirAll(secrets, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(secrets, "token"), "hrn_x")
	text := strings.NewReplacer("RULES", quickRules(t), "ROOT", work, "- auth-credentials",
		"- {name: auth-credentials, config: {store_path: "+filepath.Join(secrets, "credentials.json")+"}}").Replace(testConfig)
	write(t, filepath.Join(dir, "config.yaml"), text)
	s := startDev(t, dir)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err := call(ctx, dial(t, s), "shell::fs::read", map[string]string{"path": ".harness/token"}, nil)
	if err == nil || !strings.Contains(err.Error(), "protected") {
		t.Errorf("error = %v, want one that says the path is protected", err)
	}
}
