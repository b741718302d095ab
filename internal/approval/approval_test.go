package approval

import (
	"context"
	"encoding/json"
	"fmt"
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
	approver = bus.Principal{ID: "ann", Role: bus.RoleApprover, Sessions: []string{"s*"}, OnBehalfOf: "slack:T1:U1"}
	operator = bus.Principal{ID: "op", Role: bus.RoleOperator}
)

// turn answers turn::pending_call.
type turn struct {
	calls map[string]string // "<session>/<call>" -> answer
	err   error
}

func (f *turn) Invoke(_ context.Context, in bus.Invocation) (json.RawMessage, error) {
	var r struct {
		SessionID      string `json:"session_id"`
		FunctionCallID string `json:"function_call_id"`
	}
	if err := json.Unmarshal(in.Data, &r); err != nil || in.FunctionID != "turn::pending_call" {
		return nil, fmt.Errorf("unexpected call of %s: %w", in.FunctionID, err)
	}
	if f.err != nil {
		return nil, f.err
	}
	if a, ok := f.calls[r.SessionID+"/"+r.FunctionCallID]; ok {
		return json.RawMessage(a), nil
	}
	return json.RawMessage("null"), nil
}

// faulty fails submits and gets where the hooks say so.
type faulty struct {
	state.Store
	submit func([]state.Write) error
	get    func(state.Key) error
}

func (f *faulty) Submit(ctx context.Context, w []state.Write, after ...commit.Ticket) *state.Pending {
	if f.submit != nil {
		if err := f.submit(w); err != nil {
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
	*Gate
	t     *testing.T
	store *faulty
	turn  *turn
}

func newFixture(t *testing.T) *fixture {
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
	f := &fixture{t: t, store: &faulty{Store: db.State()}, turn: &turn{calls: map[string]string{"s1/c1": `{"run":"r1","args_hash":"h1"}`}}}
	f.Gate, err = New(Deps{State: f.store, Bus: f.turn, Clock: clock.NewFake(time.UnixMilli(1_780_000_000_000))})
	if err != nil {
		t.Fatal(err)
	}
	f.put(agent.ScopeSessionTreeMeta, "s1", `{"session_id":"s1","owner":"alice"}`)
	return f
}

func (f *fixture) put(scope, key, value string) {
	f.t.Helper()
	if _, err := state.Do(f.t.Context(), f.store.Store, state.Set(scope, key, json.RawMessage(value))); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) invoke(p bus.Principal, id, data string) string {
	f.t.Helper()
	out, err := f.Endpoints()[id].Handle(f.t.Context(), &bus.Call{FunctionID: id, Data: json.RawMessage(data), Principal: p})
	if err != nil {
		f.t.Fatalf("%s %s: %v", id, data, err)
	}
	return string(out)
}

func (f *fixture) row() agent.Decision {
	f.t.Helper()
	item, ok, err := f.store.Store.Get(f.t.Context(), state.Key{Scope: agent.ScopeApprovals, Key: "s1/c1"})
	if err != nil || !ok {
		f.t.Fatalf("no row: %v", err)
	}
	var d agent.Decision
	if err := json.Unmarshal(item.Value, &d); err != nil {
		f.t.Fatal(err)
	}
	return d
}

const allow = `{"session_id":"s1","function_call_id":"c1","decision":"allow"}`

func TestF01DecisionIsStoredWithItsReason(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	got := f.invoke(approver, "approval::resolve", `{"body":{"session_id":"s1","function_call_id":"c1","decision":"deny","reason":"not today","context":{"ticket":7}}}`)
	if got != `{"ok":true}` {
		t.Fatalf("got %s", got)
	}
	reason := "not today"
	want := agent.Decision{Decision: "deny", Reason: &reason, DecidedBy: "slack:T1:U1", DecidedAt: 1_780_000_000_000, Run: "r1", ArgsHash: "h1"}
	if diff := cmp.Diff(want, f.row()); diff != "" {
		t.Error(diff)
	}
	item, _, err := f.store.Store.Get(t.Context(), state.Key{Scope: agent.ScopeControl, Key: "s1"})
	if err != nil || string(item.Value) != `{"rev":1}` {
		t.Errorf("control = %s, %v", item.Value, err)
	}
}

func TestA8InvalidPayload(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, bad := range []string{
		`{}`, `[]`, `{"session_id":1}`, `{"session_id":"s/1","function_call_id":"c1","decision":"allow"}`,
		`{"session_id":"s1","function_call_id":"c/1","decision":"allow"}`, `{"session_id":"s1","function_call_id":"c1","decision":"maybe"}`,
		`{"session_id":"s1","function_call_id":"c1","decision":"aborted"}`, `{"session_id":"","function_call_id":"c1","decision":"allow"}`,
		`{"session_id":"s1","function_call_id":"c1","decision":"allow","remember":"always"}`,
		`{"session_id":"s1","function_call_id":"c1","decision":"deny","remember":"session"}`,
		`{"session_id":"s1","function_call_id":"c1","decision":"allow","remember":"session"}`, // of a turn that names no function
		`{"session_id":"s1","function_call_id":"c1","decision":"allow","reason":"` + strings.Repeat("x", 4001) + `"}`,
	} {
		var r Response
		if err := json.Unmarshal([]byte(f.invoke(alice, "approval::resolve", bad)), &r); err != nil || r.OK || r.Error != InvalidPayload || r.Message == "" {
			t.Errorf("%s: %+v, %v", bad[:min(len(bad), 90)], r, err)
		}
	}
}

func TestA8ResumeFailed(t *testing.T) {
	t.Parallel()
	boom := &state.StorageError{Op: "x", Err: fmt.Errorf("disk")}
	for name, break_ := range map[string]func(*fixture){
		"submit":          func(f *fixture) { f.store.submit = func([]state.Write) error { return boom } },
		"read session":    func(f *fixture) { f.store.get = scopeFails(agent.ScopeSessionTreeMeta, boom) },
		"read decision":   func(f *fixture) { f.store.get = scopeFails(agent.ScopeApprovals, boom) },
		"turn":            func(f *fixture) { f.turn.err = boom },
		"turn garbage":    func(f *fixture) { f.turn.calls["s1/c1"] = `7` },
		"damaged row":     func(f *fixture) { f.put(agent.ScopeApprovals, "s1/c1", `7`) },
		"endless race":    func(f *fixture) { f.store.submit = func([]state.Write) error { return &state.ConflictError{} } },
		"damaged session": func(f *fixture) { f.put(agent.ScopeSessionTreeMeta, "s1", `7`) },
	} {
		f := newFixture(t)
		break_(f)
		if got := f.invoke(alice, "approval::resolve", allow); got != `{"ok":false,"error":"resume_failed"}` {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func scopeFails(scope string, err error) func(state.Key) error {
	return func(k state.Key) error {
		if k.Scope == scope {
			return err
		}
		return nil
	}
}

func TestWhoMayDecide(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		p  bus.Principal
		ok bool
	}{
		{alice, true}, {operator, true}, {approver, true}, {bob, false},
		{bus.Principal{ID: "x", Role: bus.RoleApprover, Sessions: []string{"other"}}, false}, {bus.Principal{}, false},
	} {
		f := newFixture(t)
		want := `{"ok":false,"error":"not_found"}`
		if tt.ok {
			want = `{"ok":true}`
		}
		if got := f.invoke(tt.p, "approval::resolve", allow); got != want {
			t.Errorf("%+v: %s, want %s", tt.p, got, want)
		}
	}
	f := newFixture(t)
	for _, data := range []string{
		`{"session_id":"none","function_call_id":"c1","decision":"allow"}`, `{"session_id":"s1","function_call_id":"none","decision":"allow"}`,
	} {
		if got := f.invoke(operator, "approval::resolve", data); got != `{"ok":false,"error":"not_found"}` {
			t.Errorf("%s: %s", data, got)
		}
	}
}

func TestA9FirstDecisionWins(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const n = 100
	answers := make(chan string, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Add(1)
		go func() {
			defer wg.Done()
			data := allow
			if i%2 == 1 {
				data = strings.Replace(allow, `"allow"`, `"deny"`, 1)
			}
			answers <- f.invoke(operator, "approval::resolve", data)
		}()
	}
	wg.Wait()
	close(answers)
	won, row := 0, f.row()
	lost := fmt.Sprintf(`{"ok":false,"error":"already_decided","decision":%q,"decided_by":"op"}`, row.Decision)
	for a := range answers {
		switch a {
		case `{"ok":true}`:
			won++
		case lost:
		default:
			t.Errorf("answer %s", a)
		}
	}
	if won != 1 {
		t.Errorf("%d decisions were stored", won)
	}
	delete(f.turn.calls, "s1/c1") // the call has run: a late decision still hears who decided
	if got := f.invoke(alice, "approval::resolve", allow); got != lost {
		t.Errorf("late: %s", got)
	}
}

func TestA44OldDecisionOpensNothing(t *testing.T) {
	t.Parallel()
	for what, row := range map[string]string{
		"another run":     `{"decision":"allow","decided_by":"x","run":"r0","args_hash":"h1"}`,
		"other arguments": `{"decision":"allow","decided_by":"x","run":"r1","args_hash":"h0"}`,
	} {
		f := newFixture(t)
		f.put(agent.ScopeApprovals, "s1/c1", row)
		if got := f.invoke(alice, "approval::resolve", strings.Replace(allow, `"allow"`, `"deny"`, 1)); got != `{"ok":true}` {
			t.Errorf("%s: %s", what, got)
		}
		if d := f.row(); d.Decision != "deny" || d.Run != "r1" || d.ArgsHash != "h1" {
			t.Errorf("%s: row %+v", what, d)
		}
	}
}

func TestControlFailureDoesNotLoseTheDecision(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.store.submit = func(w []state.Write) error {
		if w[0].Scope == agent.ScopeControl {
			return &state.StorageError{Op: "x", Err: fmt.Errorf("disk")}
		}
		return nil
	}
	if got := f.invoke(alice, "approval::resolve", allow); got != `{"ok":true}` {
		t.Errorf("got %s", got)
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.put(agent.ScopeSessionTreeMeta, "t1", `{"session_id":"t1","owner":"bob"}`)
	for i, key := range []string{"s1/c1", "t1/c2", "s1/c3", "s1/c4"} {
		session, id, _ := strings.Cut(key, "/")
		f.put(agent.ScopeApprovalReqs, key, fmt.Sprintf(`{"session_id":%q,"function_call_id":%q,"function_id":"a::b","args_excerpt":{},"requested_at":%d,"requested_by":"alice"}`, session, id, 100+i/3))
	}
	page := func(p bus.Principal, data string) (ids []string, cursor string) {
		t.Helper()
		var out listResponse
		if err := json.Unmarshal([]byte(f.invoke(p, "approval::list", data)), &out); err != nil {
			t.Fatal(err)
		}
		ids = []string{}
		for _, a := range out.Approvals {
			ids = append(ids, a.SessionID+"/"+a.FunctionCallID)
		}
		return ids, out.Cursor
	}
	for _, tt := range []struct {
		p    bus.Principal
		data string
		want []string
	}{
		{operator, `{}`, []string{"s1/c4", "s1/c1", "s1/c3", "t1/c2"}},
		{alice, `{}`, []string{"s1/c4", "s1/c1", "s1/c3"}},
		{bob, `{}`, []string{"t1/c2"}},
		{approver, `{}`, []string{"s1/c4", "s1/c1", "s1/c3"}},
		{operator, `{"session_id":"t1"}`, []string{"t1/c2"}},
		{bob, `{"session_id":"s1"}`, []string{}},
	} {
		if got, _ := page(tt.p, tt.data); !cmp.Equal(got, tt.want) {
			t.Errorf("%s %s: %v, want %v", tt.p.ID, tt.data, got, tt.want)
		}
	}
	var all []string
	for cursor := ""; ; {
		got, next := page(operator, fmt.Sprintf(`{"limit":1,"cursor":%q}`, cursor))
		all = append(all, got...)
		if cursor = next; cursor == "" {
			break
		}
	}
	if diff := cmp.Diff([]string{"s1/c4", "s1/c1", "s1/c3", "t1/c2"}, all); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{`{"limit":0}`, `{"limit":201}`, `{"cursor":"x!"}`, `{"session_id":"a/b"}`} {
		_, err := f.Endpoints()["approval::list"].Handle(t.Context(), &bus.Call{Data: json.RawMessage(bad), Principal: operator})
		if bus.Code(err) != "invalid_payload" {
			t.Errorf("%s: %v", bad, err)
		}
	}
	f.put(agent.ScopeApprovalReqs, "s1/bad", `7`)
	if got, _ := page(operator, `{"session_id":"s1"}`); len(got) != 3 {
		t.Errorf("with a damaged row: %v", got)
	}
}

func TestNewWantsItsPorts(t *testing.T) {
	t.Parallel()
	if _, err := New(Deps{}); err == nil {
		t.Error("a gate without ports was made")
	}
}
