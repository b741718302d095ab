package turn

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/internal/agent"
	"github.com/iii-aws/harness/internal/turn/step"
)

func (w *world) abort(session string) AbortResponse {
	w.t.Helper()
	var res AbortResponse
	w.must("run::abort", SessionRequest{session}, &res)
	return res
}

// abortedAs checks the end of an aborted run.
func (w *world) abortedAs(session string, wantTypes ...string) {
	w.t.Helper()
	rec := w.ended(session)
	if rec.State != step.Stopped {
		w.t.Errorf("state %s, want stopped", rec.State)
	}
	path := w.session.path(session)
	last := path[len(path)-1].Message
	if last.StopReason != agent.StopAborted || len(last.Content) != 0 || last.Provider != "harness" || *last.ErrorMessage != "aborted" {
		w.t.Errorf("last message %+v", last)
	}
	events := w.events(session)
	if diff := cmp.Diff(wantTypes, types(events, agent.EventTurnStateChanged)); diff != "" {
		w.t.Errorf("events (-want +got):\n%s", diff)
	}
	w.legalPath(session)
	w.quiet()
	if v := w.record(session).Version; v != rec.Version {
		w.t.Error("a later delivery wrote the record")
	}
}

func TestA47AbortDuringModelStream(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	began := make(chan struct{})
	w.model.plays(hangs("half an ans", began, nil, nil))
	w.start("s1", "go")
	<-began
	w.eventually("the delta", func() bool { return len(w.viewer.seen()) > 1 })
	if res := w.abort("s1"); !res.Aborted || *res.State != step.Streaming {
		t.Errorf("abort: %+v", res)
	}
	w.abortedAs("s1", "message_complete", "message_complete", "turn_end", "agent_end")
	path := w.session.path("s1")
	kept := path[1].Message
	if text(kept) != "half an ans" || kept.StopReason != agent.StopAborted || string(kept.Details) != `{"interrupted":true}` {
		t.Errorf("kept %+v", kept)
	}
	if res := w.abort("s1"); res.Aborted {
		t.Errorf("abort after the end: %+v", res)
	}
}

func TestA47AbortDuringCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	began, _ := blockWorld(t, w, "ok::slow")
	w.simple("ok::quick")
	w.model.plays(wants(want("ok::quick", nil), want("ok::slow", nil)))
	w.start("s1", "go")
	<-began
	w.until("s1", "the quick result", func(r *step.Record) bool { return r.Work != nil && len(r.Work.Executed) == 1 })
	w.abort("s1")
	w.abortedAs("s1", "message_complete", "function_execution_start", "function_execution_start", "function_execution_end",
		"function_execution_end", "message_complete", "turn_end", "agent_end")
	res := w.results("s1")
	if len(res) != 2 || res[0].IsError || !res[1].IsError {
		t.Errorf("results %+v", res)
	}
}

func TestA47AbortWhileParked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rm := w.simple("ask::rm")
	w.model.plays(wants(want("ask::rm", nil)))
	w.start("s1", "go")
	w.parked("s1")
	id := w.awaiting("s1")[0]
	w.abort("s1")
	w.abortedAs("s1", "message_complete", "function_execution_start", "function_execution_end", "message_complete", "turn_end", "agent_end")
	var dec agent.Decision
	ok, err := w.proc.turn.readRow(t.Context(), agent.ScopeApprovals, "s1/"+id, &dec)
	if err != nil || !ok || dec.Decision != agent.DecisionAborted || *dec.Reason != "session_aborted" {
		t.Errorf("decision %+v %v", dec, err)
	}
	if w.decide("s1", id, agent.DecisionAllow, "") || rm.count() != 0 {
		t.Error("the call can still be approved")
	}
}

// An allow that landed and was not started loses to the abort; its row stays.
func TestAbortBeatsAllow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rm := w.simple("ask::rm")
	w.model.plays(wants(want("ask::rm", nil)))
	w.start("s1", "go")
	w.parked("s1")
	id := w.awaiting("s1")[0]
	w.proc.kill()
	p := w.bootIdle()
	w.abort("s1")
	w.decide("s1", id, agent.DecisionAllow, "")
	p.consume()
	w.clock.Advance(61 * time.Second)
	w.ended("s1")
	var dec agent.Decision
	if _, err := w.proc.turn.readRow(t.Context(), agent.ScopeApprovals, "s1/"+id, &dec); err != nil || dec.Decision != agent.DecisionAllow {
		t.Errorf("decision %+v %v", dec, err)
	}
	if rm.count() != 0 {
		t.Error("the call ran")
	}
	w.legalPath("s1")
}

func TestA47AbortBetweenSteps(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.model.plays(fails(agent.ErrRateLimited, "slow down", 60_000, ""), says("never"))
	w.start("s1", "go")
	w.until("s1", "the pause", func(r *step.Record) bool { return r.Wait != nil && r.Outbox.IsZero() })
	w.quiet()
	w.abort("s1")
	w.abortedAs("s1", "message_complete", "turn_end", "agent_end")
	w.clock.Advance(2 * time.Minute)
	w.quiet()
	if w.model.calls() != 1 {
		t.Errorf("model asked %d times, want 1", w.model.calls())
	}
}

// The call of the provider hears that nobody listens any more.
func TestAbortCancelsTheModel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	began, ended := make(chan struct{}), make(chan struct{})
	w.model.plays(func(ctx context.Context, _ func(agent.LLMEvent)) error {
		close(began)
		<-ctx.Done()
		close(ended)
		return ctx.Err()
	})
	w.start("s1", "go")
	<-began
	w.abort("s1")
	<-ended
	w.abortedAs("s1", "message_complete", "turn_end", "agent_end")
}

func TestAliasAbort(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	began := make(chan struct{})
	w.model.plays(hangs("", began, nil, nil))
	w.start("s1", "go")
	<-began
	var res AbortResponse
	w.must("router::abort", map[string]any{"body": SessionRequest{"s1"}}, &res)
	if !res.Aborted {
		t.Errorf("router::abort: %+v", res)
	}
	w.ended("s1")
}

// Whatever the step waits for outside, an abort does not wait for it.
func TestA47AbortDuringLookups(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"models::get", "directory::skills::index", "budget::reserve", "session-inbox::peek", "context-compaction::compact_now", "sandbox::create"} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if id == "context-compaction::compact_now" {
				w.bus.on("models::get", answers(map[string]any{"context_window": 100}))
			}
			began, _ := blockWorld(t, w, id)
			extra := map[string]any{}
			if id == "sandbox::create" {
				extra["sandbox"] = map[string]any{}
			}
			w.start("s1", "go", extra)
			<-began
			w.abort("s1")
			rec := w.ended("s1")
			m, _ := rec.Assistant()
			if rec.State != step.Stopped || m.StopReason != agent.StopAborted {
				t.Errorf("state %s, message %+v", rec.State, m)
			}
			w.legalPath("s1")
			w.quiet()
		})
	}
}
