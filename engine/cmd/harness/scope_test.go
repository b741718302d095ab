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

// TestRecordsOfSessionsAreTheirOwners: neither functions over the store nor
// triggers tell of another's session, or change it. Whatever belongs to no
// session is open to who may call the function.
func TestRecordsOfSessionsAreTheirOwners(t *testing.T) {
	t.Parallel()
	s := startDev(t, t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	op := dial(t, s)
	session, callID := parked(t, s, "run touch one") // the operator's
	stranger := worker(ctx, t, s, "state::*", "stream::*", "engine::*", "mine::*", "approval::*")
	told := make(chan string, 64)
	stranger.Handle("mine::sink", bus.Endpoint{Handle: func(_ context.Context, call *bus.Call) (json.RawMessage, error) {
		told <- string(call.Data)
		return nil, nil
	}})
	for _, binding := range []map[string]any{
		{"trigger_type": "state", "function_id": "mine::sink", "config": map[string]any{}},
		{"trigger_type": "stream", "function_id": "mine::sink", "config": map[string]string{"stream_name": "agent::events"}},
	} {
		if err := call(ctx, stranger, "engine::register_trigger", binding, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := call(ctx, stranger, "state::set", map[string]any{"scope": "engine:api_tokens", "key": "tok1", "value": map[string]string{"role": "operator"}}, nil); err == nil {
		t.Error("a token was written")
	}
	for scope, key := range map[string]string{
		"turn_state": session, "session_tree_meta": session, "approvals": session + "/" + callID, "control": session, "session_tree:" + session: "e",
		"approval_grants": session + "/h", "ui_subscriptions:" + session: "x", "ui_model_subscriptions": "c/b",
	} {
		if err := call(ctx, stranger, "state::set", map[string]any{"scope": scope, "key": key, "value": map[string]string{"owner": "w"}}, nil); bus.Code(err) != "FORBIDDEN" {
			t.Errorf("set %s: error = %v, want FORBIDDEN", scope, err)
		}
		if err := call(ctx, stranger, "state::delete", map[string]any{"scope": scope, "key": key}, nil); bus.Code(err) != "FORBIDDEN" {
			t.Errorf("delete %s: error = %v, want FORBIDDEN", scope, err)
		}
		var got any
		if err := call(ctx, stranger, "state::get", map[string]any{"scope": scope, "key": key}, &got); err != nil || got != nil {
			t.Errorf("get %s: %v, %v", scope, got, err)
		}
		var rows []any
		if err := call(ctx, stranger, "state::list", map[string]any{"scope": scope}, &rows); err != nil || len(rows) != 0 {
			t.Errorf("list %s: %v, %v", scope, rows, err)
		}
	}
	var groups struct{ Groups []string }
	if err := call(ctx, stranger, "state::list_groups", map[string]any{}, &groups); err != nil || len(groups.Groups) != 0 {
		t.Errorf("groups %v, %v", groups.Groups, err)
	}
	var items []any
	if err := call(ctx, stranger, "stream::list", map[string]string{"stream_name": "agent::events", "group_id": session}, &items); err != nil || len(items) != 0 {
		t.Errorf("events %v, %v", items, err)
	}
	var names []string
	if err := call(ctx, stranger, "stream::list_groups", map[string]string{"stream_name": "agent::events"}, &names); err != nil || len(names) != 0 {
		t.Errorf("sessions %v, %v", names, err)
	}
	for id, in := range map[string]map[string]any{
		"stream::set":  {"stream_name": "agent::events", "group_id": session, "item_id": "1", "data": 1},
		"stream::send": {"stream_name": "agent::events", "group_id": session, "type": "x", "data": 1},
	} {
		if err := call(ctx, stranger, id, in, nil); bus.Code(err) != "FORBIDDEN" {
			t.Errorf("%s: error = %v, want FORBIDDEN", id, err)
		}
	}
	s.want(exitDone, "approve", session, callID)
	ended(t, s, session)
	// The operator sees all, and what is nobody's reaches its trigger.
	if err := call(ctx, op, "state::list_groups", map[string]any{}, &groups); err != nil || len(groups.Groups) == 0 {
		t.Errorf("the operator sees %v, %v", groups.Groups, err)
	}
	if err := call(ctx, stranger, "state::set", map[string]any{"scope": "orders", "key": "o1", "value": 1}, nil); err != nil {
		t.Error(err)
	}
	select {
	case first := <-told:
		if !strings.Contains(first, `"scope":"orders"`) {
			t.Errorf("the stranger was told %.200s", first)
		}
	case <-ctx.Done():
		t.Error("its own change did not reach its trigger")
	}
}
