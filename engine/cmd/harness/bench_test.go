package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/commit"
	"github.com/iii-aws/harness/engine/queue"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/engine/telemetry"
	"github.com/iii-aws/harness/functions"
	"github.com/iii-aws/harness/internal/agent"
	"github.com/iii-aws/harness/internal/config"
)

// waited counts the durable writes that turns wait for, by name.
type waited struct {
	n     atomic.Int64
	hops  atomic.Int64
	names chan string // nil to only count
}

func (w *waited) Waited(_, what string) {
	w.n.Add(1)
	if w.names != nil {
		w.names <- what
	}
}

// openTest opens a stack as dev would, and starts it.
func openTest(t testing.TB, stats *waited, rules string) *stack {
	t.Helper()
	return openTraced(t, stats, rules)
}

// openTraced opens a stack whose spans the processors see.
func openTraced(t testing.TB, stats *waited, rules string, processors ...sdktrace.SpanProcessor) *stack {
	t.Helper()
	manifests, err := functions.Manifests()
	if err != nil {
		t.Fatal(err)
	}
	var known []string
	for _, m := range manifests {
		known = append(known, m.Name)
	}
	cfg := config.Default(known)
	for i, w := range cfg.Workers {
		if w.Name == "provider-scripted" {
			cfg.Workers[i].Config, err = json.Marshal(map[string]string{"rules": rules})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	tel, err := telemetry.New(t.Context(), telemetry.Options{Processors: processors})
	if err != nil {
		t.Fatal(err)
	}
	s, err := openStack(t.Context(), stackOptions{
		config: cfg, permissions: "none.yaml", permissionsDefault: true, data: t.TempDir(), workDir: t.TempDir(),
		getenv: func(string) string { return "" }, environ: func() []string { return nil },
		clock: clock.System(), ids: clock.Random(), logger: slog.New(slog.DiscardHandler), telemetry: tel, stats: stats,
		wrapQueue: func(q queue.Queue) queue.Queue { return counted{q, &stats.hops} },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), drainLimit)
		defer cancel()
		if err := s.stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return s
}

var caller = bus.Principal{ID: "bench", Role: bus.RoleClient}

// runTurn starts a run and waits until its last write is cleared.
func runTurn(t testing.TB, s *stack, session, prompt string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	data, err := bus.Encode(map[string]any{
		"session_id": session, "provider": "scripted", "model": "scripted-1", "messages": []agent.Message{agent.User(prompt, 1)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.router.Worker("bench").Invoke(ctx, bus.Invocation{FunctionID: "run::start", Data: data, Principal: &caller}); err != nil {
		t.Fatal(err)
	}
	for range s.db.State().Watch(ctx, state.Key{Scope: agent.ScopeTurnState, Key: session}) {
		item, ok, err := s.db.State().Get(ctx, state.Key{Scope: agent.ScopeTurnState, Key: session})
		if err != nil {
			t.Fatal(err)
		}
		var rec struct {
			State  string          `json:"state"`
			Outbox json.RawMessage `json:"outbox"`
		}
		if ok && json.Unmarshal(item.Value, &rec) == nil && rec.State == "stopped" && len(rec.Outbox) == 0 {
			return
		}
	}
	t.Fatalf("the turn of %s did not end: %v", session, ctx.Err())
}

const twoCalls = "what time is it, and list the files here"

// transitions of a turn with two calls, as its turn_state_changed events tell.
func transitions(t testing.TB, s *stack, session string) int {
	t.Helper()
	items, err := s.db.Streams().List(t.Context(), agent.StreamEvents, session)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, it := range items {
		var head struct {
			Type string `json:"type"`
		}
		if json.Unmarshal(it.Data, &head) == nil && head.Type == agent.EventTurnStateChanged {
			n++
		}
	}
	return n
}

// counted counts the messages that a turn sends.
type counted struct {
	queue.Queue
	n *atomic.Int64
}

func (c counted) Submit(ctx context.Context, m queue.Message, after ...commit.Ticket) *commit.Promise[queue.Sent] {
	c.n.Add(1)
	return c.Queue.Submit(ctx, m, after...)
}

func TestTwoCallTurnTakesOneHopAndAtMostEightDurableWrites(t *testing.T) {
	rules := quickRules(t)
	stats := &waited{names: make(chan string, 64)}
	s := openTest(t, stats, rules)
	runTurn(t, s, "s1", "hello") // an existing session
	for len(stats.names) > 0 {
		<-stats.names
	}
	before, stamp := stats.n.Load(), s.db.Stats()
	sent := stats.hops.Load()
	runTurn(t, s, "s1", twoCalls)
	var names []string
	for len(stats.names) > 0 {
		names = append(names, <-stats.names)
	}
	if n := stats.n.Load() - before; n > 8 {
		t.Errorf("the turn waited for %d durable writes, at most 8 are allowed: %v", n, names)
	}
	if hops := stats.hops.Load() - sent; hops != 1 {
		t.Errorf("%d queue hops, want 1", hops)
	}
	t.Logf("waited for %v; %d commits, %d bytes", names, s.db.Stats().Commits-stamp.Commits, s.db.Stats().Bytes-stamp.Bytes)
}

func BenchmarkTwoCallTurn(b *testing.B) {
	stats := &waited{}
	s := openTest(b, stats, quickRules(b))
	runTurn(b, s, "warm", twoCalls)
	per := float64(transitions(b, s, "warm"))
	before, stamp := stats.n.Load(), s.db.Stats()
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		runTurn(b, s, fmt.Sprintf("s%d", i), twoCalls)
	}
	b.StopTimer()
	n, now := float64(b.N), s.db.Stats()
	b.ReportMetric(float64(stats.n.Load()-before)/n, "awaited-writes/turn")
	b.ReportMetric(float64(now.Commits-stamp.Commits)/n, "commits/turn")
	b.ReportMetric(float64(now.Bytes-stamp.Bytes)/n, "value-B/turn")
	b.ReportMetric(float64(now.PageBytes-stamp.PageBytes)/n, "page-B/turn")
	b.ReportMetric(per, "transitions/turn")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/n/per, "ns/transition")
	b.ReportMetric(float64(now.Bytes-stamp.Bytes)/n/per, "value-B/transition")
	b.ReportMetric(float64(stats.n.Load()-before)/n/per, "awaited-writes/transition")
}
