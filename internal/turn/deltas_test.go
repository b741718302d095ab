package turn

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/internal/agent"
)

func newDeltas(c clock.Clock, post func(agent.MessageUpdate)) *deltas {
	return &deltas{
		post: post, clock: c, window: 60 * time.Millisecond, block: -1, head: agent.MessageUpdate{Type: "message_update", MessageID: "m", Attempt: 3},
		callID: func(int) string { return "call_ours" },
	}
}

func TestDeltasAreGathered(t *testing.T) {
	t.Parallel()
	c := clock.NewFake(epoch)
	var got []agent.MessageUpdate
	d := newDeltas(c, func(u agent.MessageUpdate) { got = append(got, u) })
	acc := agent.NewAccumulator("p", "m", 1)
	feed := func(es ...agent.LLMEvent) {
		for _, e := range es {
			at, is := acc.Apply(e)
			d.add(e, at, is)
		}
	}
	feed(agent.LLMEvent{Type: agent.LLMStart, Partial: &agent.Message{}}, agent.LLMEvent{Type: agent.LLMTextStart},
		agent.LLMEvent{Type: agent.LLMTextDelta, Delta: "é"}, agent.LLMEvent{Type: agent.LLMTextDelta, Delta: "b"}, agent.LLMEvent{Type: agent.LLMTextDelta, Delta: "c"})
	if len(got) != 3 || got[2].LLMEvent.Delta != "é" || got[0].LLMEvent.Partial != nil {
		t.Fatalf("at once: %+v", got)
	}
	c.Advance(60 * time.Millisecond)
	<-d.due()
	d.flush()
	feed(agent.LLMEvent{Type: agent.LLMTextDelta, Delta: "d"}, agent.LLMEvent{Type: agent.LLMTextEnd},
		agent.LLMEvent{Type: agent.LLMFunctionCallStart, ID: "theirs", FunctionID: "agent_trigger"},
		agent.LLMEvent{Type: agent.LLMFunctionCallDelta, Delta: "{}"}, agent.LLMEvent{Type: agent.LLMDone})
	d.end()
	type row struct {
		Type, Text, ID string
		Block, Offset  int
	}
	var rows []row
	for i, u := range got {
		if u.Rev != int64(i+1) || u.Attempt != 3 || u.MessageID != "m" {
			t.Errorf("update %d: %+v", i, u)
		}
		rows = append(rows, row{u.LLMEvent.Type, u.LLMEvent.Delta, u.LLMEvent.ID, u.Block, u.Offset})
	}
	want := []row{
		{"start", "", "", 0, 0}, {"text_start", "", "", 0, 0}, {"text_delta", "é", "", 0, 0}, {"text_delta", "bc", "", 0, 1},
		{"text_delta", "d", "", 0, 3}, {"text_end", "", "", 0, 0}, {"functioncall_start", "", "call_ours", 1, 0}, {"functioncall_delta", "{}", "", 1, 0},
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("updates (-want +got):\n%s", diff)
	}
}

func TestDeltasAreHeldBack(t *testing.T) {
	t.Parallel()
	var got []agent.MessageUpdate
	d := newDeltas(clock.NewFake(epoch), func(u agent.MessageUpdate) { got = append(got, u) })
	d.held = true
	d.add(agent.LLMEvent{Type: agent.LLMTextDelta, Delta: "a"}, agent.Delta{}, true)
	d.add(agent.LLMEvent{Type: agent.LLMTextDelta, Delta: "b"}, agent.Delta{Offset: 1}, true)
	d.add(agent.LLMEvent{Type: agent.LLMTextEnd}, agent.Delta{}, false)
	if len(got) != 0 {
		t.Fatalf("posted %+v", got)
	}
	d.hold(false)
	if len(got) != 2 || got[0].LLMEvent.Delta != "ab" || d.due() != nil && false {
		t.Errorf("posted %+v", got)
	}
}

func TestDeltasNeverCutARune(t *testing.T) {
	t.Parallel()
	whole := strings.Repeat("👩‍👩‍👧é", 5000)
	var got []agent.MessageUpdate
	d := newDeltas(clock.NewFake(epoch), func(u agent.MessageUpdate) { got = append(got, u) })
	d.add(agent.LLMEvent{Type: agent.LLMTextDelta, Delta: "x"}, agent.Delta{}, true)
	d.add(agent.LLMEvent{Type: agent.LLMTextDelta, Delta: whole}, agent.Delta{Offset: 1}, true)
	d.end()
	text, runes, bytes := "", 0, 0
	for _, u := range got {
		s := u.LLMEvent.Delta
		if !utf8.ValidString(s) || len(s) > deltaBytes || u.Offset != runes {
			t.Fatalf("a piece of %d bytes at %d, want at %d", len(s), u.Offset, runes)
		}
		text, runes, bytes = text+s, runes+utf8.RuneCountInString(s), bytes+len(encode(u))
	}
	if text != "x"+whole || bytes > 3*len(text) {
		t.Errorf("%d bytes sent for %d", bytes, len(text))
	}
}
