package session

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/commit"
	"github.com/iii-aws/harness/engine/embedded"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
)

var (
	alice    = bus.Principal{ID: "alice", Role: bus.RoleClient}
	bob      = bus.Principal{ID: "bob", Role: bus.RoleClient}
	operator = bus.Principal{ID: "op", Role: bus.RoleOperator}
)

// faulty fails what the hook names.
type faulty struct {
	state.Store
	mu     sync.Mutex
	submit func(n int, writes []state.Write) error
	get    func(state.Key) error
	n      int
}

func (f *faulty) Submit(ctx context.Context, w []state.Write, after ...commit.Ticket) *state.Pending {
	f.mu.Lock()
	f.n++
	n, hook := f.n, f.submit
	f.mu.Unlock()
	if hook != nil {
		if err := hook(n, w); err != nil {
			return commit.Resolved[[]state.Change](nil, err)
		}
	}
	return f.Store.Submit(ctx, w, after...)
}

func (f *faulty) Get(ctx context.Context, k state.Key, o ...state.ReadOption) (state.Item, bool, error) {
	if f.get != nil {
		if err := f.get(k); err != nil {
			return state.Item{}, false, err
		}
	}
	return f.Store.Get(ctx, k, o...)
}

type fixture struct {
	*Session
	t     testing.TB
	store *faulty
	clock *clock.Fake

	endpoints map[string]bus.Endpoint
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	db, err := embedded.Open(t.Context(), embedded.Options{Dir: t.TempDir(), NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	f := &fixture{t: t, store: &faulty{Store: db.State()}, clock: clock.NewFake(time.UnixMilli(1_780_000_000_000))}
	f.Session, err = New(Deps{State: f.store, Clock: f.clock, IDs: clock.Sequence(1)})
	if err != nil {
		t.Fatal(err)
	}
	f.endpoints = f.Endpoints()
	return f
}

// invoke calls a function as the bus would.
func (f *fixture) invoke(call bus.Call, id, data string) (string, error) {
	call.FunctionID, call.Data = id, json.RawMessage(data)
	out, err := f.endpoints[id].Handle(f.t.Context(), &call)
	return string(out), err
}

func (f *fixture) must(p bus.Principal, id, data string) string {
	f.t.Helper()
	out, err := f.invoke(bus.Call{Principal: p}, id, data)
	if err != nil {
		f.t.Fatalf("%s %s: %v", id, data, err)
	}
	return out
}

func (f *fixture) put(scope, key, value string) {
	f.t.Helper()
	if _, err := state.Do(f.t.Context(), f.store.Store, state.Set(scope, key, json.RawMessage(value))); err != nil {
		f.t.Fatal(err)
	}
}

func user(text string) string {
	return fmt.Sprintf(`{"role":"user","content":[{"type":"text","text":%q}],"timestamp":1}`, text)
}

func assistant(calls ...string) string {
	blocks := []string{`{"type":"text","text":"ok"}`}
	for _, c := range calls {
		blocks = append(blocks, fmt.Sprintf(`{"type":"function_call","id":%q,"function_id":"agent_trigger","arguments":{}}`, c))
	}
	return `{"role":"assistant","content":[` + strings.Join(blocks, ",") + `],"stop_reason":"end","timestamp":1}`
}

func result(call string) string {
	return fmt.Sprintf(`{"role":"function_result","function_call_id":%q,"function_id":"a::b","content":[],"details":{},"is_error":false,"timestamp":1}`, call)
}

func appendJSON(session, parent, entry, message string) string {
	m := map[string]any{"session_id": session, "message": json.RawMessage(message)}
	if parent != "" {
		m["parent_id"] = parent
	}
	if entry != "" {
		m["entry_id"] = entry
	}
	return string(encode(m))
}

func batchJSON(session, parent string, ids []string, messages ...string) string {
	m := map[string]any{"session_id": session, "entry_ids": ids}
	raw := make([]json.RawMessage, len(messages))
	for i, s := range messages {
		raw[i] = json.RawMessage(s)
	}
	m["messages"] = raw
	if parent != "" {
		m["parent_id"] = parent
	}
	return string(encode(m))
}

func (f *fixture) path(session, leaf string) []string {
	f.t.Helper()
	var out messagesResponse
	if err := json.Unmarshal([]byte(f.must(operator, "session-tree::messages", fmt.Sprintf(`{"session_id":%q,"branch_leaf":%q}`, session, leaf))), &out); err != nil {
		f.t.Fatal(err)
	}
	ids := []string{}
	for _, m := range out.Messages {
		ids = append(ids, m.EntryID)
	}
	return ids
}

func wantCode(t testing.TB, what string, err error, code string) {
	t.Helper()
	if bus.Code(err) != code {
		t.Errorf("%s: error = %v (%s), want %s", what, err, bus.Code(err), code)
	}
}

func TestCreateAndEnsure(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var made sessionResponse
	if err := json.Unmarshal([]byte(f.must(alice, "session-tree::create", `{"display_name":"n","cwd":"/w"}`)), &made); err != nil || made.SessionID == "" {
		t.Fatalf("created %+v, %v", made, err)
	}
	for range 2 {
		if got := f.must(alice, "session-tree::ensure", `{"session_id":"s1","cwd":"/x"}`); got != `{"session_id":"s1"}` {
			t.Errorf("ensure = %s", got)
		}
	}
	m, _, err := f.meta(t.Context(), made.SessionID)
	if err != nil || m.Owner != "alice" || m.BranchCount != 1 || m.Cwd != "/w" {
		t.Errorf("meta = %+v, %v", m, err)
	}
	if m, _, _ := f.meta(t.Context(), "s1"); m.BranchCount != 0 || m.Cwd != "/x" {
		t.Errorf("ensured meta = %+v", m)
	}
	for _, bad := range []string{`{}`, `{"session_id":""}`, `{"session_id":"a/b"}`, `{"session_id":"a\u0000"}`, `{"session_id":"` + strings.Repeat("x", 129) + `"}`, `{"session_id":"x","cwd":"` + strings.Repeat("x", 5000) + `"}`, `{"session_id":"x","display_name":"` + strings.Repeat("x", 5000) + `"}`} {
		_, err := f.invoke(bus.Call{Principal: alice}, "session-tree::ensure", bad)
		wantCode(t, bad[:min(40, len(bad))], err, "invalid_payload")
	}
}

func TestStrangersSessionIsAMissingOne(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.must(alice, "session-tree::ensure", `{"session_id":"s1"}`)
	f.must(alice, "session-tree::append", appendJSON("s1", "", "e1", user("hi")))
	for id, data := range map[string]string{
		"session-tree::ensure": `{"session_id":"%s"}`, "session-tree::messages": `{"session_id":"%s"}`, "session-tree::touch": `{"session_id":"%s"}`,
		"session-tree::append": `{"session_id":"%s","message":` + user("x") + `}`, "session-tree::append_batch": `{"session_id":"%s","messages":[]}`,
		"session-inbox::peek": `{"name":"steering","session_id":"%s"}`, "session-inbox::drain": `{"name":"steering","session_id":"%s"}`,
		"session-inbox::push": `{"name":"steering","session_id":"%s","item":` + user("x") + `}`,
	} {
		_, theirs := f.invoke(bus.Call{Principal: bob}, id, fmt.Sprintf(data, "s1"))
		wantCode(t, id, theirs, "not_found")
		if id == "session-tree::ensure" {
			continue // a missing one is made
		}
		_, none := f.invoke(bus.Call{Principal: bob}, id, fmt.Sprintf(data, "s2"))
		if theirs == nil || none == nil || strings.ReplaceAll(theirs.Error(), "s1", "s2") != none.Error() {
			t.Errorf("%s: a stranger's session answers %v, a missing one %v", id, theirs, none)
		}
	}
	approver := bus.Principal{ID: "a", Role: bus.RoleApprover, Sessions: []string{"s*"}}
	f.must(approver, "session-tree::messages", `{"session_id":"s1"}`)
	_, err := f.invoke(bus.Call{Principal: approver}, "session-tree::append", appendJSON("s1", "", "", user("x")))
	wantCode(t, "an approver's append", err, "not_found")
	f.must(operator, "session-tree::append", appendJSON("s1", "", "", user("x")))
}

func TestAppendIsIdempotentWholeAndInPart(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.must(alice, "session-tree::ensure", `{"session_id":"s1"}`)
	all := batchJSON("s1", "", []string{"e1", "e2", "e3"}, user("hi"), assistant("c1"), result("c1"))
	want := `{"entry_ids":["e1","e2","e3"]}`
	f.must(alice, "session-tree::append", appendJSON("s1", "", "e1", user("hi"))) // a part was stored before
	for range 3 {
		if got := f.must(alice, "session-tree::append_batch", all); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if diff := cmp.Diff([]string{"e1", "e2", "e3"}, f.path("s1", "")); diff != "" {
		t.Error(diff)
	}
	h, _, err := f.head(t.Context(), "s1")
	if err != nil || h.Count != 3 || h.Leaf != "e3" || len(h.Open) != 0 {
		t.Errorf("head = %+v, %v", h, err)
	}
	f.must(alice, "session-tree::append", appendJSON("s1", "", "e4", user("more")))
	if got := f.must(alice, "session-tree::append_batch", all); got != want {
		t.Errorf("a repeat behind newer entries: %s", got)
	}
	if got := f.path("s1", ""); len(got) != 4 {
		t.Errorf("path = %v", got)
	}
	_, err = f.invoke(bus.Call{Principal: alice}, "session-tree::append_batch", batchJSON("s1", "e4", []string{"new", "e1"}, user("a"), user("b")))
	wantCode(t, "an id of another entry in the middle", err, "invalid_payload")
}

func TestTranscriptStaysLegal(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.must(alice, "session-tree::ensure", `{"session_id":"s1"}`)
	f.must(alice, "session-tree::append_batch", batchJSON("s1", "", []string{"u", "a", "r1"}, user("hi"), assistant("c1", "c2"), result("c1")))
	for what, c := range map[string]struct{ data, code string }{
		"a result of no call":         {appendJSON("s1", "r1", "x1", result("nope")), "orphan_result"},
		"a second result":             {appendJSON("s1", "r1", "x2", result("c1")), "orphan_result"},
		"a call id that is open":      {appendJSON("s1", "r1", "x3", assistant("c2")), "duplicate_call"},
		"a call id that was answered": {appendJSON("s1", "r1", "x4", assistant("c1")), "duplicate_call"},
		"twice in one message":        {appendJSON("s1", "r1", "x5", assistant("c9", "c9")), "duplicate_call"},
		"a call without an id":        {appendJSON("s1", "r1", "x6", assistant("")), "invalid_payload"},
		"an unknown parent":           {appendJSON("s1", "nope", "x7", user("x")), "entry_not_found"},
		"no message":                  {`{"session_id":"s1"}`, "invalid_payload"},
		"an unknown role":             {appendJSON("s1", "r1", "x8", `{"role":"king"}`), "invalid_payload"},
		"ids that do not match":       {`{"session_id":"s1","messages":[` + user("x") + `],"entry_ids":[]}`, "invalid_payload"},
		"one id twice":                {batchJSON("s1", "r1", []string{"y", "y"}, user("a"), user("b")), "invalid_payload"},
		"an id with a slash":          {batchJSON("s1", "r1", []string{"y/z"}, user("a")), "invalid_payload"},
	} {
		id := "session-tree::append"
		if strings.Contains(c.data, `"messages"`) {
			id = "session-tree::append_batch"
		}
		_, err := f.invoke(bus.Call{Principal: alice}, id, c.data)
		wantCode(t, what, err, c.code)
	}
	// On another branch the same call may stand again.
	f.must(alice, "session-tree::append_batch", batchJSON("s1", "u", []string{"b", "br"}, assistant("c1"), result("c1")))
	if diff := cmp.Diff([]string{"u", "b", "br"}, f.path("s1", "br")); diff != "" {
		t.Error(diff)
	}
	// And the first branch goes on where it was.
	f.must(alice, "session-tree::append", appendJSON("s1", "r1", "r2", result("c2")))
	if diff := cmp.Diff([]string{"u", "a", "r1", "r2"}, f.path("s1", "r2")); diff != "" {
		t.Error(diff)
	}
	too := make([]string, maxBatch+1)
	ids := make([]string, maxBatch+1)
	for i := range too {
		too[i], ids[i] = user("x"), fmt.Sprint("z", i)
	}
	_, err := f.invoke(bus.Call{Principal: alice}, "session-tree::append_batch", batchJSON("s1", "", ids, too...))
	wantCode(t, "1001 messages", err, "invalid_payload")
}

func TestBusySessionTakesOnlyTheTurnsAppends(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.must(alice, "session-tree::ensure", `{"session_id":"s1"}`)
	for _, st := range []string{"provisioning", "function_awaiting_approval"} {
		f.put(agent.ScopeTurnState, "s1", `{"state":"`+st+`"}`)
		_, err := f.invoke(bus.Call{Principal: alice}, "session-tree::append", appendJSON("s1", "", "", user("x")))
		wantCode(t, st, err, "session_busy")
		if _, err := f.invoke(bus.Call{Principal: alice, Worker: "turn-orchestrator"}, "session-tree::append", appendJSON("s1", "", "", user("x"))); err != nil {
			t.Errorf("the turn's append: %v", err)
		}
	}
	for _, st := range []string{"stopped", "failed"} {
		f.put(agent.ScopeTurnState, "s1", `{"state":"`+st+`"}`)
		f.must(alice, "session-tree::append", appendJSON("s1", "", "", user("x")))
	}
}

func TestA32EqualTimestampsKeepTheRightLeaf(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.must(alice, "session-tree::ensure", `{"session_id":"s1"}`)
	// One timestamp for all, and ids whose order is not that of the chain.
	f.must(alice, "session-tree::append_batch", batchJSON("s1", "", []string{"z", "m", "a"}, user("1"), user("2"), user("3")))
	if diff := cmp.Diff([]string{"z", "m", "a"}, f.path("s1", "")); diff != "" {
		t.Error(diff)
	}
	_, err := f.invoke(bus.Call{Principal: alice}, "session-tree::messages", `{"session_id":"s1","branch_leaf":"nope"}`)
	wantCode(t, "an unknown leaf", err, "entry_not_found")
	f.clock.Jump(-time.Hour) // the clock goes back: a child is still no older than its parent
	f.must(alice, "session-tree::append", appendJSON("s1", "", "b", user("4")))
	if diff := cmp.Diff([]string{"z", "m", "a", "b"}, f.path("s1", "")); diff != "" {
		t.Error(diff)
	}
}

func TestCycleEndsThePath(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.must(alice, "session-tree::ensure", `{"session_id":"s1"}`)
	f.put(agent.ScopeSessionTree+"s1", "a", `{"id":"a","parent_id":"b","timestamp":1,"type":"message","message":`+user("x")+`}`)
	f.put(agent.ScopeSessionTree+"s1", "b", `{"id":"b","parent_id":"a","timestamp":2,"type":"message","message":`+user("x")+`}`)
	if got := f.path("s1", ""); len(got) != 2 {
		t.Errorf("path = %v", got)
	}
	f.put(agent.ScopeSessionTree+"s1", "c", `{"id":"c","parent_id":"gone","timestamp":3,"type":"custom_message"}`)
	if got := f.path("s1", ""); len(got) != 0 {
		t.Errorf("path = %v, want nothing: the leaf is no message", got)
	}
}

func TestConcurrentAppendsKeepOneChain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.must(alice, "session-tree::ensure", `{"session_id":"s1"}`)
	var wg sync.WaitGroup
	for w := range 2 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range 30 {
				_, err := f.invoke(bus.Call{Principal: alice}, "session-tree::append", appendJSON("s1", "", fmt.Sprintf("w%d-%d", w, i), user("x")))
				if err != nil {
					t.Error(err)
				}
			}
		}()
	}
	wg.Wait()
	got := f.path("s1", "")
	if len(got) != 60 {
		t.Fatalf("%d entries on the path, want 60", len(got))
	}
	for w := range 2 {
		last := -1
		for i := range 30 {
			at := slices.Index(got, fmt.Sprintf("w%d-%d", w, i))
			if at <= last {
				t.Fatalf("writer %d's entries are out of order", w)
			}
			last = at
		}
	}
}

func TestListAndTouch(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for i, p := range []bus.Principal{alice, alice, bob, alice} {
		f.must(p, "session-tree::ensure", fmt.Sprintf(`{"session_id":"s%d"}`, i))
		f.clock.Advance(time.Second)
	}
	f.must(alice, "session-tree::append_batch", batchJSON("s0", "", []string{"u"}, user(strings.Repeat("é", 100))))
	f.must(alice, "session-tree::touch", `{"session_id":"s0"}`)
	var out listResponse
	get := func(p bus.Principal, data string) []string {
		out = listResponse{}
		if err := json.Unmarshal([]byte(f.must(p, "session-tree::list", data)), &out); err != nil {
			t.Fatal(err)
		}
		ids := []string{}
		for _, r := range out.Sessions {
			ids = append(ids, r.SessionID)
		}
		return ids
	}
	for _, tt := range []struct {
		p     bus.Principal
		data  string
		want  []string
		total int
	}{
		{alice, `{}`, []string{"s0", "s3", "s1"}, 3},
		{alice, `{"order":"asc"}`, []string{"s1", "s3", "s0"}, 3},
		{alice, `{"limit":1,"offset":1}`, []string{"s3"}, 3},
		{alice, `{"limit":0}`, []string{}, 3},
		{alice, `{"offset":9}`, []string{}, 3},
		{bob, `{}`, []string{"s2"}, 1},
		{operator, `{}`, []string{"s0", "s3", "s2", "s1"}, 4},
	} {
		if diff := cmp.Diff(tt.want, get(tt.p, tt.data)); diff != "" || out.Total != tt.total {
			t.Errorf("%s %s: %s (total %d)", tt.p.ID, tt.data, diff, out.Total)
		}
	}
	get(alice, `{"limit":1}`)
	if r := out.Sessions[0]; r.EntryCount != 1 || r.Summary != strings.Repeat("é", 80) {
		t.Errorf("row = %+v", r)
	}
	f.must(alice, "session-tree::append_batch", batchJSON("s0", "", []string{"a", "r"}, assistant("c"), result("c")))
	f.must(alice, "session-tree::touch", `{"session_id":"s0"}`)
	if get(alice, `{"limit":1}`); out.Sessions[0].Summary != "" {
		t.Error("a function result has a summary")
	}
	for _, bad := range []string{`{"limit":-1}`, `{"offset":-1}`, `{"order":"up"}`} {
		_, err := f.invoke(bus.Call{Principal: alice}, "session-tree::list", bad)
		wantCode(t, bad, err, "invalid_payload")
	}
}

func TestA33Inbox(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.must(alice, "session-tree::ensure", `{"session_id":"s1"}`)
	f.put(agent.ScopeTurnState, "s1", `{"state":"function_execute"}`)
	push := func(id, text string) {
		f.must(alice, "session-inbox::push", fmt.Sprintf(`{"name":"steering","session_id":"s1","id":%q,"item":%s}`, id, user(text)))
	}
	push("i1", "one")
	push("i2", "two")
	push("i2", "two") // the same id twice is one item
	if got := f.must(alice, "session-inbox::peek", `{"name":"steering","session_id":"s1"}`); got != `{"items":[`+user("one")+`,`+user("two")+`],"ids":["i1","i2"]}` {
		t.Errorf("peek = %s", got)
	}
	if got := f.must(alice, "session-inbox::drain", `{"name":"steering","session_id":"s1","ids":["i2","nope"]}`); got != `{"items":[`+user("two")+`]}` {
		t.Errorf("drain = %s", got)
	}
	if got := f.must(alice, "session-inbox::drain", `{"name":"steering","session_id":"s1"}`); got != `{"items":[`+user("one")+`]}` {
		t.Errorf("drain = %s", got)
	}
	if got := f.must(alice, "session-inbox::drain", `{"name":"followup","session_id":"s1"}`); got != `{"items":[]}` {
		t.Errorf("drain of an empty inbox = %s", got)
	}
	out, err := f.invoke(bus.Call{Principal: alice, IdempotencyKey: "key1"}, "session-inbox::push", `{"name":"followup","session_id":"s1","item":`+user("x")+`}`)
	if err != nil || out != `{"ok":true,"id":"key1"}` {
		t.Errorf("push = %s, %v", out, err)
	}
	item, ok, err := f.store.Store.Get(t.Context(), state.Key{Scope: agent.ScopeControl, Key: "s1"})
	if err != nil || !ok || string(item.Value) != `{"rev":4}` {
		t.Errorf("control = %s, %v, %v", item.Value, ok, err)
	}
	for _, bad := range []string{`{}`, `{"name":"x","session_id":"s1"}`, `{"name":"steering"}`, `{"name":"steering","session_id":"s1"}`, `{"name":"steering","session_id":"s1","item":{}}`,
		`{"name":"steering","session_id":"s1","item":` + assistant() + `}`, `{"name":"steering","session_id":"s1","id":"a/b","item":` + user("x") + `}`} {
		_, err := f.invoke(bus.Call{Principal: alice}, "session-inbox::push", bad)
		wantCode(t, bad, err, "invalid_payload")
	}
}

func TestA33ConcurrentPushDuringDrainIsNotLost(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.must(alice, "session-tree::ensure", `{"session_id":"s1"}`)
	const n = 40
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		for i := range n {
			if _, err := f.invoke(bus.Call{Principal: alice}, "session-inbox::push", fmt.Sprintf(`{"name":"steering","session_id":"s1","id":"i%d","item":%s}`, i, user(fmt.Sprint(i)))); err != nil {
				t.Error(err)
			}
		}
	}()
	var got []string
	for len(got) < n {
		var out drainResponse
		if err := json.Unmarshal([]byte(f.must(alice, "session-inbox::drain", `{"name":"steering","session_id":"s1"}`)), &out); err != nil {
			t.Fatal(err)
		}
		for _, it := range out.Items {
			got = append(got, string(it))
		}
	}
	wg.Wait()
	for i := range n {
		if got[i] != user(fmt.Sprint(i)) {
			t.Fatalf("item %d is %s", i, got[i])
		}
	}
}

func TestFullInbox(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.must(alice, "session-tree::ensure", `{"session_id":"s1"}`)
	full := make([]letter, maxInbox)
	for i := range full {
		full[i] = letter{ID: fmt.Sprint(i), Item: json.RawMessage(user("x"))}
	}
	f.put(agent.ScopeInbox, "s1/steering", string(encode(inbox{Items: full})))
	_, err := f.invoke(bus.Call{Principal: alice}, "session-inbox::push", `{"name":"steering","session_id":"s1","item":`+user("x")+`}`)
	wantCode(t, "push", err, "inbox_full")
}

func TestStoreFailuresAreTold(t *testing.T) {
	t.Parallel()
	boom := &state.StorageError{Op: "x", Err: fmt.Errorf("disk")}
	calls := map[string]string{
		"session-tree::create": `{}`, "session-tree::ensure": `{"session_id":"new"}`, "session-tree::append": appendJSON("s1", "", "", user("x")),
		"session-tree::touch": `{"session_id":"s1"}`, "session-inbox::push": `{"name":"steering","session_id":"s1","item":` + user("x") + `}`,
	}
	for id, data := range calls {
		f := newFixture(t)
		f.must(alice, "session-tree::ensure", `{"session_id":"s1"}`)
		f.store.submit = func(int, []state.Write) error { return boom }
		_, err := f.invoke(bus.Call{Principal: alice}, id, data)
		wantCode(t, id, err, "storage")
		if !bus.Retryable(err) {
			t.Errorf("%s: %v is not retryable", id, err)
		}
		f.store.submit = func(int, []state.Write) error { return &state.ConflictError{} }
		if _, err := f.invoke(bus.Call{Principal: alice}, id, data); err == nil {
			t.Errorf("%s: endless conflicts were no error", id)
		}
	}
	f := newFixture(t)
	f.must(alice, "session-tree::ensure", `{"session_id":"s1"}`)
	f.must(alice, "session-inbox::push", `{"name":"steering","session_id":"s1","item":`+user("x")+`}`)
	f.store.submit = func(int, []state.Write) error { return boom }
	if got := f.must(alice, "session-inbox::drain", `{"name":"steering","session_id":"s1"}`); got != `{"items":[]}` {
		t.Errorf("drain = %s", got)
	}
	f.store.submit = nil
	for _, scope := range []string{agent.ScopeSessionTreeMeta, agent.ScopeTurnState, scopeHead, agent.ScopeInbox} {
		f.store.get = func(k state.Key) error {
			if k.Scope == scope {
				return boom
			}
			return nil
		}
		failed := 0
		for id, data := range calls {
			if _, err := f.invoke(bus.Call{Principal: alice}, id, data); err != nil {
				wantCode(t, scope+" "+id, err, "storage")
				failed++
			}
		}
		if failed == 0 {
			t.Errorf("nobody noticed that %s cannot be read", scope)
		}
	}
}

func TestDamagedRowsAreErrors(t *testing.T) {
	t.Parallel()
	for scope, key := range map[string]string{
		agent.ScopeSessionTreeMeta: "s1", agent.ScopeTurnState: "s1", scopeHead: "s1", agent.ScopeInbox: "s1/steering", agent.ScopeSessionTree + "s1": "e",
	} {
		f := newFixture(t)
		f.must(alice, "session-tree::ensure", `{"session_id":"s1"}`)
		f.put(scope, key, `"damaged"`)
		failed := 0
		for id, data := range map[string]string{
			"session-tree::append": appendJSON("s1", "", "", user("x")), "session-tree::messages": `{"session_id":"s1"}`, "session-tree::list": `{}`,
			"session-inbox::peek": `{"name":"steering","session_id":"s1"}`,
		} {
			if _, err := f.invoke(bus.Call{Principal: alice}, id, data); err != nil {
				wantCode(t, scope+" "+id, err, "storage")
				failed++
			}
		}
		if failed == 0 {
			t.Errorf("a damaged row of %s was served", scope)
		}
	}
}

func TestNewWantsItsPorts(t *testing.T) {
	t.Parallel()
	if _, err := New(Deps{}); err == nil {
		t.Error("a session without ports was made")
	}
}
