package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/client"
	"github.com/iii-aws/harness/engine/registry"
)

// TestPublishedMessageSurvivesAKill: what was acknowledged is delivered by the next process, to every subscriber.
func TestPublishedMessageSurvivesAKill(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "work"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "config.yaml"), "workers: []\n")
	p := startProgram(t, dir)
	c := dial(t, p.server)
	for _, function := range []string{"orders::bill", "orders::ship"} { // nobody serves them yet
		keep(ctx, t, c, "durable:subscriber", function, `{"topic":"orders"}`)
	}
	if err := call(ctx, c, "iii::durable::publish", map[string]any{"topic": "orders", "data": map[string]int{"id": 7}}, nil); err != nil {
		t.Fatal(err)
	}
	p.kill()
	again := startProgram(t, dir)
	c = dial(t, again.server)
	for _, function := range []string{"orders::bill", "orders::ship"} {
		if got := await(t, heard(c, function)); got != `{"id":7}` {
			t.Errorf("%s got %s", function, got)
		}
	}
}

// TestTopicsReachNoInternalFunction, whoever publishes.
func TestTopicsReachNoInternalFunction(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	s := startDev(t, t.TempDir())
	c := dial(t, s)
	for _, kind := range []string{"subscribe", "durable:subscriber"} {
		ask := map[string]any{"trigger_type": kind, "function_id": "turn::sweep", "config": map[string]string{"topic": "t"}}
		if err := call(ctx, c, "engine::register_trigger", ask, nil); bus.Code(err) != "FORBIDDEN" {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// A subscriber acts for who published, not for who bound it.
func TestSubscriberActsForThePublisher(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	s := startDev(t, t.TempDir())
	operator := dial(t, s)
	principals := make(chan bus.Principal, 8)
	operator.Handle("who::asks", bus.Raw(func(_ context.Context, call *bus.Call) (json.RawMessage, error) {
		principals <- call.Principal
		return nil, nil
	}))
	keep(ctx, t, operator, "durable:subscriber", "who::asks", `{"topic":"t"}`)
	var token struct{ ID, Token string }
	if err := call(ctx, operator, "auth::api_tokens::create", map[string]any{"role": "worker", "call": []string{"iii::durable::publish"}}, &token); err != nil {
		t.Fatal(err)
	}
	worker, err := client.Dial(ctx, client.Options{URL: s.ready.Bus, Token: token.Token, Name: "worker", Once: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = worker.Close() })
	if err := call(ctx, worker, "iii::durable::publish", map[string]any{"topic": "t", "data": 1}, nil); err != nil {
		t.Fatal(err)
	}
	select {
	case p := <-principals:
		if p.Role != bus.RoleWorker || p.ID != token.ID {
			t.Errorf("called for %+v", p)
		}
	case <-ctx.Done():
		t.Fatal("not called")
	}
}

// BenchmarkDurablePublish measures from publish to the subscriber's handler, both in this process, with synced writes.
func BenchmarkDurablePublish(b *testing.B) {
	s := openTest(b, &waited{}, quickRules(b))
	got := make(chan struct{}, 1)
	system := bus.System()
	serve := bus.Raw(func(context.Context, *bus.Call) (json.RawMessage, error) { got <- struct{}{}; return nil, nil })
	if err := s.router.Serve(registry.Builtin{Name: "bench"}, map[string]registry.Function{"bench::on": {}}, map[string]bus.Endpoint{"bench::on": serve}); err != nil {
		b.Fatal(err)
	}
	_, err := s.router.Engine().Invoke(b.Context(), bus.Invocation{FunctionID: "engine::register_trigger", Principal: &system,
		Data: json.RawMessage(`{"trigger_type":"durable:subscriber","function_id":"bench::on","config":{"topic":"bench"}}`)})
	if err != nil {
		b.Fatal(err)
	}
	took := make([]time.Duration, 0, b.N)
	b.ResetTimer()
	for range b.N {
		start := time.Now()
		if _, err := s.router.Engine().Invoke(b.Context(), bus.Invocation{FunctionID: "iii::durable::publish", Data: json.RawMessage(`{"topic":"bench","data":{"n":1}}`)}); err != nil {
			b.Fatal(err)
		}
		<-got
		took = append(took, time.Since(start))
	}
	b.StopTimer()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}
