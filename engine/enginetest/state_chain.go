package enginetest

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/commit"
	"github.com/iii-aws/harness/engine/state"
)

func submitSet(t *testing.T, s state.Store, key, value string, after ...commit.Ticket) *state.Pending {
	t.Helper()
	return s.Submit(t.Context(), []state.Write{state.Set("s", key, json.RawMessage(value))}, after...)
}

func submitConflict(t *testing.T, s state.Store, after ...commit.Ticket) *state.Pending {
	t.Helper()
	return s.Submit(t.Context(), []state.Write{state.Set("s", "never", json.RawMessage(`1`)).IfVersion(99)}, after...)
}

func wantSkipped(t *testing.T, p commit.Ticket) {
	t.Helper()
	if err := commit.Wait(deadline(t), p); !errors.Is(err, commit.ErrSkipped) {
		t.Errorf("got error %v, want commit.ErrSkipped", err)
	}
}

func wantApplied(t *testing.T, tickets ...commit.Ticket) {
	t.Helper()
	if err := commit.Wait(deadline(t), tickets...); err != nil {
		t.Errorf("got error %v", err)
	}
}

var stateChains = []stateCase{
	{"a chained write sees the earlier one", func(t *testing.T, s state.Store, _ *clock.Fake) {
		first := submitSet(t, s, "k", `1`)
		second := s.Submit(t.Context(), []state.Write{state.Set("s", "k", json.RawMessage(`2`)).IfVersion(1)}, first)
		third := s.Submit(t.Context(), []state.Write{state.Set("s", "k", json.RawMessage(`3`)).IfVersion(2)}, second)
		wantApplied(t, first, second, third)
		wantValue(t, s, "s", "k", `3`, 3)
	}},
	{"a write after a failed one is skipped, and so on", func(t *testing.T, s state.Store, _ *clock.Fake) {
		first := submitConflict(t, s)
		second := submitSet(t, s, "a", `1`, first)
		third := submitSet(t, s, "b", `1`, second)
		other := submitSet(t, s, "c", `1`)
		wantSkipped(t, second)
		wantSkipped(t, third)
		wantApplied(t, other)
		wantAbsent(t, s, "s", "a")
		wantAbsent(t, s, "s", "b")
		wantConflict(t, first.Err(), 0)
	}},
	{"a write after tickets that have ended", func(t *testing.T, s state.Store, _ *clock.Fake) {
		good, bad := submitSet(t, s, "k", `1`), submitConflict(t, s)
		wantApplied(t, good)
		if err := commit.Wait(deadline(t), bad); err == nil {
			t.Fatal("got no error")
		}
		wantApplied(t, submitSet(t, s, "a", `1`, good))
		wantSkipped(t, submitSet(t, s, "b", `1`, good, bad))
		wantAbsent(t, s, "s", "b")
	}},
	{"all tickets must have been applied", func(t *testing.T, s state.Store, _ *clock.Fake) {
		wantSkipped(t, submitSet(t, s, "k", `1`, submitSet(t, s, "a", `1`), submitConflict(t, s), submitSet(t, s, "b", `1`)))
		wantAbsent(t, s, "s", "k")
	}},
	{"a nil ticket is none", func(t *testing.T, s state.Store, _ *clock.Fake) {
		wantApplied(t, submitSet(t, s, "k", `1`, nil))
	}},
	{"a write waits for a ticket from elsewhere", func(t *testing.T, s state.Store, _ *clock.Fake) {
		elsewhere := commit.NewPromise[int]()
		p := submitSet(t, s, "k", `1`, elsewhere)
		next := submitSet(t, s, "k2", `1`, p)
		wantApplied(t, submitSet(t, s, "other", `1`))
		wantAbsent(t, s, "s", "k")
		select {
		case <-p.Done():
			t.Fatal("the write did not wait")
		default:
		}
		elsewhere.Resolve(1, nil)
		wantApplied(t, p, next)
		wantValue(t, s, "s", "k", `1`, 1)
		wantValue(t, s, "s", "k2", `1`, 1)
	}},
	{"a ticket from elsewhere that fails skips", func(t *testing.T, s state.Store, _ *clock.Fake) {
		elsewhere := commit.NewPromise[int]()
		p := submitSet(t, s, "k", `1`, elsewhere)
		elsewhere.Resolve(0, errors.New("lost"))
		wantSkipped(t, p)
		wantAbsent(t, s, "s", "k")
	}},
	{"a chain behind a large value", func(t *testing.T, s state.Store, _ *clock.Fake) {
		large := text(state.InlineLimit + 1)
		first := submitSet(t, s, "k", large)
		second := s.Submit(t.Context(), []state.Write{state.Set("s", "k", json.RawMessage(`2`)).IfVersion(1)}, first)
		wantApplied(t, second, first)
		wantValue(t, s, "s", "k", `2`, 2)
		wantSkipped(t, submitSet(t, s, "k", large, submitConflict(t, s)))
		wantValue(t, s, "s", "k", `2`, 2)
	}},
	{"reads see what a ticket has acknowledged", func(t *testing.T, s state.Store, _ *clock.Fake) {
		for i := range 200 {
			if ch := set(t, s, "s", "k", `1`); get(t, s, "s", "k").Version != ch.Version || ch.Version != int64(i+1) {
				t.Fatalf("write %d was acknowledged at version %d and is not there", i, ch.Version)
			}
		}
	}},
}
