package step

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/internal/agent"
)

func TestUnwrap(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, in, id, args string
		ok                 bool
	}{
		{"plain", `{"function":"a::b","payload":{"x":1}}`, "a::b", `{"x":1}`, true},
		{"no payload", `{"function":"a::b"}`, "a::b", `{}`, true},
		{"null payload", `{"function":"a::b","payload":null}`, "a::b", `{}`, true},
		{"arguments as text", `"{\"function\":\"a::b\",\"payload\":{\"x\":1}}"`, "a::b", `{"x":1}`, true},
		{"payload as text", `{"function":"a::b","payload":" {\"x\":1} "}`, "a::b", `{"x":1}`, true},
		{"payload as text of an array", `{"function":"a::b","payload":"[1]"}`, "a::b", `[1]`, false},
		{"payload as broken text", `{"function":"a::b","payload":"{x"}`, "a::b", `"{x"`, false},
		{"payload as a word", `{"function":"a::b","payload":"x"}`, "a::b", `"x"`, false},
		{"payload as empty text", `{"function":"a::b","payload":""}`, "a::b", `""`, false},
		{"array", `[1]`, "", `[1]`, false},
		{"null", `null`, "", `{}`, false},
		{"nothing", ``, "", `{}`, false},
		{"names are exact", `{"Function":"x::y","function":"a::b","Payload":{"x":2},"payload":{"x":1},"PAYLOAD":{}}`, "a::b", `{"x":1}`, true},
		{"caller made up", `{"function":"a::b","payload":{"x":1,"_caller_worker_id":"w","_Caller_worker_\u0069d":"w"}}`, "a::b", `{"x":1}`, true},
		{"caller made up in broken text", "{\"function\":\"a::b\",\"payload\":{\"x\":\"\xff\",\"_caller_worker_id\":\"w\"}}", "a::b", `{}`, true},
		{"function no text", `{"function":7,"payload":{"x":1}}`, "", `{"x":1}`, true},
	} {
		id, args, ok := Unwrap(agent.Block{Arguments: json.RawMessage(tc.in)})
		if id != tc.id || string(args) != tc.args || ok != tc.ok {
			t.Errorf("%s: %q %s %v, want %q %s %v", tc.name, id, args, ok, tc.id, tc.args, tc.ok)
		}
	}
}

func TestPlanRefuses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		b    agent.Block
		stop agent.StopReason
		want string
	}{
		{"fine", call(`{"function":"a::b"}`), agent.StopFunctionCall, ""},
		{"stop reason does not matter", call(`{"function":"a::b"}`), agent.StopEnd, ""},
		{"cut", call(`{"function":"a::b"}`), agent.StopLength, CodeTruncated},
		{"cut and broken", call(`null`), agent.StopLength, CodeTruncated},
		{"another tool", agent.Block{Type: agent.BlockFunctionCall, FunctionID: "bash", Arguments: json.RawMessage(`{}`)}, agent.StopFunctionCall, CodeUnknownTool},
		{"broken", call(`null`), agent.StopFunctionCall, CodeInvalidArguments},
		{"no object", call(`[]`), agent.StopFunctionCall, CodeInvalidArguments},
		{"no function", call(`{}`), agent.StopFunctionCall, CodeMissingFunction},
		{"payload", call(`{"function":"a::b","payload":7}`), agent.StopFunctionCall, CodeInvalidArguments},
	} {
		r := streaming(t)
		m := message(tc.stop, agent.Text("x"), tc.b)
		r.Adopt(&m)
		r.AssistantFinished(Reply{Message: m}, t0)
		p := r.Work.Prepared[0]
		if p.Block != 1 || p.Call.ID != CallID("s1", r.Run, 1, 1) {
			t.Errorf("%s: prepared %+v", tc.name, p)
		}
		if tc.want == "" {
			if p.Route != Dispatch || p.Result != nil {
				t.Errorf("%s: prepared %+v", tc.name, p)
			}
			continue
		}
		if p.Route != Synthetic || !strings.Contains(string(p.Result.Raw), tc.want) {
			t.Errorf("%s: prepared %+v", tc.name, p)
		}
	}
}

func TestAdoptKeepsTheProvidersIDs(t *testing.T) {
	t.Parallel()
	r := streaming(t)
	own := call(`{}`)
	own.ProviderCallID = "kept"
	m := message(agent.StopFunctionCall, agent.Text("x"), call(`{}`), own)
	r.Adopt(&m)
	if m.Content[1].ProviderCallID != "theirs" || m.Content[2].ProviderCallID != "kept" || m.Content[1].ID == m.Content[2].ID || m.Content[0].ID != "" {
		t.Errorf("blocks %+v", m.Content)
	}
}

func TestFromReply(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, reply, text, details string
		terminate, isError         bool
	}{
		{"result", `{"content":[{"type":"text","text":"a"}],"details":{"d":1},"terminate":true}`, "a", `{"d":1}`, true, false},
		{"result without details", `{"content":[{"type":"text","text":"a"}]}`, "a", `{}`, false, false},
		{"result with null details", `{"content":[{"type":"text","text":"a"}],"details":null,"terminate":"yes"}`, "a", `{}`, false, false},
		{"empty result", `{"content":[]}`, "", `{}`, false, false},
		{"result that is an error", `{"content":[],"details":{"error":"x"}}`, "", `{"error":"x"}`, false, true},
		{"result that was denied", `{"content":[],"details":{"status":"denied"}}`, "", `{"status":"denied"}`, false, true},
		{"content no array", `{"content":"x"}`, `{"content":"x"}`, `{"content":"x"}`, false, false},
		{"content no blocks", `{"content":[1]}`, `{"content":[1]}`, `{"content":[1]}`, false, false},
		{"text", `"plain"`, "plain", `"plain"`, false, false},
		{"number", `7`, "7", `7`, false, false},
		{"null", `null`, "null", `null`, false, false},
		{"nothing", ``, "null", `null`, false, false},
		{"object", `{"a":1}`, `{"a":1}`, `{"a":1}`, false, false},
		{"object with an error", `{"error":"x"}`, `{"error":"x"}`, `{"error":"x"}`, false, true},
		{"error no text", `{"error":7}`, `{"error":7}`, `{"error":7}`, false, false},
	} {
		o := FromReply(json.RawMessage(tc.reply))
		text := ""
		for _, b := range o.Result.Content {
			text += b.Text
		}
		if text != tc.text || string(o.Result.Details) != tc.details || o.Result.Terminate != tc.terminate || o.IsError != tc.isError {
			t.Errorf("%s: %+v, details %s", tc.name, o, o.Result.Details)
		}
	}
}

func TestFromError(t *testing.T) {
	t.Parallel()
	c := Call{ID: "c1", FunctionID: "w::f"}
	for _, tc := range []struct {
		name, code, message string
		want                map[string]any
	}{
		{"not found", "function_not_found", "Function w::f not found", map[string]any{"error": "function_not_found", "function": "w::f"}},
		{"not found in words", "x", "function_not_found", map[string]any{"error": "function_not_found"}},
		{"timeout", "timeout", "late", map[string]any{"error": "timeout", "message": "late", "function": "w::f"}},
		{"client timeout", "TIMEOUT", "late", map[string]any{"error": "timeout"}},
		{"timeout in words", "x", "Timeout after 3 s", map[string]any{"error": "timeout"}},
		{"timed out", "x", "the call timed out", map[string]any{"error": "timeout"}},
		{"stopped", "invocation_stopped", "x", map[string]any{"error": "outcome_unknown", "idempotency_key": "c1"}},
		{"not sent", "channel_send_failed", "x", map[string]any{"error": "outcome_unknown"}},
		{"handler error", "invocation_failed", `{"code":"S1","message":"m","fix":"f"}`, map[string]any{"error": "handler_error", "code": "S1", "message": "m", "fix": "f"}},
		{"handler error behind codes", "invocation_failed", `invocation_failed: S1: {"code":"S1","message":"m","error":"mine"}`, map[string]any{"error": "handler_error", "code": "S1"}},
		{"JSON without a code", "x", `{"message":"m"}`, map[string]any{"denied_by": "gate_unavailable", "reason": `trigger_failed: x: {"message":"m"}`}},
		{"anything", "x", "boom", map[string]any{"denied_by": "gate_unavailable", "status": "denied", "reason": "trigger_failed: x: boom", "function_id": "w::f", "schema_version": 1.0}},
	} {
		o := FromError(c, tc.code, tc.message)
		var d map[string]any
		if err := json.Unmarshal(o.Result.Details, &d); err != nil || !o.IsError {
			t.Fatalf("%s: %s %v", tc.name, o.Result.Details, err)
		}
		for k, v := range tc.want {
			if d[k] != v {
				t.Errorf("%s: %s is %v, want %v", tc.name, k, d[k], v)
			}
		}
	}
}

func TestHint(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ id, want string }{
		{"shell/skills/shell/fs/ls", "Did you mean shell::fs::ls?"},
		{"shell/ls", "Did you mean shell::ls?"},
		{"shell/index", "Ids of skills are not function ids"},
		{"shell/skills/other/ls", "Ids of skills are not function ids"},
		{"/ls", "Ids of skills are not function ids"},
		{"shell::ls", "directory::skills::get"},
	} {
		got := Hint(tc.id)
		if !strings.Contains(got, tc.want) || (strings.Contains(tc.id, "/") && !strings.Contains(got, "not function ids")) {
			t.Errorf("%s: %q", tc.id, got)
		}
	}
}

func TestDenials(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		d    Denial
		want string
		text string
		term bool
	}{
		{"rule", Denial{By: DeniedByPermissions, FunctionID: "f", RuleID: "r", RuleAction: "deny", Excerpt: json.RawMessage(`{"a":1}`),
			Matched: &Matched{Field: "command", Operator: "matches", Value: json.RawMessage(`"^rm"`)}},
			`{"schema_version":1,"status":"denied","denied_by":"permissions","function_id":"f","rule_id":"r","rule_action":"deny","matched_constraint":{"field":"command","operator":"matches","value":"^rm"},"args_excerpt":{"a":1},"reason":"The rule \"r\" does not permit f because its argument \"command\" matches \"^rm\". Use other arguments, or another function."}`,
			`The rule "r" does not permit f because its argument "command" matches "^rm". Use other arguments, or another function.`, false},
		{"rule with a reason", Denial{By: DeniedByPermissions, FunctionID: "f", RuleID: "r", RuleAction: "deny", Reason: "why"},
			`{"schema_version":1,"status":"denied","denied_by":"permissions","function_id":"f","rule_id":"r","rule_action":"deny","reason":"why"}`, "why", false},
		{"person", Denial{By: DeniedByUser, FunctionID: "f", Excerpt: json.RawMessage(`{}`), Reason: "not today", Decision: "deny"},
			`{"schema_version":1,"status":"denied","denied_by":"user","function_id":"f","args_excerpt":{},"reason":"not today","approval_denied":true,"decision":"deny"}`,
			"Denied by the user: not today", false},
		{"abort", Denial{By: DeniedByUser, FunctionID: "f", Reason: "session_aborted", Decision: "aborted"},
			`{"schema_version":1,"status":"denied","denied_by":"user","function_id":"f","reason":"session_aborted","approval_denied":true,"decision":"aborted"}`,
			"Aborted: session_aborted", true},
		{"gate", Denial{By: DeniedByGate, FunctionID: "f", Reason: "policy unreachable: x"},
			`{"schema_version":1,"status":"denied","denied_by":"gate_unavailable","function_id":"f","reason":"policy unreachable: x"}`, "policy unreachable: x", false},
	} {
		o := tc.d.Outcome()
		if diff := cmp.Diff(tc.want, string(o.Result.Details)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
		if o.Result.Content[0].Text != tc.text || o.Result.Terminate != tc.term || !o.IsError {
			t.Errorf("%s: %+v", tc.name, o)
		}
	}
}

// Whatever the model sends, each of its calls gets a place in the batch, and
// what is dispatched has an object for arguments.
func FuzzPlan(f *testing.F) {
	for _, s := range []string{`{"function":"a::b","payload":{}}`, `"{}"`, `null`, `[]`, `{"function":"a","payload":"{\"x\":1}"}`, `{"a":1,"a":2}`, `7`, ``} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, args string) {
		raw := agent.Arguments([]byte(args))
		r := streaming(t)
		m := message(agent.StopFunctionCall, call(string(raw)))
		r.Adopt(&m)
		r.AssistantFinished(Reply{Message: m}, t0)
		p := r.Work.Prepared[0]
		if p.Route == Dispatch && (p.Call.FunctionID == "" || !isObject(p.Call.Arguments.Raw)) {
			t.Errorf("dispatched %+v", p)
		}
		if p.Route == Synthetic && p.Result == nil {
			t.Errorf("no result: %+v", p)
		}
		if _, err := Parse(r.Encode(), 1); err != nil {
			t.Errorf("the record cannot be read: %v", err)
		}
	})
}

// A record is read or refused, never misread into a panic.
func FuzzParse(f *testing.F) {
	r, _ := Parse([]byte(`{"session_id":"s","v":1,"state":"stopped"}`), 1)
	f.Add([]byte(r.Encode()))
	f.Add([]byte(`{"v":1,"state":"function_execute","work":{"prepared":[{"call":{"id":"x"}}],"executed":{"x":{"result":7}}},"outbox":{"items":[{"kind":"event"}]}}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Parse(data, 1)
		if err != nil || r == nil {
			return
		}
		text := r.Encode()
		if !json.Valid(text) {
			t.Errorf("encoded %s", text)
		}
		if _, err := Parse(text, 1); err != nil {
			t.Errorf("what was encoded cannot be read: %v", err)
		}
	})
}
