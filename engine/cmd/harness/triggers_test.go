package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/client"
)

// heard serves a function and gives what it is called with.
func heard(c *client.Client, id string) <-chan string {
	calls := make(chan string, 256)
	c.Handle(id, bus.Raw(func(_ context.Context, call *bus.Call) (json.RawMessage, error) {
		calls <- string(call.Data)
		return nil, nil
	}))
	return calls
}

// await is the first call with all parts.
func await(t *testing.T, calls <-chan string, parts ...string) string {
	t.Helper()
	end := time.After(20 * time.Second)
next:
	for {
		select {
		case got := <-calls:
			for _, part := range parts {
				if !strings.Contains(got, part) {
					continue next
				}
			}
			return got
		case <-end:
			t.Fatalf("no call with %q", parts)
		}
	}
}

// keep makes a stored trigger and gives its id.
func keep(ctx context.Context, t *testing.T, c *client.Client, kind, function, config string) string {
	t.Helper()
	var made struct {
		ID string `json:"id"`
	}
	ask := map[string]any{"trigger_type": kind, "function_id": function, "config": json.RawMessage(config)}
	if err := call(ctx, c, "engine::register_trigger", ask, &made); err != nil {
		t.Fatal(err)
	}
	return made.ID
}

// TestStoredCronSurvivesARestart: it fires for a worker that comes later.
func TestStoredCronSurvivesARestart(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	dir := t.TempDir()
	s := startDev(t, dir)
	id := keep(ctx, t, dial(t, s), "cron", "nightly::run", `{"expression":"* * * * * *"}`)
	s.end()
	again := startDev(t, dir)
	got := await(t, heard(dial(t, again), "nightly::run"), `"job_id":"`+id+`"`)
	if !strings.HasPrefix(got, `{"trigger":"cron",`) || !strings.Contains(got, `+00:00","actual_time":"`) {
		t.Errorf("got %s", got)
	}
	again.want(exitDone, "call", "engine::unregister_trigger", `{"id":"`+id+`"}`)
	if a := again.want(exitDone, "call", "engine::registered-triggers::list", `{"trigger_type":"cron"}`); strings.Contains(a.stdout, id) {
		t.Errorf("still there: %s", a.stdout)
	}
}

// TestRevokedTokenEndsItsStoredTriggers: they stay listed, and an operator
// removes them.
func TestRevokedTokenEndsItsStoredTriggers(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	s := startDev(t, t.TempDir())
	operator := dial(t, s)
	calls := heard(operator, "audit::on")
	var token struct{ ID, Token string }
	scope := map[string]any{"role": "worker", "call": []string{"engine::register_trigger", "audit::*"}}
	if err := call(ctx, operator, "auth::api_tokens::create", scope, &token); err != nil {
		t.Fatal(err)
	}
	worker, err := client.Dial(ctx, client.Options{URL: s.ready.Bus, Token: token.Token, Name: "worker", Once: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = worker.Close() })
	id := keep(ctx, t, worker, "cron", "audit::on", `{"expression":"* * * * * *"}`)
	await(t, calls, id)
	if err := call(ctx, worker, "engine::register_trigger", map[string]any{"trigger_type": "state", "function_id": "state::set"}, nil); bus.Code(err) != "FORBIDDEN" {
		t.Errorf("a trigger on what it may not call: %v", err)
	}
	s.want(exitDone, "call", "auth::api_tokens::revoke", `{"id":"`+token.ID+`"}`)
	if a := s.want(exitDone, "call", "engine::registered-triggers::info", `{"id":"`+id+`"}`); !strings.Contains(a.stdout, `"revoked"`) {
		t.Errorf("not parked: %s", a.stdout)
	}
	s.want(exitDone, "call", "engine::unregister_trigger", `{"id":"`+id+`"}`)
	if a := s.want(exitDone, "call", "engine::registered-triggers::list", `{"trigger_type":"cron"}`); strings.Contains(a.stdout, id) {
		t.Errorf("still there: %s", a.stdout)
	}
}

// TestBusTellsOfWorkersAndFunctions as they come and go.
func TestBusTellsOfWorkersAndFunctions(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	s := startDev(t, t.TempDir())
	c := dial(t, s)
	workers, functions := heard(c, "watch::workers"), heard(c, "watch::functions")
	keep(ctx, t, c, "engine::workers-available", "watch::workers", `{}`)
	keep(ctx, t, c, "engine::functions-available", "watch::functions", `{}`)
	other, err := client.Dial(ctx, client.Options{URL: s.ready.Bus, Token: s.ready.Token, Name: "other", Once: true})
	if err != nil {
		t.Fatal(err)
	}
	connected := await(t, workers, `"event":"worker_connected"`)
	id := strings.TrimPrefix(connected, `{"event":"worker_connected",`)
	await(t, workers, `{"event":"worker_metadata_updated",`+id)
	heard(other, "other::f")
	await(t, functions, `"event":"functions_changed"`, `"function_id":"other::f"`, `"function_id":"turn::sweep"`)
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	await(t, workers, `{"event":"worker_disconnected",`+id)
	for strings.Contains(await(t, functions, `"event":"functions_changed"`), "other::f") {
		// A change that was under way.
	}
}
