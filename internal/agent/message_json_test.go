package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// samples are messages as they are on the wire, byte for byte.
var samples = map[string]string{
	"user":      `{"role":"user","content":[{"type":"text","text":"list files"}],"timestamp":1780000000000}`,
	"assistant": `{"role":"assistant","content":[{"type":"text","text":"ok"},{"type":"function_call","id":"toolu_1","function_id":"agent_trigger","arguments":{"function":"shell::fs::ls","payload":{"path":"/tmp"}}}],"stop_reason":"function_call","error_message":null,"error_kind":null,"usage":{"input":900,"output":40,"cache_read":0,"cache_write":0},"model":"claude-sonnet-4-6","provider":"anthropic","timestamp":1780000001000}`,
	"result":    `{"role":"function_result","function_call_id":"toolu_1","function_id":"shell::fs::ls","content":[{"type":"text","text":"a.txt"}],"details":{},"is_error":false,"timestamp":1780000002000}`,
	"custom":    `{"role":"custom","custom_type":"note","content":[],"display":"optional","details":{},"timestamp":1780000003000}`,
	"every block": `{"role":"user","content":[{"type":"image","mime":"image/png","data":"aGk="},{"type":"thinking","text":"hm","signature":"s"},{"type":"thinking","text":""},{"type":"redacted_thinking","data":"x"},` +
		`{"type":"function_call","id":"c1","provider_call_id":"p/1","function_id":"f","arguments":null},{"type":"function_result","function_call_id":"c1","content":[{"type":"text","text":"t"}],"is_error":true},{"type":"function_result","function_call_id":"c1","content":[]}],"timestamp":0}`,
	"interrupted": `{"role":"assistant","content":[],"stop_reason":"error","error_message":"a <b> & c","error_kind":"transient","usage":{"cost_usd":0.25},"model":"","provider":"","details":{"interrupted":true},"timestamp":-1}`,
	"numbers":     `{"role":"function_result","function_call_id":"c","function_id":"f","content":[],"details":{"n":12345678901234567890123,"f":1.10,"e":1e400},"is_error":true,"timestamp":9223372036854775807}`,
	"unknown":     `{"role":"user","content":[{"type":"server_tool_use","id":1,"nested":{"z":[1,2],"a":"<>"}},{"text":"no order","type":"later"}],"timestamp":1}`,
	"details":     `{"role":"custom","custom_type":"","content":[],"details":[1,"two",false],"timestamp":0}`,
}

func TestMessagesAreWrittenByteForByteAsRead(t *testing.T) {
	t.Parallel()
	for name, in := range samples {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var m Message
			if err := json.Unmarshal([]byte(in), &m); err != nil {
				t.Fatal(err)
			}
			got, err := encode(m)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(in, string(got)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(m, m.Clone()); diff != "" {
				t.Errorf("clone: %s", diff)
			}
		})
	}
}

func TestMessagesAreReadLeniently(t *testing.T) {
	t.Parallel()
	user := func(content string, at string) string {
		return `{"role":"user","content":` + content + `,"timestamp":` + at + `}`
	}
	for _, tt := range []struct{ name, in, want string }{
		{"content is a text", `{"role":"user","content":"hi \u00e9"}`, user(`[{"type":"text","text":"hi é"}]`, "0")},
		{"content is null", `{"role":"user","content":null,"timestamp":1}`, user(`[]`, "1")},
		{"no content", `{"role":"user"}`, user(`[]`, "0")},
		{"unknown members", `{"x":{"y":1},"role":"user","content":[{"type":"text","text":"t","cache_control":{}}]}`, user(`[{"type":"text","text":"t"}]`, "0")},
		{"members of another role", `{"role":"user","content":[],"model":"m","function_call_id":"c","details":{"a":1}}`, user(`[]`, "0")},
		{"members of another block", `{"role":"user","content":[{"type":"text","text":"t","data":"d","signature":"s"}]}`, user(`[{"type":"text","text":"t"}]`, "0")},
		{"timestamp with a fraction", `{"role":"user","content":[],"timestamp":1780000000000.75}`, user(`[]`, "1780000000000")},
		{"timestamp with an exponent", `{"role":"user","content":[],"timestamp":1.78e12}`, user(`[]`, "1780000000000")},
		{"timestamp that is negative", `{"role":"user","content":[],"timestamp":-5.5}`, user(`[]`, "-5")},
		{"timestamp out of range", `{"role":"user","content":[],"timestamp":1e30}`, user(`[]`, "0")},
		{"timestamp beyond floats", `{"role":"user","content":[],"timestamp":-1e400}`, user(`[]`, "0")},
		{"timestamp just out of range", `{"role":"user","content":[],"timestamp":9223372036854775808}`, user(`[]`, "0")},
		{"timestamp null", `{"role":"user","content":[],"timestamp":null}`, user(`[]`, "0")},
		{"bytes that are no UTF-8", "{\"role\":\"user\",\"content\":[{\"type\":\"new\",\"a\":\"\xff\"},{\"type\":\"text\",\"text\":\"\xff\"}]}", user(`[{"type":"new","a":"�"},{"type":"text","text":"�"}]`, "0")},
		{
			"assistant that says only what it said", `{"role":"assistant","content":"hi"}`,
			`{"role":"assistant","content":[{"type":"text","text":"hi"}],"stop_reason":"end","error_message":null,"error_kind":null,"usage":null,"model":"","provider":"","timestamp":0}`,
		},
		{
			"usage with fractions and nulls", `{"role":"assistant","content":[],"usage":{"input":9.9,"output":null,"cost_usd":1e-3,"total":7}}`,
			`{"role":"assistant","content":[],"stop_reason":"end","error_message":null,"error_kind":null,"usage":{"input":9,"cost_usd":0.001},"model":"","provider":"","timestamp":0}`,
		},
		{
			"result without details", `{"role":"function_result","content":[],"details":null}`,
			`{"role":"function_result","function_call_id":"","function_id":"","content":[],"details":{},"is_error":false,"timestamp":0}`,
		},
		{
			"call without arguments", `{"role":"custom","content":[{"type":"function_call","id":"c","function_id":"f"}],"details":null}`,
			`{"role":"custom","custom_type":"","content":[{"type":"function_call","id":"c","function_id":"f","arguments":{}}],"timestamp":0}`,
		},
		{
			"nested result with a text", `{"role":"user","content":[{"type":"function_result","function_call_id":"c","content":"t"}]}`,
			user(`[{"type":"function_result","function_call_id":"c","content":[{"type":"text","text":"t"}]}]`, "0"),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var m Message
			if err := json.Unmarshal([]byte(tt.in), &m); err != nil {
				t.Fatal(err)
			}
			got, err := encode(m)
			if diff := cmp.Diff(tt.want, string(got)); diff != "" || err != nil {
				t.Errorf("%v %s", err, diff)
			}
		})
	}
}

func nested(depth int) string {
	return `{"role":"user","content":` + strings.Repeat(`[{"type":"function_result","content":`, depth) + `[]` + strings.Repeat(`}]`, depth) + `}`
}

func TestWhatIsNoMessageIsNamed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, in, field, allowed, got string }{
		{"no role", `{}`, "role", roles, ""},
		{"unknown role", `{"role":"system","content":[]}`, "role", roles, "system"},
		{"long role", `{"role":"` + strings.Repeat("é", 41) + `"}`, "role", roles, strings.Repeat("é", 40) + "…"},
		{"role of a wrong type", `{"role":1}`, "role", "a text", "number"},
		{"no object", `[]`, "message", "an object", "array"},
		{"content is a number", `{"role":"user","content":5}`, "content", "an array of blocks or a text", "5"},
		{"block is null", `{"role":"user","content":[null]}`, "content[0]", "an object with a type", "null"},
		{"block is a text", `{"role":"user","content":[{"type":"text","text":""},"x"]}`, "content[1]", "an object with a type", `"x"`},
		{"block without a type", `{"role":"user","content":[{}]}`, "content[0].type", "a block type such as text", ""},
		{"type is no text", `{"role":"user","content":[{"type":{}}]}`, "content[0].type", "a text", "object"},
		{"text is no text", `{"role":"user","content":[{"type":"text","text":[]}]}`, "content[0].text", "a text", "array"},
		{"flag is no flag", `{"role":"user","content":[{"type":"function_result","is_error":"yes"}]}`, "content[0].is_error", "true or false", "string"},
		{"nested text is no text", `{"role":"user","content":[{"type":"function_result","content":[{"type":"text","text":1}]}]}`, "content[0].content[0].text", "a text", "number"},
		{"timestamp is a text", `{"role":"user","timestamp":"2026-12-01"}`, "timestamp", "a number", "string"},
		{"timestamp is a number in quotes", `{"role":"user","timestamp":"5"}`, "timestamp", "a number", "string"},
		{"timestamp is an object", `{"role":"user","timestamp":{}}`, "timestamp", "a number", "object"},
		{"timestamp is an array", `{"role":"user","timestamp":[]}`, "timestamp", "a number", "array"},
		{"timestamp is a bool", `{"role":"user","timestamp":true}`, "timestamp", "a number", "bool"},
		{"usage is a number", `{"role":"assistant","usage":5}`, "usage", "an object", "number"},
		{"count is a text", `{"role":"assistant","usage":{"input":"5"}}`, "usage.input", "a number", "string"},
		{"cost is a text", `{"role":"assistant","usage":{"cost_usd":"5"}}`, "usage.cost_usd", "a number", "string"},
		{"too deep", nested(MaxNesting + 1), "content[0]" + strings.Repeat(".content[0]", MaxNesting) + ".content", "results nested at most 8 deep", "deeper"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := User("kept", 7)
			err := json.Unmarshal([]byte(tt.in), &m)
			var e *MessageError
			if !errors.As(err, &e) {
				t.Fatalf("error = %v, want a *MessageError", err)
			}
			if diff := cmp.Diff(MessageError{Field: tt.field, Allowed: tt.allowed, Got: tt.got}, *e); diff != "" {
				t.Error(diff)
			}
			if e.ErrorCode() != "invalid_payload" || e.Retryable() || !strings.Contains(e.Error(), tt.field+" is ") {
				t.Errorf("code %q, retryable %v, text %q", e.ErrorCode(), e.Retryable(), e)
			}
			if diff := cmp.Diff(User("kept", 7), m); diff != "" {
				t.Errorf("a refused message left traces: %s", diff)
			}
		})
	}
	var m Message
	if err := json.Unmarshal([]byte(nested(MaxNesting)), &m); err != nil {
		t.Errorf("nested as deep as allowed: %v", err)
	}
}

func TestDecodersSayWhatIsNoJSON(t *testing.T) {
	t.Parallel()
	var m Message
	var b Block
	var u Usage
	var e LLMEvent
	for name, f := range map[string]func([]byte) error{"message": m.UnmarshalJSON, "usage": u.UnmarshalJSON, "event": e.UnmarshalJSON, "block": b.UnmarshalJSON} {
		for _, in := range []string{``, `{`, `{"type":"text",}`} {
			if err := f([]byte(in)); err == nil {
				t.Errorf("%s: %q was read", name, in)
			}
		}
	}
	var me *MessageError
	if err := m.UnmarshalJSON([]byte(`{"role"`)); !errors.As(err, &me) || me.Field != "message" || me.Unwrap() == nil {
		t.Errorf("error = %#v", err)
	}
	if err := (*whole)(new(int64)).UnmarshalJSON(nil); err == nil {
		t.Error("nothing is a number")
	}
}

func TestBlocksAlone(t *testing.T) {
	t.Parallel()
	var b Block
	if err := json.Unmarshal([]byte(`{"type":"text","text":"t"}`), &b); err != nil || b.Text != "t" {
		t.Errorf("%+v, %v", b, err)
	}
	var e *MessageError
	if err := json.Unmarshal([]byte(`{"type":"text","text":3}`), &b); !errors.As(err, &e) || e.Field != "block.text" || b.Text != "t" {
		t.Errorf("%+v, %v", b, err)
	}
}

func TestWhatCannotBeWritten(t *testing.T) {
	t.Parallel()
	for name, v := range map[string]any{
		"role":           Message{Role: "system"},
		"no role":        Message{},
		"block":          User("", 0).with(Block{Type: "invented"}),
		"arguments":      User("", 0).with(Block{Type: BlockFunctionCall, Arguments: json.RawMessage(`{`)}),
		"block in block": User("", 0).with(Block{Type: BlockFunctionResult, Content: []Block{{}}}),
	} {
		if b, err := json.Marshal(v); err == nil {
			t.Errorf("%s: written as %s", name, b)
		}
	}
}

func (m Message) with(b ...Block) Message {
	m.Content = b
	return m
}

func TestAbsentListsAreWrittenEmpty(t *testing.T) {
	t.Parallel()
	for want, v := range map[string]any{
		`{"content":[],"details":{},"terminate":false}`:                                                                                                      FunctionResult{},
		`{"content":[{"type":"text","text":"t"}],"details":7,"terminate":true}`:                                                                              FunctionResult{Content: []Block{Text("t")}, Details: json.RawMessage(`7`), Terminate: true},
		`{"content":[{"type":"function_result","function_call_id":"","content":[]}],"details":{},"terminate":false}`:                                         FunctionResult{Content: []Block{{Type: BlockFunctionResult}}, Details: json.RawMessage(` null `)},
		`{"content":[{"type":"function_call","id":"","function_id":"","arguments":{}}],"details":{},"terminate":false}`:                                      FunctionResult{Content: []Block{{Type: BlockFunctionCall}}},
		`{"role":"user","content":[],"timestamp":3}`:                                                                                                         Message{Role: RoleUser, Timestamp: 3},
		`{"role":"assistant","content":[],"stop_reason":"end","error_message":null,"error_kind":null,"usage":null,"model":"m","provider":"p","timestamp":9}`: EmptyAssistant("p", "m", 9),
	} {
		got, err := encode(v)
		if diff := cmp.Diff(want, string(got)); diff != "" || err != nil {
			t.Errorf("%v %s", err, diff)
		}
	}
}

func TestCallsAreTheCallsInOrder(t *testing.T) {
	t.Parallel()
	m := User("", 0).with(Text("a"), Block{Type: BlockFunctionCall, ID: "1"}, Text("b"), Block{Type: BlockFunctionCall, ID: "2"})
	if got := m.Calls(); len(got) != 2 || got[0].ID != "1" || got[1].ID != "2" {
		t.Errorf("calls %+v", got)
	}
}

func TestCloneSharesNothing(t *testing.T) {
	t.Parallel()
	for name, in := range samples {
		var m Message
		if err := json.Unmarshal([]byte(in), &m); err != nil {
			t.Fatal(err)
		}
		c := m.Clone()
		scribble(&c)
		if got, err := encode(m); string(got) != in || err != nil {
			t.Errorf("%s: the copy wrote into the original: %s, %v", name, got, err)
		}
	}
}

// scribble changes all that a message points at.
func scribble(m *Message) {
	var blocks func([]Block)
	blocks = func(list []Block) {
		for i := range list {
			fill(list[i].Raw)
			fill(list[i].Arguments)
			blocks(list[i].Content)
			list[i] = Text("changed")
		}
	}
	blocks(m.Content)
	fill(m.Details)
	if m.ErrorMessage != nil {
		*m.ErrorMessage, *m.ErrorKind = "changed", "changed"
	}
	if u := m.Usage; u != nil {
		for _, n := range []*int64{u.Input, u.Output, u.CacheRead, u.CacheWrite} {
			if n != nil {
				*n = -1
			}
		}
		if u.CostUSD != nil {
			*u.CostUSD = -1
		}
	}
}

func fill(b []byte) {
	for i := range b {
		b[i] = '#'
	}
}

func FuzzMessage(f *testing.F) {
	for _, s := range samples {
		f.Add([]byte(s))
	}
	for _, s := range []string{
		`{"role":"user","content":"x"}`, `{"role":"user","content":[{"type":"text","Type":"x"}]}`, nested(3), nested(9), "{\"role\":\"custom\",\"details\":\"\xff\"}",
		`{"role":"assistant","usage":{"input":1e3,"cost_usd":-0}}`, `{"role":"user","content":[{"type":"\u0000"}]}`, `{"role":"user","content":[{"type":"text","text":"\ud800\u2028<"}]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var m Message
		if err := json.Unmarshal(data, &m); err != nil {
			var e *MessageError
			if json.Valid(data) && !errors.As(err, &e) {
				t.Fatalf("error %T: %v", err, err)
			}
			return
		}
		first, err := encode(m)
		if err != nil {
			t.Fatalf("read but not written: %v", err)
		}
		if !json.Valid(first) || !utf8.Valid(first) || bytes.ContainsRune(first, '\n') {
			t.Fatalf("written as %q", first)
		}
		var again Message
		if err := json.Unmarshal(first, &again); err != nil {
			t.Fatalf("written but not read again: %v\n%s", err, first)
		}
		if second, err := encode(again); err != nil || !bytes.Equal(first, second) {
			t.Fatalf("not stable: %v\n%s\n%s", err, first, second)
		}
		if c, err := encode(m.Clone()); err != nil || !bytes.Equal(c, first) {
			t.Fatalf("the clone differs: %s", c)
		}
	})
}
