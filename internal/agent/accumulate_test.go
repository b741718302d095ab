package agent

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func ev(kind, delta string) LLMEvent { return LLMEvent{Type: kind, Delta: delta} }

func call(kind, id, text string) LLMEvent {
	return LLMEvent{Type: kind, ID: id, Delta: text, FunctionID: map[bool]string{true: "agent_trigger"}[kind == LLMFunctionCallStart]}
}

func usage(in, out int64) *Usage { return &Usage{Input: &in, Output: &out} }

func callBlock(id, name, args string) Block {
	return Block{Type: BlockFunctionCall, ID: id, ProviderCallID: id, FunctionID: name, Arguments: json.RawMessage(args)}
}

func TestAccumulator(t *testing.T) {
	t.Parallel()
	text, kind := "overloaded", ErrTransient
	final := EmptyAssistant("p", "m", 5).with(Text("final"))
	final.StopReason = StopLength
	for _, tt := range []struct {
		name     string
		events   []LLMEvent
		want     func(m *Message)
		done     bool
		streamed bool
	}{
		{name: "nothing", want: func(*Message) {}},
		{name: "start alone", events: []LLMEvent{ev(LLMStart, "")}, want: func(*Message) {}},
		{
			name:   "text",
			events: []LLMEvent{ev(LLMStart, ""), ev(LLMTextStart, ""), ev(LLMTextDelta, "Hel"), ev(LLMTextDelta, "lo"), ev(LLMTextEnd, ""), {Type: LLMUsage, Usage: usage(12, 3)}, {Type: LLMStop, StopReason: StopEnd}},
			want:   func(m *Message) { m.Content, m.Usage = []Block{Text("Hello")}, usage(12, 3) }, streamed: true,
		},
		{
			name:   "deltas that no start announced",
			events: []LLMEvent{ev(LLMThinkingDelta, "a"), ev(LLMTextDelta, "b"), ev(LLMThinkingDelta, "c"), ev(LLMThinkingDelta, "d"), ev(LLMFunctionCallDelta, `{"x"`), ev(LLMFunctionCallDelta, `:1}`)},
			want: func(m *Message) {
				m.Content = []Block{{Type: BlockThinking, Text: "a"}, Text("b"), {Type: BlockThinking, Text: "cd"}, callBlock("", "", `{"x":1}`)}
			}, streamed: true,
		},
		{
			name:   "a block after its end is a new one",
			events: []LLMEvent{ev(LLMTextDelta, "a"), ev(LLMTextEnd, ""), ev(LLMTextDelta, "b")},
			want:   func(m *Message) { m.Content = []Block{Text("a"), Text("b")} }, streamed: true,
		},
		{
			name: "thinking with its signature",
			events: []LLMEvent{
				ev(LLMThinkingStart, ""), ev(LLMThinkingDelta, "hm"), {Type: LLMThinkingEnd, Signature: "s1"},
				ev(LLMThinkingStart, ""), {Type: LLMThinkingEnd, Signature: "s2"}, ev(LLMThinkingStart, ""), ev(LLMThinkingEnd, ""),
			},
			want: func(m *Message) {
				m.Content = []Block{{Type: BlockThinking, Text: "hm", Signature: "s1"}, {Type: BlockThinking, Signature: "s2"}, {Type: BlockThinking}}
			}, streamed: true,
		},
		{
			name:   "a signature that comes after the next block began",
			events: []LLMEvent{ev(LLMThinkingDelta, "hm"), ev(LLMTextDelta, "a"), {Type: LLMThinkingEnd, Signature: "s"}},
			want: func(m *Message) {
				m.Content = []Block{{Type: BlockThinking, Text: "hm", Signature: "s"}, Text("a")}
			}, streamed: true,
		},
		{
			name:   "a signature without thinking",
			events: []LLMEvent{ev(LLMTextDelta, "a"), {Type: LLMThinkingEnd, Signature: "s"}},
			want:   func(m *Message) { m.Content = []Block{Text("a")} }, streamed: true,
		},
		{
			name: "calls in a row",
			events: []LLMEvent{
				call(LLMFunctionCallStart, "1", ""), ev(LLMFunctionCallDelta, `{"function":`), ev(LLMFunctionCallDelta, `"f"}`), ev(LLMFunctionCallEnd, ""),
				call(LLMFunctionCallStart, "2", ""), ev(LLMFunctionCallEnd, ""), call(LLMFunctionCallStart, "3", ""), ev(LLMFunctionCallDelta, `null`),
				call(LLMFunctionCallStart, "4", ""), ev(LLMFunctionCallDelta, `{"a":1,"a":1}`), ev(LLMTextEnd, ""), call(LLMFunctionCallStart, "5", ""), ev(LLMFunctionCallDelta, `{"a`),
			},
			want: func(m *Message) {
				m.Content = []Block{
					callBlock("1", "agent_trigger", `{"function":"f"}`), callBlock("2", "agent_trigger", `{}`), callBlock("3", "agent_trigger", `{}`),
					callBlock("4", "agent_trigger", `null`), callBlock("5", "agent_trigger", `null`),
				}
			},
		},
		{
			name: "calls at once, told apart by their ids",
			events: []LLMEvent{
				call(LLMFunctionCallStart, "1", ""), call(LLMFunctionCallStart, "2", ""), call(LLMFunctionCallDelta, "1", `{"a"`), call(LLMFunctionCallDelta, "2", `{"b"`),
				call(LLMFunctionCallDelta, "1", `:1}`), call(LLMFunctionCallDelta, "2", `:2}`), call(LLMFunctionCallEnd, "1", ""), call(LLMFunctionCallDelta, "3", `{"c":3}`),
			},
			want: func(m *Message) {
				m.Content = []Block{callBlock("1", "agent_trigger", `{"a":1}`), callBlock("2", "agent_trigger", `{"b":2}`), callBlock("3", "", `{"c":3}`)}
			},
		},
		{
			name: "ids that are used twice",
			events: []LLMEvent{
				call(LLMFunctionCallStart, "1", ""), call(LLMFunctionCallDelta, "1", `{"a":1}`), call(LLMFunctionCallEnd, "", ""), call(LLMFunctionCallStart, "1", ""), call(LLMFunctionCallDelta, "1", `{"b":2}`),
			},
			want: func(m *Message) {
				m.Content = []Block{callBlock("1", "agent_trigger", `{"a":1}`), callBlock("1", "agent_trigger", `{"b":2}`)}
			},
		},
		{
			name: "usage in parts",
			events: []LLMEvent{
				{Type: LLMUsage}, {Type: LLMUsage, Usage: usage(1, 2)}, {Type: LLMUsage}, {Type: LLMUsage, Usage: &Usage{Output: usage(0, 9).Output, CostUSD: new(float64)}},
			},
			want: func(m *Message) {
				m.Usage = &Usage{Input: usage(1, 0).Input, Output: usage(0, 9).Output, CostUSD: new(float64)}
			},
		},
		{
			name:   "stop with an error, and one that names no reason",
			events: []LLMEvent{{Type: LLMStop, StopReason: StopError, ErrorMessage: &text, ErrorKind: &kind}, {Type: LLMStop, ErrorMessage: &text}},
			want:   func(m *Message) { m.StopReason, m.ErrorMessage = StopError, &text },
		},
		{
			name:   "done",
			events: []LLMEvent{ev(LLMTextDelta, "draft"), {Type: LLMDone, Message: &final}},
			want:   func(m *Message) { *m = final }, done: true, streamed: true,
		},
		{
			name:   "done without deltas has not streamed",
			events: []LLMEvent{{Type: LLMDone, Message: &final}},
			want:   func(m *Message) { *m = final }, done: true,
		},
		{
			name:   "done without a message",
			events: []LLMEvent{ev(LLMTextDelta, "all"), {Type: LLMStop, StopReason: StopLength}, {Type: LLMDone}},
			want:   func(m *Message) { m.Content, m.StopReason = []Block{Text("all")}, StopLength }, done: true, streamed: true,
		},
		{
			name:   "done with the message of somebody else",
			events: []LLMEvent{ev(LLMTextDelta, "all"), {Type: LLMDone, Message: &Message{Role: RoleUser}}},
			want:   func(m *Message) { m.Content = []Block{Text("all")} }, done: true, streamed: true,
		},
		{
			name:   "error without a message",
			events: []LLMEvent{ev(LLMTextDelta, "par"), {Type: LLMError, ErrorMessage: &text, ErrorKind: &kind}},
			want: func(m *Message) {
				m.Content, m.StopReason, m.ErrorMessage, m.ErrorKind = []Block{Text("par")}, StopError, &text, &kind
			}, done: true, streamed: true,
		},
		{
			name:   "error whose message ends well",
			events: []LLMEvent{{Type: LLMError, Err: &final, ErrorKind: &kind}},
			want:   func(m *Message) { *m = final; m.StopReason, m.ErrorKind = StopError, &kind }, done: true,
		},
		{
			name:   "error that is an abort",
			events: []LLMEvent{{Type: LLMError, Err: &Message{Role: RoleAssistant, StopReason: StopAborted, ErrorMessage: &text, ErrorKind: &kind}, ErrorMessage: new(string)}},
			want: func(m *Message) {
				*m = Message{Role: RoleAssistant, StopReason: StopAborted, ErrorMessage: &text, ErrorKind: &kind}
			}, done: true,
		},
		{
			name: "events after the end",
			events: []LLMEvent{
				{Type: LLMDone, Message: &final}, ev(LLMTextDelta, "late"), {Type: LLMUsage, Usage: usage(9, 9)}, {Type: LLMError}, {Type: LLMStop, StopReason: StopAborted}, {Type: LLMDone}, ev(LLMThinkingEnd, ""),
			},
			want: func(m *Message) { *m = final }, done: true,
		},
		{name: "unknown events", events: []LLMEvent{{}, ev("toolcall_delta", "x"), ev(LLMSnapshot, "x")}, want: func(*Message) {}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a := NewAccumulator("p", "m", 5)
			for _, e := range tt.events {
				a.Apply(e)
			}
			want := EmptyAssistant("p", "m", 5)
			tt.want(&want)
			if diff := cmp.Diff(want, a.Message()); diff != "" {
				t.Error(diff)
			}
			if a.Done() != tt.done || a.Streamed() != tt.streamed {
				t.Errorf("done %v, streamed %v", a.Done(), a.Streamed())
			}
		})
	}
}

func TestDeltasSayWhereTheyWent(t *testing.T) {
	t.Parallel()
	a := NewAccumulator("p", "m", 0)
	for i, tt := range []struct {
		event LLMEvent
		want  Delta
		ok    bool
	}{
		{ev(LLMTextStart, ""), Delta{}, false},
		{ev(LLMTextDelta, "aé😀"), Delta{0, 0}, true},
		{ev(LLMTextDelta, "👨\u200d👩"), Delta{0, 3}, true},
		{ev(LLMTextDelta, ""), Delta{0, 6}, true},
		{ev(LLMThinkingDelta, "x"), Delta{1, 0}, true},
		{ev(LLMUsage, ""), Delta{}, false},
		{ev(LLMThinkingDelta, "y"), Delta{1, 1}, true},
		{call(LLMFunctionCallStart, "1", ""), Delta{}, false},
		{call(LLMFunctionCallStart, "2", ""), Delta{}, false},
		{ev(LLMFunctionCallDelta, `{"`), Delta{3, 0}, true},
		{call(LLMFunctionCallDelta, "1", `{`), Delta{2, 0}, true},
		{ev(LLMFunctionCallDelta, `a`), Delta{3, 2}, true},
		{ev(LLMDone, ""), Delta{}, false},
		{ev(LLMTextDelta, "late"), Delta{}, false},
	} {
		if d, ok := a.Apply(tt.event); d != tt.want || ok != tt.ok {
			t.Errorf("event %d: %+v, %v, want %+v, %v", i, d, ok, tt.want, tt.ok)
		}
	}
}

func TestMessagesShareNothingWithTheAccumulator(t *testing.T) {
	t.Parallel()
	text, kind := "t", ErrTransient
	in := usage(1, 2)
	final := EmptyAssistant("p", "m", 0).with(Block{Type: "x", Raw: json.RawMessage(`{"type":"x"}`)}, callBlock("c", "f", `{"a":1}`))
	final.Usage, final.Details = usage(3, 4), json.RawMessage(`{"d":1}`)
	a := NewAccumulator("p", "m", 0)
	var before []byte
	for _, e := range []LLMEvent{
		{Type: LLMUsage, Usage: in}, ev(LLMThinkingDelta, "a"), ev(LLMFunctionCallDelta, `{"a":1}`),
		{Type: LLMStop, StopReason: StopError, ErrorMessage: &text, ErrorKind: &kind}, {Type: LLMDone, Message: &final},
	} {
		a.Apply(e)
		m := a.Message()
		before, _ = encode(m)
		*in.Input, text, kind = 99, "changed", "changed"
		scribble(&m)
		if e.Message != nil {
			scribble(e.Message)
		}
		if got, err := encode(a.Message()); string(got) != string(before) || err != nil {
			t.Errorf("after %s: got %s, want %s, %v", e.Type, got, before, err)
		}
		*in.Input, text, kind = 1, "t", ErrTransient
	}
}

// A long answer in the smallest pieces: what it costs must grow with its
// length, not with the square of it.
func TestLongAnswersCostWhatTheyAreLong(t *testing.T) { // not parallel: it counts allocations
	cost := func(runes int) float64 {
		return testing.AllocsPerRun(1, func() {
			a := NewAccumulator("p", "m", 0)
			for range runes {
				a.Apply(LLMEvent{Type: LLMTextDelta, Delta: "é"})
			}
			if m := a.Message(); len(m.Content[0].Text) != 2*runes {
				t.Errorf("%d bytes", len(m.Content[0].Text))
			}
		})
	}
	if few, many := cost(1000), cost(200_000); many > few+100 {
		t.Errorf("%v allocations for 200,000 pieces, %v for 1,000", many, few)
	}
}

func BenchmarkAccumulator200KB(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		a := NewAccumulator("p", "m", 0)
		for range 200 << 10 {
			a.Apply(LLMEvent{Type: LLMTextDelta, Delta: "x"})
		}
	}
}

func TestEventsIgnoreTheMessageSoFar(t *testing.T) {
	t.Parallel()
	for _, partial := range []string{`"P0"`, `{"role":"robot"}`, `null`, `{"role":"assistant","content":[{"type":"text","text":"Hel"}]}`} {
		var e LLMEvent
		if err := json.Unmarshal([]byte(`{"type":"text_delta","partial":`+partial+`,"delta":"Hel","unknown":{}}`), &e); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(LLMEvent{Type: LLMTextDelta, Delta: "Hel"}, e); diff != "" {
			t.Errorf("%s: %s", partial, diff)
		}
	}
}

func TestEventsAreWrittenAsRead(t *testing.T) {
	t.Parallel()
	for _, want := range []string{
		`{"type":"start"}`,
		`{"type":"text_delta","delta":"Hel"}`,
		`{"type":"functioncall_start","id":"toolu_1","function_id":"agent_trigger"}`,
		`{"type":"thinking_end","signature":"s"}`,
		`{"type":"usage","usage":{"input":12,"output":3}}`,
		`{"type":"stop","stop_reason":"end"}`,
		`{"type":"stop","stop_reason":"error","error_message":"m","error_kind":"transient"}`,
		`{"type":"done","message":{"role":"assistant","content":[{"type":"text","text":"Hello"}],"stop_reason":"end","error_message":null,"error_kind":null,"usage":{"input":12,"output":3,"cache_read":0,"cache_write":0},"model":"claude-sonnet-4-6","provider":"anthropic","timestamp":1780000001000}}`,
		`{"type":"error","retry_after_ms":7000,"error":{"role":"assistant","content":[],"stop_reason":"error","error_message":"e","error_kind":"rate_limited","usage":null,"model":"","provider":"","timestamp":0}}`,
		`{"type":"snapshot","kind":"text","text":"so far","more":true}`,
	} {
		var e LLMEvent
		if err := json.Unmarshal([]byte(want), &e); err != nil {
			t.Fatal(err)
		}
		got, err := encode(e)
		if diff := cmp.Diff(want, string(got)); diff != "" || err != nil {
			t.Errorf("%v %s", err, diff)
		}
	}
}

var fuzzKinds = []string{
	LLMStart, LLMTextStart, LLMTextDelta, LLMTextEnd, LLMThinkingStart, LLMThinkingDelta, LLMThinkingEnd, LLMFunctionCallStart, LLMFunctionCallDelta, LLMFunctionCallEnd,
	LLMUsage, LLMStop, LLMTextDelta, LLMFunctionCallDelta, "unknown", LLMDone, LLMError,
}

// FuzzAccumulator reads the input as a stream of events: a byte for the kind,
// one for the id, one for the length of the text, the text.
func FuzzAccumulator(f *testing.F) {
	f.Add([]byte("\x01\x00\x00\x02\x00\x03abc\x02\x00\x02de\x0f\x00\x00"))
	f.Add([]byte("\x07\x01\x00\x07\x02\x00\x08\x01\x02{}\x08\x02\x01{\x09\x00\x00\x10\x00\x00\x02\x00\x01x"))
	f.Add([]byte("\x05\x00\x02hm\x02\x00\x01a\x06\x05\x01s\x0a\x01\x00\x0b\x01\x02\xc3\xa9"))
	f.Fuzz(func(t *testing.T, data []byte) {
		a := NewAccumulator("p", "m", 1)
		texts := map[int]string{}
		blocks, done := 0, false
		for len(data) >= 3 {
			n := min(int(data[2])%9, len(data)-3)
			e := LLMEvent{Type: fuzzKinds[int(data[0])%len(fuzzKinds)], Delta: strings.ToValidUTF8(string(data[3:3+n]), "?")}
			if id := data[1] % 4; id > 0 {
				e.ID, e.Signature, e.Usage = fmt.Sprint(id), "s", usage(int64(id), 1)
			}
			data = data[3+n:]
			before := a.Message()
			d, ok := a.Apply(e)
			after := a.Message()
			if ok != (!done && strings.HasSuffix(e.Type, "_delta")) {
				t.Fatalf("%+v: ok = %v", e, ok)
			}
			if done && cmp.Diff(before, after) != "" {
				t.Fatalf("%+v changed a final message", e)
			}
			if len(after.Content) < blocks || len(after.Content) > blocks+1 {
				t.Fatalf("%+v: from %d to %d blocks", e, blocks, len(after.Content))
			}
			blocks = len(after.Content)
			if ok {
				if d.Offset != utf8.RuneCountInString(texts[d.Block]) {
					t.Fatalf("%+v went to %+v, where %q is", e, d, texts[d.Block])
				}
				texts[d.Block] += e.Delta
			}
			done = done || e.Type == LLMDone || e.Type == LLMError
			if a.Done() != done {
				t.Fatalf("%+v: done = %v", e, a.Done())
			}
		}
		m := a.Message()
		for i, b := range m.Content {
			want := texts[i]
			if b.Type == BlockFunctionCall {
				if got := string(b.Arguments); got != string(streamed(want)) {
					t.Fatalf("block %d has the arguments %s of %q", i, got, want)
				}
			} else if b.Text != want {
				t.Fatalf("block %d has %q, want %q", i, b.Text, want)
			}
		}
		out, err := encode(m)
		var again Message
		if err != nil || json.Unmarshal(out, &again) != nil {
			t.Fatalf("%v: %s", err, out)
		}
	})
}
