package agent

import (
	"encoding/json"
	"testing"
)

func TestRepeaterAddsTheMessageSoFar(t *testing.T) {
	t.Parallel()
	r := NewRepeater()
	for _, tt := range []struct {
		in   string
		text string // of the partial, - for none
	}{
		{`{"type":"start"}`, ""},
		{`{"type":"text_start"}`, ""},
		{`{"type":"text_delta","delta":"Hel"}`, "Hel"},
		{`{"type":"text_delta","delta":"lo","partial":{"role":"assistant","content":[]}}`, "Hello"},
		{`{"type":"usage","usage":{"input":1}}`, "-"},
		{`{"type":"text_end"}`, "Hello"},
		{`{"type":"stop","stop_reason":"end"}`, "-"},
		{`{"type":"done","message":{"role":"assistant","content":[],"stop_reason":"end","timestamp":1}}`, "-"},
		{`{"type":"set_status","status_code":201}`, "-"},
		{`hello`, "-"},
		{`[1]`, "-"},
	} {
		out := r.Next([]byte(tt.in))
		if tt.text == "-" {
			if string(out) != tt.in {
				t.Errorf("%s became %s", tt.in, out)
			}
			continue
		}
		var e struct {
			Type    string
			Partial *Message
		}
		if err := json.Unmarshal(out, &e); err != nil || e.Partial == nil {
			t.Fatalf("%s became %s, %v", tt.in, out, err)
		}
		got := ""
		for _, b := range e.Partial.Content {
			got += b.Text
		}
		if got != tt.text || e.Partial.Role != RoleAssistant {
			t.Errorf("%s: partial %q, want %q", tt.in, got, tt.text)
		}
	}
}
