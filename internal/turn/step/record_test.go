package step

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/blob"
	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/internal/agent"
)

func TestRecordSurvivesStorage(t *testing.T) {
	t.Parallel()
	r, ids := batch(t, `{"function":"a::b","payload":{"x":"<&>"}}`, `{"function":"c::d"}`)
	r.Announce(ids[0])
	r.Ask(ids[1], json.RawMessage(`{}`), t0+5, t0)
	r.MarkStarted(ids[0], t0)
	r.Await(ids[0], t0+9)
	r.Seal(3)
	r.Extra = map[string]json.RawMessage{"future": json.RawMessage(`{"a":[1,2]}`)}
	text := r.Encode()
	if !json.Valid(text) || bytes.Contains(text, []byte(`\u003c`)) {
		t.Fatalf("encoded %s", text)
	}
	got := again(t, r)
	if diff := cmp.Diff(string(text), string(got.Encode())); diff != "" {
		t.Errorf("read again (-want +got):\n%s", diff)
	}
	if string(got.Extra["future"]) != `{"a":[1,2]}` {
		t.Errorf("unknown member %s", got.Extra["future"])
	}
}

func TestParseIsLenient(t *testing.T) {
	t.Parallel()
	r, err := Parse([]byte(`{"session_id":"s","state":"stopped","v":1,"turn_count":-2.5,"lease":"x","max_turns":{},"principal":[],
		"messages":7,"function_results":"no","work":{"prepared":[],"executed":null},"ledger":[],"wait":1,"outbox":[],"turn_end_emitted":"yes",
		"awaiting_approval":{},"last_assistant":{"role":"assistant"},"model_meta":null,"started_at_ms":12.0,"strange":true}`), 4)
	if err != nil {
		t.Fatal(err)
	}
	if r.TurnCount != 0 || r.Lease != 0 || r.MaxTurns != nil || r.Messages != nil || r.FunctionResults != nil || r.TurnEndEmitted || r.AwaitingApproval != nil ||
		r.ModelMeta != nil || r.StartedAtMS != 12 || r.Version != 4 || string(r.Extra["strange"]) != "true" || r.Work == nil || r.Work.Executed == nil {
		t.Errorf("read %+v", r)
	}
}

func TestParseErrors(t *testing.T) {
	t.Parallel()
	var broken *BrokenError
	_, err := Parse([]byte(`[]`), 1)
	if !errors.As(err, &broken) || broken.ErrorCode() != "turn_state_invariant" || broken.Unwrap() == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("got %v", err)
	}
	for _, text := range []string{`{"session_id":"s","v":2,"state":"stopped"}`, `{"session_id":"s","v":1,"state":"dreaming"}`} {
		var newer *NewerError
		r, err := Parse([]byte(text), 1)
		if !errors.As(err, &newer) || r == nil || newer.ErrorCode() != "newer_record" || !newer.Retryable() || !strings.Contains(err.Error(), `"s"`) {
			t.Errorf("%s: got %v", text, err)
		}
	}
}

func TestStates(t *testing.T) {
	t.Parallel()
	for s, terminal := range map[State]bool{
		Provisioning: false, Streaming: false, Executing: false, Awaiting: false, Steering: false, Stopped: true, Failed: true,
	} {
		if !s.Known() || s.Terminal() != terminal {
			t.Errorf("%s: known %v, terminal %v", s, s.Known(), s.Terminal())
		}
	}
}

func TestValue(t *testing.T) {
	t.Parallel()
	ref := &blob.Info{ID: "b", Size: 5, MIME: "application/json"}
	for _, tc := range []struct {
		name   string
		v      Value
		text   string
		bulky  bool
		loaded bool
	}{
		{"none", Value{}, `null`, false, true},
		{"inline", Value{Raw: json.RawMessage(`{"a":1}`)}, `{"a":1}`, false, true},
		{"stored", Value{Ref: ref}, `{"$stored":{"id":"b","size":5,"mime":"application/json"}}`, false, false},
		{"large", Value{Raw: encode(strings.Repeat("x", StoreLimit))}, "", true, true},
		{"looks stored", Value{Raw: json.RawMessage(`{"$stored":{"id":"forged"}}`)}, "", true, true},
		{"a caller's own blob", Value{Raw: json.RawMessage(`{"$blob":{"id":"x"}}`)}, `{"$blob":{"id":"x"}}`, false, true},
	} {
		if tc.v.Bulky() != tc.bulky || tc.v.Loaded() != tc.loaded || tc.v.IsZero() != (tc.name == "none") {
			t.Errorf("%s: bulky %v, loaded %v", tc.name, tc.v.Bulky(), tc.v.Loaded())
		}
		if tc.text == "" {
			continue
		}
		text := string(encode(tc.v))
		if text != tc.text {
			t.Errorf("%s: %s", tc.name, text)
		}
		var back Value
		if err := json.Unmarshal([]byte(text), &back); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.v, back); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
	var v Value
	if err := json.Unmarshal([]byte(`{"$stored":7}`), &v); err != nil || string(v.Raw) != `{"$stored":7}` {
		t.Errorf("got %+v %v", v, err)
	}
}

func TestEncodePanicsOnWhatIsNoJSON(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	encode(make(chan int))
}

func TestValuesAreAll(t *testing.T) {
	t.Parallel()
	r, ids := batch(t, `{"function":"a::b","payload":{"k":"secretvalue"}}`, `{"function":""}`, `{"function":"x::y"}`)
	r.Messages = []UserMessage{{EntryID: "e", Message: Of("secretvalue")}}
	r.FunctionResults = []Value{Of("secretvalue")}
	r.Request = Of("secretvalue")
	r.Ask(ids[0], json.RawMessage(`{}`), 0, t0)
	r.Tell(t0)
	r.ResolveSynthetic(ids[1], t0)
	r.keep("m:x", Of("secretvalue"))
	r.Resolved(ids[2], okOutcome("secretvalue"), 1, t0)
	big := func(v *Value) error {
		if bytes.Contains(v.Raw, []byte("secretvalue")) {
			v.Ref = &blob.Info{ID: "b"}
		}
		return nil
	}
	for _, v := range r.Values() {
		_ = big(v)
	}
	if err := r.EachKept(big); err != nil {
		t.Fatal(err)
	}
	if text := r.Encode(); bytes.Contains(text, []byte("secretvalue")) {
		t.Errorf("a value was left out: %s", text)
	}
	r.Seal(0)
	for _, v := range r.Values() {
		_ = big(v)
	}
	if text := r.Encode(); bytes.Contains(text, []byte("secretvalue")) {
		t.Errorf("a value of the outbox was left out: %s", text)
	}
	stop := errors.New("stop")
	if err := r.EachKept(func(*Value) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
	r.Work = nil
	if err := r.EachKept(func(*Value) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
}

func TestAccessorsOfAnEmptyRecord(t *testing.T) {
	t.Parallel()
	r := &Record{}
	if r.Call("x") != nil || r.Done("x") || r.Started("x") || r.Approval("x") != nil || r.Waited("x") != nil || r.Open() != nil || len(r.Results()) != 0 {
		t.Error("something in nothing")
	}
	if _, ok := r.Assistant(); ok {
		t.Error("a message in nothing")
	}
	r.Announce("x")
	r.Rewrite("x", nil)
	r.Ask("x", nil, 0, t0)
	r.Approve("x")
	r.Await("x", t0)
	r.Unwait("x")
	r.Resolved("x", Outcome{}, 0, t0)
	r.ResolveSynthetic("x", t0)
	r.ReleaseReservation()
	r.SettleReservation(1)
	if r.Pending() {
		t.Error("something was emitted")
	}
	r.MarkStarted("x", t0)
	if !r.Started("x") {
		t.Error("not marked")
	}
}

func TestIDs(t *testing.T) {
	t.Parallel()
	ids := []string{
		CallID("s", "r", 1, 0), CallID("s", "r", 1, 1), CallID("s", "r", 2, 0), CallID("s", "r2", 1, 0), UserEntryID("s", "m", 0), UserEntryID("s", "m", 1),
		EntryID("s", "r", 1, "assistant", ""), EntryID("s", "r", 1, "assistant", "aborted"), InboxEntryID("s", "i"), InterruptedEntryID("s", "c"),
		CallID("a", "bc", 1, 0), CallID("ab", "c", 1, 0), EventID("r", 1), ReservationID("r", 1, 0), ReservationID("r", 10, 1), RequestID("s", 5),
		TimerID("s", "r", "wait", "1"), RunID(5, "m"), RunID(5, "n"),
	}
	seen := map[string]bool{}
	for _, id := range ids {
		if seen[id] {
			t.Errorf("%s twice", id)
		}
		seen[id] = true
	}
	for _, r := range CallID("s/é", "r", 1, 0) {
		if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789_", r) {
			t.Errorf("call id has %q", r)
		}
	}
	if again := CallID("s", "r", 1, 0); again != ids[0] {
		t.Errorf("a call id is not derived: %s, then %s", ids[0], again)
	}
}

func TestArgsHash(t *testing.T) {
	t.Parallel()
	same := ArgsHash("f", json.RawMessage(`{"a":1,"b":{"c":[1,2]}}`))
	if same != ArgsHash("f", json.RawMessage(` { "b": {"c":[ 1,2 ]}, "a": 1 } `)) {
		t.Error("order and space count")
	}
	for name, other := range map[string]string{
		"value": ArgsHash("f", json.RawMessage(`{"a":2,"b":{"c":[1,2]}}`)), "function": ArgsHash("g", json.RawMessage(`{"a":1,"b":{"c":[1,2]}}`)),
		"digits": ArgsHash("f", json.RawMessage(`{"a":1.0,"b":{"c":[1,2]}}`)), "no JSON": ArgsHash("f", json.RawMessage(`{`)),
	} {
		if other == same {
			t.Errorf("the %s does not count", name)
		}
	}
}

func TestStartKeepsWhatTheOldRunOwes(t *testing.T) {
	t.Parallel()
	old, ids := batch(t, `{"function":"a::b"}`)
	old.Announce(ids[0])
	old.MarkStarted(ids[0], t0)
	old.Resolved(ids[0], okOutcome("fine"), 3, t0)
	old.Finalize(nil, nil, t0)
	old.Steer(Inbox{Name: "steering", Items: []InboxItem{{ID: "i1", Message: encode(agent.User("more", 1))}}}, nil, t0)
	old.Abort(nil, t0)
	old.Seal(4)
	old = again(t, old)
	old.Version, old.Lease, old.SeenRev, old.Extra = 9, 3, 5, map[string]json.RawMessage{"x": json.RawMessage("1")}
	owed := len(old.Outbox.Items)
	r := Start(old, Begin{SessionID: "s1", MessageID: "m2", Principal: bus.Principal{ID: "bob"}, Messages: []json.RawMessage{encode(agent.User("next", 2))}, NowMS: t0 + 1})
	r.Seal(99)
	if r.Version != 9 || r.Lease != 4 || r.SeenRev != 5 || r.Extra["x"] == nil || r.Outbox.Base != 4 || len(r.Outbox.Items) != owed+4 {
		t.Errorf("version %d, lease %d, rev %d, base %d, %d items (%d before)", r.Version, r.Lease, r.SeenRev, r.Outbox.Base, len(r.Outbox.Items), owed)
	}
	for _, it := range again(t, r).Outbox.Items {
		if it.Event != nil {
			if _, err := r.Payload(it.Event, nil); err != nil {
				t.Errorf("%s: %v", it.ID, err)
			}
		}
		if it.Source != "" {
			if _, ok := r.Resolve(it.Source); !ok {
				t.Errorf("%s: %s is lost", it.ID, it.Source)
			}
		}
	}
	if !r.Owes(agent.ScopeRunAccepted, "s1/m2") || r.Owes(agent.ScopeSessionIndex, "s1") || !r.OwesEvents() || len(r.Wakes()) != 1 || r.OwesCall("x::y") || !r.OwesCall("session-inbox::drain") {
		t.Errorf("owed %v", others(r.Outbox.Items))
	}
}

func TestStartOfANewSession(t *testing.T) {
	t.Parallel()
	r := fresh("one", "two")
	items := r.Seal(-1)
	if diff := cmp.Diff([]string{">provisioning"}, told(items)); diff != "" {
		t.Error(diff)
	}
	want := []string{
		"entry " + UserEntryID("s1", "m1", 0), "entry " + UserEntryID("s1", "m1", 1), "row row:run_accepted/s1/m1", "row row:session_index/s1", "wake wake:" + r.Run,
	}
	if diff := cmp.Diff(want, others(items)); diff != "" {
		t.Errorf("owed (-want +got):\n%s", diff)
	}
	if items[0].Parent != "" || items[1].Parent != items[0].ID || r.LeafID != items[1].ID || r.Lease != 1 || r.DueAt != t0+120_000 || r.Outbox.Base != -1 {
		t.Errorf("record %+v", r)
	}
	data, err := r.Payload(items[4].Event, nil)
	if err != nil || !strings.Contains(string(data), `"event_type":"state:created"`) || strings.Contains(string(data), "old_value") {
		t.Errorf("event %s %v", data, err)
	}
	r.Delivered(map[string]bool{items[0].ID: true})
	if len(r.Messages) != 1 || r.Messages[0].EntryID != items[1].ID {
		t.Errorf("messages left %+v", r.Messages)
	}
}
