package main

import (
	"context"
	"encoding/json"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/engine/stream"
	"github.com/iii-aws/harness/internal/agent"
)

// attribute is the value of a span's attribute, "" if it has none.
func attribute(s sdktrace.ReadOnlySpan, key string) string {
	for _, a := range s.Attributes() {
		if string(a.Key) == key {
			return a.Value.String()
		}
	}
	return ""
}

// spanEnds signals the name of every span that ends.
type spanEnds chan string

func (spanEnds) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (c spanEnds) OnEnd(s sdktrace.ReadOnlySpan)                 { c <- s.Name() }
func (spanEnds) Shutdown(context.Context) error                  { return nil }
func (spanEnds) ForceFlush(context.Context) error                { return nil }

// await waits for the end of a span.
func (c spanEnds) await(name string) {
	for <-c != name {
	}
}

// TestF37OneTurnIsOneTrace follows a turn through the queue, the provider and
// its calls, and an approval through the state trigger that wakes it.
func TestF37OneTurnIsOneTrace(t *testing.T) {
	rec, ends := tracetest.NewSpanRecorder(), make(spanEnds, 1024)
	s := openTraced(t, &waited{}, quickRules(t), rec, ends)
	runTurn(t, s, "s1", twoCalls)
	ends.await("harness.turn::step")
	byName := map[string]string{}
	for _, span := range rec.Ended() {
		byName[span.Name()] = span.SpanContext().TraceID().String()
	}
	want := byName["harness.run::start"]
	for _, name := range []string{"harness.turn::step", "harness.provider::scripted::stream", "harness.demo::time", "harness.shell::fs::ls", "harness.session-tree::append_batch", "harness.policy::check_permissions"} {
		if byName[name] == "" || byName[name] != want {
			t.Errorf("%s is in trace %q, run::start in %q", name, byName[name], want)
		}
	}
	for _, span := range rec.Ended() {
		if span.Name() == "harness.provider::scripted::stream" && attribute(span, "iii.session.id") != "s1" {
			t.Errorf("the session is not on the provider's span: %v", span.Attributes())
		}
	}
}

func TestF37ApprovalWakesInItsOwnTrace(t *testing.T) {
	rec := tracetest.NewSpanRecorder()
	s := openTraced(t, &waited{}, quickRules(t), rec)
	ctx := t.Context()
	data, err := bus.Encode(map[string]any{"session_id": "s1", "provider": "scripted", "model": "scripted-1", "messages": []agent.Message{agent.User("run true", 1)}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.router.Worker("test").Invoke(ctx, bus.Invocation{FunctionID: "run::start", Data: data, Principal: &caller}); err != nil {
		t.Fatal(err)
	}
	call := parkedCall(t, s, "s1")
	data, err = bus.Encode(map[string]string{"session_id": "s1", "function_call_id": call, "decision": "allow"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.router.Worker("test").Invoke(ctx, bus.Invocation{FunctionID: "approval::resolve", Data: data, Principal: &caller}); err != nil {
		t.Fatal(err)
	}
	log := s.db.Streams().Watch(ctx, agent.StreamEvents, "s1")
	for range log {
		if ended, err := hasEnded(s, "s1"); err != nil {
			t.Fatal(err)
		} else if ended {
			break
		}
	}
	traces := map[string]map[string]bool{}
	for _, span := range rec.Ended() {
		if traces[span.Name()] == nil {
			traces[span.Name()] = map[string]bool{}
		}
		traces[span.Name()][span.SpanContext().TraceID().String()] = true
	}
	for name := range map[string]bool{"harness.turn::on_approval": true, "harness.shell::exec": true} {
		for id := range traces[name] {
			if !traces["harness.approval::resolve"][id] && !traces["harness.run::start"][id] {
				t.Errorf("%s is in trace %s, of neither the approval nor the start", name, id)
			}
		}
		if len(traces[name]) == 0 {
			t.Errorf("%s left no span", name)
		}
	}
}

func hasEnded(s *stack, session string) (bool, error) {
	items, err := s.db.Streams().List(s.ctx, agent.StreamEvents, session)
	return len(items) > 0 && isType(items[len(items)-1], agent.EventAgentEnd), err
}

func isType(it stream.Item, kind string) bool {
	var head struct {
		Type string `json:"type"`
	}
	return json.Unmarshal(it.Data, &head) == nil && head.Type == kind
}

// parkedCall waits until a turn waits for a person.
func parkedCall(t *testing.T, s *stack, session string) string {
	t.Helper()
	key := state.Key{Scope: agent.ScopeTurnState, Key: session}
	for range s.db.State().Watch(t.Context(), key) {
		item, ok, err := s.db.State().Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		var view agent.TurnStateView
		if ok && json.Unmarshal(item.Value, &view) == nil && view.State == "function_awaiting_approval" {
			return view.AwaitingApproval[0].FunctionCallID
		}
	}
	t.Fatal("the watch ended")
	return ""
}
