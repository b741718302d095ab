package session

import (
	"strings"
	"testing"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/internal/agent"
)

// The summary is that of the last message, whatever stands behind it.
func TestSummaryIsOfTheLastMessage(t *testing.T) {
	t.Parallel()
	note := `{"role":"custom","custom_type":"note","content":[{"type":"text","text":"n"}],"timestamp":1}`
	image := `{"role":"user","content":[{"type":"image","mime":"image/png","data":"x"},{"type":"text","text":"look"}],"timestamp":1}`
	for name, tt := range map[string]struct {
		messages []string
		behind   []EntryType
		want     string
	}{
		"a user's words":          {messages: []string{assistant(), user("hi")}, want: "hi"},
		"an assistant's":          {messages: []string{user("hi"), assistant()}, want: "ok"},
		"behind a compaction":     {messages: []string{user("hi")}, behind: []EntryType{TypeCompaction, TypeBranchSummary}, want: "hi"},
		"the first text block":    {messages: []string{image}, want: "look"},
		"a custom message":        {messages: []string{user("hi"), note}},
		"a function result":       {messages: []string{assistant("c"), result("c")}},
		"no message":              {},
		"nothing but compactions": {behind: []EntryType{TypeCompaction}},
	} {
		f, m := memoryFixture(t)
		for _, msg := range tt.messages {
			f.must(alice, "session-tree::append", appendJSON("s1", "", "", msg))
		}
		h, _, err := f.head(t.Context(), "s1")
		if err != nil {
			t.Fatal(err)
		}
		for _, typ := range tt.behind {
			e := Entry{ID: "x" + string(typ), Timestamp: h.Last + 1, Type: typ, Summary: "s"}
			if leaf := h.Leaf; leaf != "" {
				e.ParentID = &leaf
			}
			m.set(agent.ScopeSessionTree+"s1", e.ID, string(encode(e)))
			h.Leaf, h.Last, h.Count = e.ID, e.Timestamp, h.Count+1
			m.set(scopeHead, "s1", string(encode(h)))
		}
		f.must(alice, "session-tree::touch", `{"session_id":"s1"}`)
		meta, _, err := f.meta(t.Context(), "s1")
		if err != nil || meta.Summary != tt.want || meta.EntryCount != len(tt.messages)+len(tt.behind) {
			t.Errorf("%s: meta %+v, %v", name, meta, err)
		}
	}
}

func TestTouchNeverGoesBack(t *testing.T) {
	t.Parallel()
	f, _ := memoryFixture(t)
	f.clock.Advance(time.Hour)
	f.must(alice, "session-tree::touch", `{"session_id":"s1"}`)
	f.clock.Jump(-2 * time.Hour)
	f.must(alice, "session-tree::touch", `{"session_id":"s1"}`)
	if m, _, err := f.meta(t.Context(), "s1"); err != nil || m.UpdatedAt != 1_780_003_600_000 {
		t.Errorf("meta %+v, %v", m, err)
	}
}

// What is wrong with a message is named.
func TestInvalidMessagesAreNamed(t *testing.T) {
	t.Parallel()
	f, _ := memoryFixture(t)
	for name, tt := range map[string]struct{ id, data, want string }{
		"role":       {"session-tree::append", `{"session_id":"s1","message":{"role":"king"}}`, "invalid message.role: must be "},
		"content":    {"session-tree::append", `{"session_id":"s1","message":{"role":"user","content":7}}`, "invalid message.content: must be "},
		"type":       {"session-tree::append", `{"session_id":"s1","message":{"role":7}}`, "invalid message.role: must be "},
		"no object":  {"session-tree::append", `{"session_id":"s1","message":"text"}`, "invalid message: must be a message of role user, assistant, function_result or custom"},
		"missing":    {"session-tree::append", `{"session_id":"s1"}`, "missing required field: message"},
		"no session": {"session-tree::append", `{"message":{}}`, "missing required field: session_id"},
		"entry id":   {"session-tree::append", appendJSON("s1", "", "a/b", user("x")), "invalid entry_id: must be printable characters without a slash"},
		"the second": {"session-tree::append_batch", `{"session_id":"s1","messages":[` + user("x") + `,{"role":"king"}]}`, "invalid messages[1].role: must be "},
		"no list":    {"session-tree::append_batch", `{"session_id":"s1"}`, "missing required field: messages"},
		"an item":    {"session-inbox::push", `{"name":"steering","session_id":"s1","item":{"role":"user","content":7}}`, "invalid item.content: must be "},
		"item role":  {"session-inbox::push", `{"name":"steering","session_id":"s1","item":` + assistant() + `}`, "invalid item.role: must be user"},
		"inbox":      {"session-inbox::peek", `{"name":"spam","session_id":"s1"}`, "invalid name: must be steering or followup"},
	} {
		_, err := f.invoke(bus.Call{Principal: alice}, tt.id, tt.data)
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) || bus.Code(err) != "invalid_payload" {
			t.Errorf("%s: error %v, want %s", name, err, tt.want)
		}
	}
	_, err := f.invoke(bus.Call{Principal: bob}, "session-tree::messages", `{"session_id":"s1"}`)
	if err == nil || !strings.Contains(err.Error(), "session s1: not_found") {
		t.Errorf("error %v", err)
	}
}
