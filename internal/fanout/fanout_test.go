package fanout

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/channel"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/embedded"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/engine/stream"
	"github.com/iii-aws/harness/internal/agent"
	"github.com/iii-aws/harness/internal/viewer"
)

// starter answers run::start, and posts pushes into a channel.
type starter struct {
	answer string
	err    error
	calls  []bus.Invocation
	posted error // of every push
	pushes chan bus.Push
}

func (s *starter) Invoke(_ context.Context, in bus.Invocation) (json.RawMessage, error) {
	s.calls = append(s.calls, in)
	return json.RawMessage(s.answer), s.err
}

func (s *starter) Post(_ context.Context, p bus.Push) error {
	if s.posted != nil {
		return s.posted
	}
	s.pushes <- p
	return nil
}

type fixture struct {
	*Fanout
	t     *testing.T
	bus   *starter
	db    *embedded.DB
	alice bus.Call
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	db, err := embedded.Open(t.Context(), embedded.Options{Dir: t.TempDir(), NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, db: db, bus: &starter{pushes: make(chan bus.Push, 256)}, alice: bus.Call{Connection: "c1", Principal: bus.Principal{ID: "alice", Role: bus.RoleClient}}}
	hub, err := viewer.New(viewer.Deps{State: db.State(), Stream: db.Streams(), Blobs: db.Blobs(), Poster: f.bus, Clock: clock.System(), IDs: clock.Random()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(hub.Close(context.Background()), db.Close()); err != nil {
			t.Error(err)
		}
	})
	f.Fanout, err = New(Deps{State: db.State(), Bus: f.bus, Hub: hub, Poster: f.bus, Channels: channel.NewLocal(clock.System(), clock.Random()), Policy: bus.Raw(func(context.Context, *bus.Call) (json.RawMessage, error) { return json.RawMessage(`"asked"`), nil })})
	if err != nil {
		t.Fatal(err)
	}
	f.put(agent.ScopeSessionTreeMeta, "s1", `{"session_id":"s1","owner":"alice"}`)
	return f
}

func (f *fixture) put(scope, key, value string) {
	f.t.Helper()
	if _, err := state.Do(f.t.Context(), f.db.State(), state.Set(scope, key, json.RawMessage(value))); err != nil {
		f.t.Fatal(err)
	}
}

// log appends an event to a session, as somebody who is no step.
func (f *fixture) log(session, id string) {
	f.t.Helper()
	head, err := f.db.Streams().Head(f.t.Context(), agent.StreamEvents, session)
	if err != nil {
		f.t.Fatal(err)
	}
	_, err = f.db.Streams().SubmitAppend(f.t.Context(), stream.Append{
		Stream: agent.StreamEvents, Group: session, Base: head.Tail, Events: []stream.LogEvent{{ID: id, Data: json.RawMessage(`{"type":"` + id + `"}`)}},
	}).Wait(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) invoke(call bus.Call, id, data string) (string, error) {
	call.FunctionID, call.Data = id, json.RawMessage(data)
	out, err := f.Endpoints()[id].Handle(f.t.Context(), &call)
	return string(out), err
}

func (f *fixture) must(call bus.Call, id, data string) string {
	f.t.Helper()
	out, err := f.invoke(call, id, data)
	if err != nil {
		f.t.Fatalf("%s %s: %v", id, data, err)
	}
	return out
}

func TestTrigger(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for answer, want := range map[string]string{
		`{"session_id":"s1","started":true}`:                          `{"status_code":200,"headers":{"content-type":"application/json"},"body":{"session_id":"s1","started":true}}`,
		`{"session_id":"s1","started":false,"reason":"session_busy"}`: `{"status_code":409,"headers":{"content-type":"application/json"},"body":{"session_id":"s1","started":false,"reason":"session_busy"}}`,
	} {
		f.bus.answer = answer
		if got := f.must(f.alice, FunctionTrigger, `{"session_id":"outer","payload":{"session_id":"s1","function_id":"state::set"}}`); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	for _, c := range f.bus.calls {
		if c.FunctionID != "run::start" || string(c.Data) != `{"session_id":"s1","function_id":"state::set"}` {
			t.Errorf("the client chose the target: %+v", c)
		}
	}
	for _, bad := range []string{`{}`, `{"payload":null}`, `{"payload":7}`} {
		if _, err := f.invoke(f.alice, FunctionTrigger, bad); bus.Code(err) != "invalid_payload" {
			t.Errorf("%s: %v", bad, err)
		}
	}
	f.bus.answer = `7`
	if _, err := f.invoke(f.alice, FunctionTrigger, `{"payload":{}}`); err == nil {
		t.Error("an answer that is none was passed on")
	}
	f.bus.err = bus.Missing("model")
	if _, err := f.invoke(f.alice, FunctionTrigger, `{"payload":{}}`); bus.Code(err) != "invalid_payload" {
		t.Errorf("a refusal became %v", err)
	}
	if got := f.must(f.alice, FunctionPolicy, `{}`); got != `"asked"` {
		t.Errorf("policy %s", got)
	}
}

func TestSubscribeReplaysAndGoesOn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.log("s1", "first")
	out := f.must(f.alice, FunctionSubscribe, `{"browser_id":"b1","session_id":"s1","position":{"seq":-1}}`)
	var res SubscribeResponse
	if err := json.Unmarshal([]byte(out), &res); err != nil || !res.OK || res.TotalBrowsers != 1 || res.Position.Seq != 0 || res.Position.Epoch == "" || res.Reset != "" {
		t.Errorf("answer %s, %v", out, err)
	}
	f.pushed("ui::session::event::b1", `"first"`)
	f.log("s1", "second")
	f.must(bus.Call{}, FunctionEvent, `{"groupId":"s1","event":{"type":"create"}}`)
	f.pushed("ui::session::event::b1", `"second"`)
	f.log("s1", "third")
	f.must(bus.Call{}, FunctionEvent, `{"group_id":"s1"}`)
	f.pushed("ui::session::event::b1", `"third"`)
	for _, quiet := range []string{`{"groupId":"s1","by":"step"}`, `{}`, `{"groupId":"s1","event":{"type":"delete"}}`} {
		f.must(bus.Call{}, FunctionEvent, quiet)
	}
	if got := f.must(f.alice, FunctionUnsubscribe, `{"browser_id":"b1","session_id":"s1"}`); got != `{"ok":true,"total_browsers":0}` {
		t.Errorf("unsubscribe %s", got)
	}
	f.log("s1", "fourth")
	f.must(bus.Call{}, FunctionEvent, `{"groupId":"s1"}`)
	if len(f.bus.pushes) != 0 {
		t.Errorf("pushed after the end: %+v", <-f.bus.pushes)
	}
	ahead := f.must(f.alice, FunctionSubscribe, `{"body":{"browser_id":"b1","session_id":"s1","position":{"seq":99}}}`)
	if !strings.Contains(ahead, `"reset":"ahead"`) {
		t.Errorf("a position in the future: %s", ahead)
	}
	older := f.must(f.alice, FunctionSubscribe, `{"browser_id":"b1","session_id":"s1","position":{"seq":0,"epoch":"other"}}`)
	if !strings.Contains(older, `"reset":"epoch_changed"`) {
		t.Errorf("an older epoch: %s", older)
	}
}

// pushed waits for the next push.
func (f *fixture) pushed(function, data string) {
	f.t.Helper()
	p := <-f.bus.pushes
	if p.Connection != "c1" || p.FunctionID != function || !strings.Contains(string(p.Data), data) {
		f.t.Errorf("push %s %s, want %s with %s", p.FunctionID, p.Data, function, data)
	}
}

func TestA40NewSessionsAreToldToThoseWhoWatchAll(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.must(f.alice, FunctionSubscribe, `{"browser_id":"all","session_id":null}`)
	f.put(agent.ScopeSessionTreeMeta, "theirs", `{"session_id":"theirs","owner":"bob"}`)
	for _, quiet := range []string{`{"event_type":"state:updated","key":"s1"}`, `{"event_type":"state:created"}`, `{"event_type":"state:created","key":"theirs"}`} {
		f.must(bus.Call{}, FunctionSessionCreated, quiet)
	}
	f.must(bus.Call{}, FunctionSessionCreated, `{"event_type":"state:created","key":"s1"}`)
	f.pushed("ui::sessions::changed::all", `{"added":["s1"],"removed":[]}`)
	f.must(bus.Call{}, FunctionSessionCreated, `{"event_type":"state:created","key":"s1"}`)
	if len(f.bus.pushes) != 0 {
		t.Errorf("told twice: %+v", <-f.bus.pushes)
	}
}

func TestStrangersSessionCannotBeWatched(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	bob := bus.Call{Connection: "c2", Principal: bus.Principal{ID: "bob", Role: bus.RoleClient}}
	_, theirs := f.invoke(bob, FunctionSubscribe, `{"browser_id":"b","session_id":"s1"}`)
	_, none := f.invoke(bob, FunctionSubscribe, `{"browser_id":"b","session_id":"s2"}`)
	if bus.Code(theirs) != "not_found" || none == nil || strings.ReplaceAll(theirs.Error(), "s1", "s2") != none.Error() {
		t.Errorf("a stranger's session answers %v, a missing one %v", theirs, none)
	}
	f.put(agent.ScopeSessionTreeMeta, "bad", `7`)
	if _, err := f.invoke(f.alice, FunctionSubscribe, `{"browser_id":"b","session_id":"bad"}`); err == nil || bus.Code(err) == "not_found" {
		t.Errorf("a damaged session answers %v", err)
	}
}

func TestBadSubscriptions(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, bad := range []string{
		`{}`, `{"browser_id":""}`, `{"browser_id":"a b"}`, `{"browser_id":"a\u0000"}`, `{"browser_id":"` + strings.Repeat("x", 129) + `"}`,
		`{"browser_id":"b","session_id":""}`, `{"browser_id":"b","session_id":"s1","position":{}}`, `{"browser_id":"b","session_id":"s1","position":{"seq":-2}}`,
		`{"browser_id":"b","position":{"seq":0}}`, `{"browser_id":"b","session_id":"s1","position":7}`,
	} {
		if _, err := f.invoke(f.alice, FunctionSubscribe, bad); bus.Code(err) != "invalid_payload" {
			t.Errorf("%s: %v", bad, err)
		}
	}
	for _, id := range []string{FunctionSubscribe, FunctionUnsubscribe} {
		_, err := f.invoke(bus.Call{}, id, `{"browser_id":"b","session_id":"s1"}`)
		var e *NoConnectionError
		if !errors.As(err, &e) || e.ErrorCode() != "no_connection" || e.Retryable() || !strings.Contains(err.Error(), id) {
			t.Errorf("%s without a connection: %v", id, err)
		}
	}
	if e := (&NotFoundError{Session: "s"}); e.Retryable() || e.ErrorCode() != "not_found" {
		t.Errorf("error %v", e)
	}
}

func TestNewWantsItsDeps(t *testing.T) {
	t.Parallel()
	if _, err := New(Deps{}); err == nil {
		t.Error("made without a state")
	}
	f := newFixture(t)
	bare, err := New(Deps{State: f.db.State(), Bus: f.bus, Hub: f.Hub, Poster: f.bus, Channels: f.Channels})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := bare.Endpoints()[FunctionPolicy]; ok {
		t.Error("a policy is served that was not given")
	}
}
