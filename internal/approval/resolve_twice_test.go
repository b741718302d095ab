package approval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/commit"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
)

func (f *fixture) control() string {
	f.t.Helper()
	item, _, err := f.store.Store.Get(f.t.Context(), state.Key{Scope: agent.ScopeControl, Key: "s1"})
	if err != nil {
		f.t.Fatal(err)
	}
	return string(item.Value)
}

// lossy loses the answer of the first write of a decision: applied or not, and
// then, if given, another writer comes.
type lossy struct {
	state.Store
	applied bool
	then    func()
	once    sync.Once
}

func (l *lossy) Submit(ctx context.Context, w []state.Write, after ...commit.Ticket) *state.Pending {
	var out *state.Pending
	if w[0].Scope == agent.ScopeApprovals {
		l.once.Do(func() {
			out = commit.Resolved[[]state.Change](nil, &state.StorageError{Op: "write", Ambiguous: true, Err: errors.New("answer lost")})
			if l.applied {
				if _, err := l.Store.Submit(ctx, w).Wait(ctx); err != nil {
					panic(err)
				}
			}
			if l.then != nil {
				l.then()
			}
		})
	}
	if out != nil {
		return out
	}
	return l.Store.Submit(ctx, w, after...)
}

// F15: whether a decision whose answer was lost stands is read, not guessed.
func TestF15DecisionWhoseAnswerWasLost(t *testing.T) {
	t.Parallel()
	other := `{"decision":"deny","reason":null,"decided_by":"bob","decided_at":1,"run":"r1","args_hash":"h1"}`
	for name, tt := range map[string]struct {
		applied bool
		other   bool
		want    string
	}{
		"applied":                       {applied: true, want: `{"ok":true}`},
		"not applied":                   {want: `{"ok":true}`},
		"not applied, another was":      {other: true, want: `{"ok":false,"error":"already_decided","decision":"deny","decided_by":"bob"}`},
		"applied, an old row was there": {applied: true, want: `{"ok":true}`},
	} {
		f := newFixture(t)
		if strings.HasSuffix(name, "old row was there") {
			f.put(agent.ScopeApprovals, "s1/c1", strings.Replace(other, `"r1"`, `"r0"`, 1))
		}
		l := &lossy{Store: f.store.Store, applied: tt.applied}
		if tt.other {
			l.then = func() { f.put(agent.ScopeApprovals, "s1/c1", other) }
		}
		f.State = l
		if got := f.invoke(alice, "approval::resolve", allow); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// A sender who saw nothing happen decides again: nothing changes, but the turn
// is told once more, in case the first word was lost.
func TestA9RepeatTellsTheTurnAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.invoke(alice, "approval::resolve", allow)
	row := f.row()
	if got := f.invoke(operator, "approval::resolve", strings.Replace(allow, "allow", "deny", 1)); got != `{"ok":false,"error":"already_decided","decision":"allow","decided_by":"alice"}` {
		t.Errorf("got %s", got)
	}
	if got := f.control(); got != `{"rev":2}` {
		t.Errorf("control = %s", got)
	}
	if diff := cmp.Diff(row, f.row()); diff != "" {
		t.Error(diff)
	}
	delete(f.turn.calls, "s1/c1") // it has run
	f.invoke(operator, "approval::resolve", allow)
	if got := f.control(); got != `{"rev":2}` {
		t.Errorf("a call that has run was told again: control = %s", got)
	}
}

// The row is stored before the control item is raised: a step that looks early
// would find nothing, and not look again.
func TestRowComesBeforeTheControlItem(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.put(agent.ScopeControl, "s1", `{"lease":4,"rev":8}`)
	var order []string
	f.store.submit = func(w []state.Write) error {
		order = append(order, w[0].Scope)
		if w[0].Scope == agent.ScopeControl {
			f.row() // fails if it is not there
		}
		return nil
	}
	f.invoke(alice, "approval::resolve", allow)
	if diff := cmp.Diff([]string{agent.ScopeApprovals, agent.ScopeControl}, order); diff != "" {
		t.Error(diff)
	}
	if got := f.control(); got != `{"lease":4,"rev":9}` {
		t.Errorf("control = %s", got)
	}
}

// F03, F05: decisions belong to call ids, in whatever order they come.
func TestF03F05DecisionsAreNotCrossed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	clk := f.Clock.(*clock.Fake)
	for i, c := range []string{"c3", "c2", "c1"} {
		f.turn.calls["s1/"+c] = fmt.Sprintf(`{"run":"r1","args_hash":"hash of %s"}`, c)
		data := strings.NewReplacer("c1", c, "allow", []string{"allow", "deny", "allow"}[i]).Replace(allow)
		if got := f.invoke(alice, "approval::resolve", data); got != `{"ok":true}` {
			t.Errorf("%s: %s", c, got)
		}
		clk.Advance(time.Hour)
	}
	for i, c := range []string{"c3", "c2", "c1"} {
		item, _, err := f.store.Store.Get(t.Context(), state.Key{Scope: agent.ScopeApprovals, Key: "s1/" + c})
		var d agent.Decision
		if err != nil || json.Unmarshal(item.Value, &d) != nil {
			t.Fatalf("%s: %s, %v", c, item.Value, err)
		}
		want := []string{"allow", "deny", "allow"}[i]
		if d.Decision != want || d.ArgsHash != "hash of "+c || d.DecidedAt != 1_780_000_000_000+int64(i)*3_600_000 {
			t.Errorf("%s: %+v", c, d)
		}
	}
}

// Expiry and people race through the same condition: who is first decides.
func TestExpiryAndPeopleRace(t *testing.T) {
	t.Parallel()
	for range 20 {
		f := newFixture(t)
		reason := "expired"
		value, err := bus.Encode(agent.Decision{Decision: "deny", Reason: &reason, DecidedBy: "system", DecidedAt: 1, Run: "r1", ArgsHash: "h1"})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		var expired error
		var answer string
		wg.Add(2)
		go func() {
			defer wg.Done()
			_, expired = state.Do(t.Context(), f.store.Store, state.Set(agent.ScopeApprovals, "s1/c1", value).IfAbsent())
		}()
		go func() {
			defer wg.Done()
			answer = f.invoke(alice, "approval::resolve", allow)
		}()
		wg.Wait()
		won := answer == `{"ok":true}`
		if won == (expired == nil) {
			t.Fatalf("both or none decided: %s, %v", answer, expired)
		}
		if !won && answer != `{"ok":false,"error":"already_decided","decision":"deny","decided_by":"system"}` {
			t.Errorf("answer %s", answer)
		}
		if d := f.row(); (d.Decision == "allow") != won {
			t.Errorf("row %+v after %s", d, answer)
		}
	}
}

// F08: what the approver was shown is what the row names. When the call changed
// under a decision that was on its way, that decision is on the old call.
func TestF08DecisionIsBoundToTheArguments(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.invoke(alice, "approval::resolve", allow)
	f.turn.calls["s1/c1"] = `{"run":"r1","args_hash":"h2"}`
	if got := f.invoke(bus.Principal{ID: "op", Role: bus.RoleOperator}, "approval::resolve", strings.Replace(allow, "allow", "deny", 1)); got != `{"ok":true}` {
		t.Errorf("got %s", got)
	}
	if d := f.row(); d.Decision != "deny" || d.ArgsHash != "h2" || d.DecidedBy != "op" {
		t.Errorf("row %+v", d)
	}
}

func TestAnswerOfTheTurnMustNameTheCall(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{`{}`, `{"run":"r1"}`, `{"args_hash":"h1"}`, `"x"`} {
		f := newFixture(t)
		f.turn.calls["s1/c1"] = answer
		if got := f.invoke(alice, "approval::resolve", allow); got != `{"ok":false,"error":"resume_failed"}` {
			t.Errorf("%s: %s", answer, got)
		}
	}
}

// FuzzResolve: no payload is an invocation error, and none but a good one
// stores anything.
func FuzzResolve(f *testing.F) {
	f.Add(allow)
	f.Add(`{"session_id":"s1","function_call_id":"c1","decision":"deny","reason":"é"}`)
	f.Add(`{"body":{"session_id":"s1\u0000"}}`)
	f.Add(`[1]`)
	f.Fuzz(func(t *testing.T, data string) {
		store := &rows{}
		g, err := New(Deps{State: store, Bus: &turn{calls: map[string]string{"s1/c1": `{"run":"r1","args_hash":"h1"}`}}, Clock: clock.NewFake(time.UnixMilli(5))})
		if err != nil {
			t.Fatal(err)
		}
		handle := bus.Unwrapped(bus.Raw(g.handleResolve)).Handle
		out, err := handle(t.Context(), &bus.Call{FunctionID: "approval::resolve", Data: json.RawMessage(data), Principal: alice})
		var r Response
		if err != nil || json.Unmarshal(out, &r) != nil {
			t.Fatalf("%q answered %s, %v", data, out, err)
		}
		if r.OK != store.decided {
			t.Fatalf("%q answered %s, decided: %v", data, out, store.decided)
		}
	})
}

// rows has session s1 and takes decisions.
type rows struct {
	state.Store
	decided bool
}

func (r *rows) Get(_ context.Context, k state.Key, _ ...state.ReadOption) (state.Item, bool, error) {
	if k == (state.Key{Scope: agent.ScopeSessionTreeMeta, Key: "s1"}) {
		return state.Item{Key: k, Version: 1, Value: json.RawMessage(`{"owner":"alice"}`)}, true, nil
	}
	return state.Item{}, false, nil
}

func (r *rows) Submit(_ context.Context, w []state.Write, _ ...commit.Ticket) *state.Pending {
	r.decided = r.decided || w[0].Scope == agent.ScopeApprovals
	return commit.Resolved(make([]state.Change, len(w)), nil)
}
