package step

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/internal/agent"
)

func TestTextTurnFoldsIntoOneWrite(t *testing.T) {
	t.Parallel()
	r := streaming(t)
	if r.TurnCount != 1 || r.AssistantEntryID() == "" || r.Retries() != 0 {
		t.Errorf("turn %d", r.TurnCount)
	}
	r.AssistantFinished(Reply{Message: message(agent.StopEnd, agent.Text("hello")), BodyStreamed: true}, t0+1)
	r.Steer(Inbox{}, &agent.ModelLimit{Context: 9}, t0+2)
	r.SetDue(t0 + 2)
	items := r.Seal(3)
	if diff := cmp.Diff([]string{"message_complete", ">steering_check", "turn_end", ">stopped", "agent_end"}, told(items)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"entry " + r.LastAssistantID, "call call:session-tree::touch/" + r.Run}, others(items)); diff != "" {
		t.Errorf("owed (-want +got):\n%s", diff)
	}
	if r.State != Stopped || r.DueAt != t0+2+120_000 || r.ShouldWake() || r.Waiting() || !r.Request.IsZero() {
		t.Errorf("record %+v", r)
	}
	for _, it := range items {
		if it.Event == nil {
			continue
		}
		data, err := r.Payload(it.Event, nil)
		if err != nil {
			t.Errorf("%s: %v", it.Event.Type, err)
		}
		switch it.Event.Type {
		case agent.EventTurnEnd:
			if !strings.Contains(string(data), `"model_limit":{"context":9`) || !strings.Contains(string(data), `"function_results":[]`) {
				t.Errorf("turn_end %s", data)
			}
		case agent.EventAgentEnd:
			if string(data) != `{"type":"agent_end","messages":[]}` {
				t.Errorf("agent_end %s", data)
			}
		case agent.EventMessageComplete:
			if !strings.Contains(string(data), `"body_streamed":true`) {
				t.Errorf("message_complete %s", data)
			}
		}
	}
	ids := map[string]bool{}
	for _, it := range items {
		ids[it.ID] = true
	}
	r.Delivered(ids)
	r.SetDue(t0 + 3)
	if r.DueAt != 0 || !r.Outbox.IsZero() || len(r.Outbox.Held) != 0 {
		t.Errorf("due %d, held %v", r.DueAt, r.Outbox.Held)
	}
}

func TestTwoCallsFinishTwice(t *testing.T) {
	t.Parallel()
	r, ids := batch(t, `{"function":"a::b","payload":{"n":1}}`, `{"function":"c::d"}`)
	for _, id := range ids {
		r.Announce(id)
		r.Announce(id)
		r.MarkStarted(id, t0)
	}
	items := r.Seal(3)
	wantTold := []string{"message_complete", ">function_execute", "function_execution_start", "function_execution_start"}
	if diff := cmp.Diff(wantTold, told(items)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if r.Settle() != Run || !r.ShouldWake() {
		t.Errorf("settle %v", r.Settle())
	}
	r.Resolved(ids[1], okOutcome("two"), 7, t0+1)
	r.Resolved(ids[1], okOutcome("twice"), 9, t0+1)
	r.Resolved(ids[0], okOutcome("one"), 5, t0+2)
	if r.Settle() != Finish || len(r.Results()) != 2 {
		t.Errorf("settle %v", r.Settle())
	}
	r.Finalize(nil, nil, t0+3)
	if len(r.FunctionResults) != 2 || r.State != Steering {
		t.Errorf("%d results, state %s", len(r.FunctionResults), r.State)
	}
	r.Steer(Inbox{}, nil, t0+3)
	items = append(items, r.Seal(3)...)
	wantTold = append(wantTold, "function_execution_end", "function_execution_end", "turn_end", ">steering_check", ">assistant_streaming")
	if diff := cmp.Diff(wantTold, told(items)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if len(r.FunctionResults) != 0 || r.Ledger[ids[0]].State != MarkDone || r.Ledger[ids[0]].EntryID == "" || r.Work != nil {
		t.Errorf("record %+v", r)
	}
	// All of it can be told from the stored record.
	stored := again(t, r)
	var got []string
	for _, it := range stored.Outbox.Items {
		if it.Event == nil {
			continue
		}
		data, err := stored.Payload(it.Event, nil)
		if err != nil {
			t.Errorf("%s: %v", it.ID, err)
		}
		switch it.Event.Type {
		case agent.EventExecutionStart, agent.EventExecutionEnd:
			got = append(got, string(data))
		case agent.EventTurnEnd:
			if strings.Index(string(data), `"one"`) > strings.Index(string(data), `"two"`) {
				t.Errorf("results out of order: %s", data)
			}
		}
	}
	want := []string{
		`{"type":"function_execution_start","function_call_id":"` + ids[0] + `","function_id":"a::b","args":{"n":1}}`,
		`{"type":"function_execution_start","function_call_id":"` + ids[1] + `","function_id":"c::d","args":{}}`,
		`{"type":"function_execution_end","function_call_id":"` + ids[1] + `","function_id":"c::d","result":{"content":[{"type":"text","text":"two"}],"details":{},"terminate":false},"is_error":false,"duration_ms":7}`,
		`{"type":"function_execution_end","function_call_id":"` + ids[0] + `","function_id":"a::b","result":{"content":[{"type":"text","text":"one"}],"details":{},"terminate":false},"is_error":false,"duration_ms":5}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls told (-want +got):\n%s", diff)
	}
	// Nothing is kept once it was delivered, in whatever order.
	for i := len(stored.Outbox.Items) - 1; i >= 0; i-- {
		stored.Delivered(map[string]bool{stored.Outbox.Items[i].ID: true})
		for _, it := range stored.Outbox.Items {
			for _, s := range it.sources() {
				if _, ok := stored.Resolve(s); !ok {
					t.Fatalf("%s lost %s", it.ID, s)
				}
			}
		}
	}
	if len(stored.Outbox.Held) != 0 {
		t.Errorf("held %v", stored.Outbox.Held)
	}
}

func TestAfterHookChangesTheTranscriptNotTheEvent(t *testing.T) {
	t.Parallel()
	r, ids := batch(t, `{"function":"a::b"}`)
	r.Resolved(ids[0], okOutcome("secret"), 1, t0)
	r.Finalize(map[string]agent.FunctionResult{ids[0]: {Content: []agent.Block{agent.Text("masked")}, Details: json.RawMessage(`{}`), Terminate: true}}, nil, t0)
	if r.State != Stopped {
		t.Errorf("state %s: every result says that it ends", r.State)
	}
	for source, want := range map[string]string{"r:" + ids[0]: "secret", "f:" + ids[0]: "masked"} {
		if v, ok := r.Resolve(source); !ok || !strings.Contains(string(v.Raw), want) {
			t.Errorf("%s is %s", source, v.Raw)
		}
	}
}

func TestApprovals(t *testing.T) {
	t.Parallel()
	r, ids := batch(t, `{"function":"a::b"}`, `{"function":"c::d"}`)
	delivered(t, r)
	r.Rewrite(ids[1], json.RawMessage(`{"changed":1}`))
	r.Ask(ids[1], json.RawMessage(`{"e":1}`), t0+50, t0)
	r.Ask(ids[0], json.RawMessage(`{}`), 0, t0)
	r.Ask(ids[0], json.RawMessage(`{}`), 0, t0)
	if r.Settle() != Park || r.AwaitingApproval[0].FunctionCallID != ids[0] || string(r.Approval(ids[1]).Args.Raw) != `{"changed":1}` {
		t.Errorf("awaiting %+v", r.AwaitingApproval)
	}
	if v := r.View(); len(v.AwaitingApproval) != 2 || v.AwaitingApproval[0].FunctionID != "a::b" || r.Call("ghost") != nil {
		t.Errorf("view %+v", v)
	}
	r.ParkNow(true, t0)
	r.ParkNow(true, t0)
	r.ParkNow(false, t0)
	r.SetDue(t0 + 1)
	items := delivered(t, r)
	if diff := cmp.Diff([]string{">function_awaiting_approval", ">function_awaiting_approval"}, told(items)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	timer := TimerID("s1", r.Run, "approval", ids[1])
	want := []string{"row row:approval_requests/s1/" + ids[1], "row row:approval_requests/s1/" + ids[0], "timer timer:" + timer}
	if diff := cmp.Diff(want, others(items)); diff != "" {
		t.Errorf("owed (-want +got):\n%s", diff)
	}
	if r.DueAt != t0+1 || !r.Waiting() || r.ShouldWake() || r.DueNow(t0+49) || !r.DueNow(t0+50) || r.NextDue() != t0+50 {
		t.Errorf("due %d, next %d", r.DueAt, r.NextDue())
	}
	r.Approve(ids[1])
	r.Approve(ids[1])
	r.MarkStarted(ids[1], t0+2)
	r.Resume(t0 + 2)
	items = delivered(t, r)
	want = []string{"row unrow:approval_requests/s1/" + ids[1], "timer untimer:" + timer}
	if diff := cmp.Diff(want, others(items)); diff != "" {
		t.Errorf("owed (-want +got):\n%s", diff)
	}
	if r.Call(ids[1]).Route != PreApproved || r.State != Executing {
		t.Errorf("route %s, state %s", r.Call(ids[1]).Route, r.State)
	}
	r.Resume(t0 + 2)
	if r.Pending() {
		t.Error("resumed twice")
	}
}

func TestStoredResults(t *testing.T) {
	t.Parallel()
	r, ids := batch(t, `{"function":"a::b"}`, `{"function":"c::d"}`)
	delivered(t, r)
	r.MarkStarted(ids[0], t0)
	r.MarkStarted(ids[0], t0)
	r.Await(ids[1], t0+90)
	r.Await(ids[0], t0+60)
	r.Await(ids[0], t0+60)
	if r.Ledger[ids[0]].Attempt != 2 || r.Settle() != Park || r.NextDue() != t0+60 || r.DueNow(t0+59) || !r.DueNow(t0+60) || r.AwaitingResult[0].FunctionCallID != ids[0] {
		t.Errorf("record %+v", r.AwaitingResult)
	}
	if v := r.View(); len(v.AwaitingResult) != 2 || v.AwaitingResult[0].DeadlineMS != t0+60 {
		t.Errorf("view %+v", v)
	}
	r.Unwait(ids[1])
	if r.Waited(ids[1]) != nil || r.Settle() != Run {
		t.Errorf("still waits for %s", ids[1])
	}
	r.Resolved(ids[0], okOutcome("late"), 60, t0+60)
	want := []string{
		"timer timer:" + TimerID("s1", r.Run, "result", ids[1]), "timer timer:" + TimerID("s1", r.Run, "result", ids[0]),
		"timer untimer:" + TimerID("s1", r.Run, "result", ids[1]), "timer untimer:" + TimerID("s1", r.Run, "result", ids[0]),
	}
	if diff := cmp.Diff(want, others(delivered(t, r))); diff != "" {
		t.Errorf("owed (-want +got):\n%s", diff)
	}
}

func TestErrorsOfTheModel(t *testing.T) {
	t.Parallel()
	text, kind := "overloaded", agent.ErrTransient
	failed := message(agent.StopError, agent.Text(text), call(`{"function":"a::b"}`))
	failed.ErrorMessage, failed.ErrorKind = &text, &kind
	for _, tc := range []struct {
		name    string
		kept    []agent.Block
		entries int
	}{
		{"nothing shown", nil, 0},
		{"empty text shown", []agent.Block{agent.Text("")}, 0},
		{"text shown", []agent.Block{agent.Text("half"), call(`{}`), {Type: agent.BlockRedactedThinking, Data: "x"}}, 1},
	} {
		r := streaming(t)
		r.AssistantFinished(Reply{Message: failed, Kept: tc.kept}, t0)
		items := r.Seal(0)
		if diff := cmp.Diff([]string{"message_complete", "turn_end", ">stopped", "agent_end"}, told(items)); diff != "" {
			t.Errorf("%s: events (-want +got):\n%s", tc.name, diff)
		}
		n := 0
		for _, it := range items {
			if it.Kind != KindEntry {
				continue
			}
			n++
			v, _ := r.Resolve(it.Source)
			var m agent.Message
			if err := json.Unmarshal(v.Raw, &m); err != nil || len(m.Calls()) != 0 || m.StopReason != agent.StopError || string(m.Details) != `{"interrupted":true}` || len(m.Content) != 2 {
				t.Errorf("%s: entry %s", tc.name, v.Raw)
			}
		}
		if n != tc.entries || r.Work != nil {
			t.Errorf("%s: %d entries, want %d", tc.name, n, tc.entries)
		}
	}
}

func TestPauses(t *testing.T) {
	t.Parallel()
	r := streaming(t)
	r.Pause("rate_limited", t0+7000, t0)
	r.SetDue(t0)
	if r.Wait.N != 1 || r.DueAt != t0+7000 || !r.Waiting() || r.ShouldWake() || r.DueNow(t0+6999) || !r.DueNow(t0+7000) {
		t.Errorf("wait %+v", r.Wait)
	}
	delivered(t, r)
	r = again(t, r)
	if !r.BeginTurn(t0+7000) || r.TurnCount != 1 || r.Wait != nil || r.Retries() != 1 {
		t.Errorf("turn %d, retries %d", r.TurnCount, r.Retries())
	}
	r.Pause("transient", t0+9000, t0)
	if r.Wait.N != 2 {
		t.Errorf("wait %+v", r.Wait)
	}
	id := r.Wait.TimerID
	delivered(t, r)
	r.Abort(nil, t0)
	found := false
	for _, it := range r.Seal(0) {
		found = found || it.ID == "untimer:"+id
	}
	if !found || r.Wait != nil {
		t.Error("the timer of the pause goes on")
	}
}

func TestMaxTurns(t *testing.T) {
	t.Parallel()
	one := int64(1)
	r := streaming(t)
	r.MaxTurns = &one
	m := message(agent.StopFunctionCall, call(`{"function":"a::b"}`))
	r.Adopt(&m)
	r.AssistantFinished(Reply{Message: m}, t0)
	r.Resolved(r.Open()[0], okOutcome("x"), 1, t0)
	r.Finalize(nil, nil, t0)
	delivered(t, r)
	r.Steer(Inbox{Name: "steering", Items: []InboxItem{{ID: "i"}}}, nil, t0)
	items := r.Seal(0)
	if diff := cmp.Diff([]string{"message_complete", ">stopped", "agent_end"}, told(items)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	last, ok := r.Assistant()
	if !ok || last.Content[0].Text != "loop stopped: max_turns (1) reached" || last.StopReason != agent.StopEnd || last.Model != "" {
		t.Errorf("message %+v", last)
	}
	r = streaming(t)
	r.MaxTurns = &one
	if r.BeginTurn(t0) || r.State != Stopped {
		t.Errorf("state %s", r.State)
	}
}

func TestSteering(t *testing.T) {
	t.Parallel()
	r := streaming(t)
	r.AssistantFinished(Reply{Message: message(agent.StopEnd, agent.Text("hello"))}, t0)
	delivered(t, r)
	r.Steer(Inbox{Name: "followup", Items: []InboxItem{{ID: "i1", Message: encode(agent.User("a", 1))}, {ID: "i2", Message: encode(agent.User("b", 1))}}}, nil, t0)
	items := r.Seal(0)
	if diff := cmp.Diff([]string{"turn_end", ">assistant_streaming"}, told(items)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if items[0].Source != "m:"+InboxEntryID("s1", "i1") || items[1].Parent != items[0].ID {
		t.Errorf("entries %+v", items[:2])
	}
	if got := string(items[2].Value.Raw); got != `{"ids":["i1","i2"],"name":"followup","session_id":"s1"}` || items[2].BestEffort {
		t.Errorf("drained by %s", got)
	}
	if _, ok := r.Resolve(items[1].Source); !ok {
		t.Error("the words are lost")
	}
}

func TestAbort(t *testing.T) {
	t.Parallel()
	r, ids := batch(t, `{"function":"a::b","payload":{"password":"p"}}`, `{"function":""}`, `{"function":"c::d"}`, `{"function":"e::f"}`)
	r.Announce(ids[0])
	r.Ask(ids[0], json.RawMessage(`{}`), 0, t0)
	r.MarkStarted(ids[2], t0)
	r.Resolved(ids[3], okOutcome("done before"), 1, t0)
	r.SandboxID, r.Reservation = "sb", "res"
	delivered(t, r)
	r.Abort(nil, t0)
	items := r.Seal(0)
	want := []string{
		"function_execution_end", "function_execution_start", "function_execution_end", "function_execution_start", "function_execution_end",
		"message_complete", "turn_end", ">stopped", "agent_end",
	}
	if diff := cmp.Diff(want, told(items)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	var decision Item
	var calls []string
	for _, it := range items {
		if it.Scope == agent.ScopeApprovals {
			decision = it
		}
		if it.Kind == KindCall {
			calls = append(calls, it.FunctionID)
		}
	}
	if !decision.Create || !strings.Contains(string(decision.Value.Raw), `"decision":"aborted","reason":"session_aborted"`) {
		t.Errorf("decision %s", decision.Value.Raw)
	}
	if diff := cmp.Diff([]string{"budget::release", "session-tree::touch", "sandbox::stop"}, calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if d := detailsOf(t, r, ids[0]); d["denied_by"] != "user" || d["reason"] != "session_aborted" || d["decision"] != "aborted" || d["args_excerpt"].(map[string]any)["password"] != "<redacted>" {
		t.Errorf("aborted call %v", d)
	}
	if d := detailsOf(t, r, ids[1]); d["error"] != "missing_function" {
		t.Errorf("synthetic call %v", d)
	}
	if len(r.FunctionResults) != 4 || r.Work != nil || r.AwaitingApproval != nil || r.Reservation != "" || r.SandboxID != "" {
		t.Errorf("record %+v", r)
	}
	// The turn's results and the message that closes it can still be told.
	for _, it := range again(t, r).Outbox.Items {
		if it.Event != nil {
			if _, err := r.Payload(it.Event, nil); err != nil {
				t.Errorf("%s: %v", it.ID, err)
			}
		}
	}
}

func TestAbortOfAStream(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		partial *Reply
		want    []string
	}{
		{"nothing streamed", &Reply{Message: message(agent.StopEnd)}, []string{"message_complete", "turn_end", ">stopped", "agent_end"}},
		{"text streamed", &Reply{Message: message(agent.StopEnd), Kept: []agent.Block{agent.Text("ha")}, BodyStreamed: true},
			[]string{"message_complete", "message_complete", "turn_end", ">stopped", "agent_end"}},
	} {
		r := streaming(t)
		r.Abort(tc.partial, t0)
		items := r.Seal(0)
		if diff := cmp.Diff(tc.want, told(items)); diff != "" {
			t.Errorf("%s: events (-want +got):\n%s", tc.name, diff)
		}
		for _, it := range again(t, r).Outbox.Items {
			if it.Source != "" {
				if _, ok := r.Resolve(it.Source); !ok {
					t.Errorf("%s: %s lost", tc.name, it.Source)
				}
			}
		}
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	r, ids := batch(t, `{"function":"a::b"}`, `{"function":"c::d"}`)
	r.MarkStarted(ids[0], t0)
	delivered(t, r)
	r.Exhaust("", t0)
	items := r.Seal(0)
	if told := told(items); told[len(told)-1] != "agent_end" || r.State != Failed || r.Error.Kind != KindStepsExhausted {
		t.Errorf("events %v, state %s, error %+v", told, r.State, r.Error)
	}
	if a, b := detailsOf(t, r, ids[0]), detailsOf(t, r, ids[1]); a["error"] != CodeOutcomeUnknown || a["idempotency_key"] != ids[0] || b["decision"] != "aborted" {
		t.Errorf("results %v, %v", a, b)
	}
	r = streaming(t)
	r.Exhaust("deadline", t0)
	if !strings.Contains(r.Error.Message, "deadline") {
		t.Errorf("error %+v", r.Error)
	}
	for _, tc := range []struct {
		name string
		make func() *Record
		want string
	}{
		{"asked, not on record", func() *Record { r := streaming(t); r.TurnCount = 0; return r }, "_1_0"},
		{"in a pause", func() *Record { r := streaming(t); r.Pause("x", t0, t0); return r }, "_1_1"},
		{"on record", func() *Record { r := streaming(t); r.Reservation = "mine"; return r }, "mine"},
	} {
		r := tc.make()
		r.Fail(errors.New("kaput"), t0)
		if r.Error.Kind != KindTransitionError || r.Error.Message != "from assistant_streaming: kaput" {
			t.Errorf("%s: error %+v", tc.name, r.Error)
		}
		found := ""
		for _, it := range r.Seal(0) {
			if it.FunctionID == "budget::release" {
				found = it.ID
			}
			if it.Event != nil && it.Event.Type == agent.EventAgentEnd {
				data, err := r.Payload(it.Event, []agent.Message{agent.User("hi", 1)})
				if err != nil || !strings.Contains(string(data), `"hi"`) || !it.Event.Transcript {
					t.Errorf("%s: agent_end %s %v", tc.name, data, err)
				}
			}
		}
		if !strings.HasSuffix(found, tc.want) {
			t.Errorf("%s: released %q, want %q", tc.name, found, tc.want)
		}
	}
}

func TestReservations(t *testing.T) {
	t.Parallel()
	r := streaming(t)
	r.Reservation = "a"
	r.SettleReservation(1.5)
	r.Reservation = "b"
	r.ReleaseReservation()
	items := r.Seal(0)
	if string(items[0].Value.Raw) != `{"cost_usd":1.5,"estimated":true,"reservation_id":"a","run_id":"`+r.Run+`"}` || items[1].FunctionID != "budget::release" || r.Reservation != "" {
		t.Errorf("items %+v", items)
	}
	r.StopForBudget("b1", t0)
	if m, _ := r.Assistant(); m.Content[0].Text != "loop stopped: budget b1" {
		t.Errorf("message %+v", m)
	}
}

func TestInterruptedCalls(t *testing.T) {
	t.Parallel()
	path := []agent.Message{
		agent.User("x", 1),
		message(agent.StopFunctionCall,
			agent.Block{Type: agent.BlockFunctionCall, ID: "c1", FunctionID: ToolName, Arguments: json.RawMessage(`{"function":"a::b"}`)},
			agent.Block{Type: agent.BlockFunctionCall, ID: "c2", FunctionID: ToolName, Arguments: json.RawMessage(`null`)},
			agent.Block{Type: agent.BlockFunctionCall, ID: "c3", FunctionID: ToolName, Arguments: json.RawMessage(`{}`)}),
		{Role: agent.RoleFunctionResult, FunctionCallID: "c3"},
	}
	open := OpenCalls(path)
	if len(open) != 2 || open[0].FunctionID != "a::b" || open[1].FunctionID != ToolName {
		t.Fatalf("open %+v", open)
	}
	r := fresh("hi")
	r.Seal(-1)
	user := r.Outbox.Items[0].ID
	out := r.CloseInterrupted(open, t0)
	if len(out) != 2 || out[0].FunctionCallID != "c1" || !out[0].IsError {
		t.Errorf("results %+v", out)
	}
	items := r.Outbox.Items
	if items[0].Parent != "" || items[1].Parent != items[0].ID || items[2].ID != user || items[2].Parent != items[1].ID || r.LeafID != user {
		t.Errorf("entries %+v", items[:3])
	}
	r = streaming(t)
	leaf := r.LeafID
	r.CloseInterrupted(open, t0)
	if items := r.Outbox.Items; items[0].Parent != leaf || r.LeafID != items[1].ID {
		t.Errorf("entries %+v, leaf %s", items, r.LeafID)
	}
}

func TestWhatTheRecordHasLost(t *testing.T) {
	t.Parallel()
	r := streaming(t)
	for _, e := range []Event{
		{Type: agent.EventMessageComplete, Assistant: "a:ghost"}, {Type: agent.EventExecutionStart, Assistant: "a:ghost"},
		{Type: agent.EventExecutionEnd, Result: "r:ghost"}, {Type: agent.EventTurnEnd, Assistant: "a:ghost", Results: []string{"f:ghost"}},
	} {
		var lost *LostError
		if _, err := r.Payload(&e, nil); !errors.As(err, &lost) || lost.ErrorCode() != "turn_state_invariant" || !strings.Contains(err.Error(), "ghost") {
			t.Errorf("%s: %v", e.Type, err)
		}
	}
	for _, s := range []string{"x:y", "m:ghost", "nothing"} {
		if _, ok := r.Resolve(s); ok {
			t.Errorf("%s is there", s)
		}
	}
	m := Executed{Call: CallRef{ID: "c"}, Result: Value{Raw: json.RawMessage(`7`)}}.message()
	if !strings.Contains(string(m.Details), "unreadable_result") {
		t.Errorf("details %s", m.Details)
	}
	b, ids := batch(t, `{"function":""}`)
	b.Call(ids[0]).Result.Raw = json.RawMessage(`7`)
	b.ResolveSynthetic(ids[0], t0)
	if d := detailsOf(t, b, ids[0]); d["error"] != CodeInvalidArguments {
		t.Errorf("details %v", d)
	}
}
