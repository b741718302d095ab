package turn

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/internal/agent"
	"github.com/iii-aws/harness/internal/turn/step"
)

func TestA1StreamedText(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.model.plays(says("hello"))
	res := w.start("s1", "hi")
	if !res.Started || res.MessageID == "" {
		t.Fatalf("run::start answered %+v", res)
	}
	rec := w.ended("s1")
	if rec.State != step.Stopped {
		t.Fatalf("state %s, want stopped", rec.State)
	}
	events := w.events("s1")
	wantTypes := []string{"message_complete", "turn_end", "agent_end"}
	if diff := cmp.Diff(wantTypes, types(events, agent.EventTurnStateChanged)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	wantStates := []string{"provisioning", "assistant_streaming", "steering_check", "stopped"}
	if diff := cmp.Diff(wantStates, states(events)); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
	if last := events[len(events)-1]["type"]; last != agent.EventAgentEnd {
		t.Errorf("the last event is %v, want agent_end", last)
	}
	ends, err := w.db.Streams().List(t.Context(), agent.StreamTurnEnd, "s1")
	if err != nil || len(ends) != 1 {
		t.Errorf("agent::turn_end has %d frames (%v), want 1", len(ends), err)
	}
	text := ""
	for _, u := range w.viewer.seen() {
		text += u.LLMEvent.Delta
	}
	if text != "hello" {
		t.Errorf("deltas give %q, want hello", text)
	}
	path := w.session.path("s1")
	if len(path) != 2 || path[0].Message.Role != agent.RoleUser || path[1].Message.Content[0].Text != "hello" {
		t.Errorf("transcript: %+v", path)
	}
}
