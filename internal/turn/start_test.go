package turn

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/queue"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
)

func TestA2BusySession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	began, letGo := blockWorld(t, w, "ok::slow")
	w.model.plays(wants(want("ok::slow", nil)), says("done"))
	w.start("s1", "go")
	<-began
	w.eventually("the assistant's entry", func() bool { return len(w.session.path("s1")) == 2 })
	before := len(w.session.path("s1"))
	res := w.start("s1", "again")
	if res.Started || res.Reason != "session_busy" || res.SessionID != "s1" {
		t.Errorf("second run::start: %+v", res)
	}
	if after := len(w.session.path("s1")); after != before {
		t.Errorf("transcript grew from %d to %d", before, after)
	}
	letGo()
	w.ended("s1")
	if !w.start("s1", "again").Started {
		t.Error("the session does not take a run after the end")
	}
	w.ended("s1")
	w.legalPath("s1")
}

func TestA3InvalidRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, tc := range []struct {
		name, payload, want string
	}{
		{"no session", `{"provider":"test","model":"m"}`, "missing required field: session_id"},
		{"empty session", `{"session_id":"","provider":"test","model":"m"}`, "missing required field: session_id"},
		{"no provider", `{"session_id":"x","model":"m"}`, "missing required field: provider"},
		{"no model", `{"session_id":"x","provider":""}`, "missing required field: model"},
		{"bad mode", `{"session_id":"x","provider":"","model":"m","mode":"yolo"}`, "invalid mode: must be plan, ask or agent"},
		{"messages no array", `{"session_id":"x","provider":"","model":"m","messages":{}}`, "invalid messages"},
		{"messages null", `{"session_id":"x","provider":"","model":"m","messages":null}`, "invalid messages"},
		{"turns", `{"session_id":"x","provider":"","model":"m","max_turns":-1}`, "invalid max_turns"},
		{"fraction", `{"session_id":"x","provider":"","model":"m","max_turns":1.5}`, "invalid max_turns"},
		{"slash", `{"session_id":"x/y","provider":"","model":"m"}`, "invalid session_id"},
		{"type", `{"session_id":7,"provider":"","model":"m"}`, "invalid session_id: must be a string"},
	} {
		_, err := w.bus.Invoke(t.Context(), bus.Invocation{FunctionID: "run::start", Data: json.RawMessage(tc.payload), Principal: &alice})
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", tc.name, err, tc.want)
		}
	}
	if groups, err := w.db.State().Groups(t.Context()); err != nil || len(groups) != 0 {
		t.Errorf("state was written: %v %v", groups, err)
	}
	if len(w.session.owners) != 0 {
		t.Errorf("sessions were made: %v", w.session.owners)
	}
}

func TestA46SameMessageTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	began, letGo := blockWorld(t, w, "ok::slow")
	w.model.plays(wants(want("ok::slow", nil)), says("done"))
	id := map[string]any{"message_id": "m/1"}
	if res := w.start("s1", "go", id); !res.Started || res.Duplicate || res.MessageID != "m/1" {
		t.Fatalf("first: %+v", res)
	}
	<-began
	wantRes := StartResponse{SessionID: "s1", MessageID: "m/1", Started: true, Duplicate: true}
	if diff := cmp.Diff(wantRes, w.start("s1", "go", id)); diff != "" {
		t.Errorf("while running (-want +got):\n%s", diff)
	}
	letGo()
	w.ended("s1")
	if diff := cmp.Diff(wantRes, w.start("s1", "go", id)); diff != "" {
		t.Errorf("after the end (-want +got):\n%s", diff)
	}
	w.start("s1", "other")
	w.ended("s1")
	if diff := cmp.Diff(wantRes, w.start("s1", "go", id)); diff != "" {
		t.Errorf("after another run (-want +got):\n%s", diff)
	}
	users := 0
	for _, e := range w.session.path("s1") {
		if e.Message.Role == agent.RoleUser {
			users++
		}
	}
	if users != 2 {
		t.Errorf("%d user messages, want 2", users)
	}
}

func TestF12SameStartDeliveredThrice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.model.plays(says("once"))
	w.start("s1", "go", map[string]any{"message_id": "m1"})
	rec := w.ended("s1")
	w.quiet()
	send := func(dedup string) {
		m := w.proc.turn.message(t.Context(), alice, StepRequest{SessionID: "s1", Run: rec.Run, Cause: "start"})
		m.DedupID = dedup
		_, err := w.queues.Submit(t.Context(), m).Wait(t.Context())
		w.check(err)
	}
	send("")
	send("other")
	w.quiet()
	w.clock.Advance(queue.DedupWindow + time.Second)
	send("")
	w.quiet()
	if w.model.calls() != 1 || len(w.session.path("s1")) != 2 {
		t.Errorf("model asked %d times, transcript has %d entries", w.model.calls(), len(w.session.path("s1")))
	}
}

func TestStartsAtOnceMakeOneRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, letGo := blockWorld(t, w, "ok::slow")
	w.model.plays(wants(want("ok::slow", nil)), says("done"))
	var wg sync.WaitGroup
	var mu sync.Mutex
	started := 0
	for range 8 {
		wg.Go(func() {
			raw, err := w.call(alice, "run::start", map[string]any{
				"session_id": "s1", "provider": "test", "model": "m", "messages": []agent.Message{agent.User("x", 1)},
			})
			var res StartResponse
			if err != nil || json.Unmarshal(raw, &res) != nil {
				t.Errorf("run::start: %s %v", raw, err)
			}
			mu.Lock()
			defer mu.Unlock()
			if res.Started {
				started++
			}
		})
	}
	wg.Wait()
	letGo()
	w.ended("s1")
	if started != 1 || w.model.calls() != 2 {
		t.Errorf("%d runs started, model asked %d times; want 1, 2", started, w.model.calls())
	}
}

func TestForeignSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start("s1", "hi")
	w.ended("s1")
	before := w.record("s1").Version
	mallory := bus.Principal{ID: "mallory", Role: bus.RoleClient}
	_, err := w.call(mallory, "run::start", map[string]any{"session_id": "s1", "provider": "test", "model": "m"})
	if bus.Code(err) != "not_found" {
		t.Errorf("run::start: %v, want not_found", err)
	}
	for _, session := range []string{"s1", "nobody"} {
		raw, err := w.call(mallory, "turn::get_state", SessionRequest{session})
		if err != nil || string(raw) != "null" {
			t.Errorf("get_state %s: %s %v", session, raw, err)
		}
		raw, err = w.call(mallory, "run::abort", SessionRequest{session})
		if err != nil || string(raw) != `{"session_id":"`+session+`","aborted":false,"state":null}` {
			t.Errorf("abort %s: %s %v", session, raw, err)
		}
	}
	if w.record("s1").Version != before {
		t.Error("the record was written")
	}
	if _, ok := w.session.owners["nobody"]; ok {
		t.Error("a look made a session")
	}
	// The owner sees a run that an operator started.
	root := bus.Principal{ID: "root", Role: bus.RoleOperator}
	if _, err := w.call(root, "run::start", map[string]any{"session_id": "s1", "provider": "test", "model": "m"}); err != nil {
		t.Fatal(err)
	}
	w.ended("s1")
	raw, err := w.call(alice, "turn::get_state", SessionRequest{"s1"})
	if err != nil || string(raw) == "null" {
		t.Errorf("the owner does not see it: %s %v", raw, err)
	}
}

func TestA53RecordOfNewerCode(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{"format": `"v":99`, "state": `"state":"dreaming"`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.start("s1", "hi")
			rec := w.ended("s1")
			w.quiet()
			text := string(rec.Encode())
			text = strings.Replace(strings.Replace(text, `"v":1`, change, 1), `"session_id"`, `"hope":{"a":1},"session_id"`, 1)
			if name == "state" {
				text = strings.Replace(strings.Replace(string(rec.Encode()), `"state":"stopped"`, change, 1), `"session_id"`, `"hope":{"a":1},"session_id"`, 1)
			}
			c, err := state.Do(t.Context(), w.db.State(), state.Set(agent.ScopeTurnState, "s1", json.RawMessage(text)))
			w.check(err)
			if res := w.start("s1", "more"); res.Started || res.Reason != "session_busy" {
				t.Errorf("run::start: %+v", res)
			}
			_, err = w.call(alice, FunctionStep, StepRequest{SessionID: "s1", Run: rec.Run, Cause: "start"})
			if bus.Code(err) != CodeNewerRecord {
				t.Errorf("turn::step: %v, want newer_record", err)
			}
			_, err = w.call(alice, "turn::steering_check", SessionRequest{"s1"})
			if bus.Code(err) != CodeNewerRecord {
				t.Errorf("turn::steering_check: %v, want newer_record", err)
			}
			w.must("turn::on_dead_letter", StepRequest{SessionID: "s1", Run: rec.Run}, nil)
			w.must("turn::sweep", map[string]any{}, nil)
			item, _, err := w.db.State().Get(t.Context(), state.Key{Scope: agent.ScopeTurnState, Key: "s1"})
			if err != nil || item.Version != c.Version || string(item.Value) != text {
				t.Errorf("the record was touched: %v", err)
			}
		})
	}
}

func TestLargeMessagesAreKeptByReference(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	big := strings.Repeat("x", 20<<10)
	w.simple("ok::eat")
	w.model.plays(wants(want("ok::eat", map[string]string{"a": big})), says(big))
	w.start("s1", big, map[string]any{"system_prompt": big})
	w.ended("s1")
	path := w.session.path("s1")
	if text(path[0].Message) != big || text(path[3].Message) != big {
		t.Error("the transcript lost text")
	}
	if got := *w.model.request(0).SystemPrompt; got != big {
		t.Error("the prompt was lost")
	}
	if item, _, err := w.db.State().Get(t.Context(), state.Key{Scope: agent.ScopeTurnState, Key: "s1"}); err != nil || len(item.Value) > 8<<10 {
		t.Errorf("the record has %d bytes (%v)", len(item.Value), err)
	}
	w.legalPath("s1")
}

func TestRecordMissing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var res StepResponse
	w.must(FunctionStep, StepRequest{SessionID: "ghost", Run: "1", Cause: "start"}, &res)
	if !res.Skipped {
		t.Errorf("turn::step: %+v, want skipped", res)
	}
	_, err := w.call(alice, "turn::provisioning", SessionRequest{"ghost"})
	if err == nil || !strings.Contains(err.Error(), "turn::provisioning invariant: missing session ghost") {
		t.Errorf("turn::provisioning: %v", err)
	}
	for _, id := range []string{"turn::step", "turn::provisioning", "turn::pending_call", "run::abort"} {
		if _, err := w.call(alice, id, map[string]any{}); err == nil || !strings.Contains(err.Error(), "missing required field: session_id") {
			t.Errorf("%s: %v", id, err)
		}
	}
}

func TestNewNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	if _, err := New(Deps{}); err == nil || !strings.Contains(err.Error(), "is required") {
		t.Errorf("got %v", err)
	}
}
