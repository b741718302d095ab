package enginetest

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/state"
)

// NewState makes an empty store for a test.
type NewState func(t *testing.T, c clock.Clock) state.Store

// stateCase is one case of the suite.
type stateCase struct {
	name string
	run  func(t *testing.T, s state.Store, c *clock.Fake)
}

// RunState is the suite of state.Store.
func RunState(t *testing.T, open NewState) {
	t.Helper()
	for _, cases := range [][]stateCase{
		stateWrites, stateConditions, stateTransactions, stateReads, stateTimes, stateChains, stateWatches, stateRaces, stateValues, stateNames,
	} {
		for _, tt := range cases {
			t.Run(tt.name, func(t *testing.T) {
				t.Parallel()
				c := clock.NewFake(time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC))
				tt.run(t, open(t, c), c)
			})
		}
	}
}

// do makes one write that must succeed.
func do(t *testing.T, s state.Store, w state.Write) state.Change {
	t.Helper()
	ch, err := state.Do(t.Context(), s, w)
	if err != nil {
		t.Fatalf("%s %s/%s: %v", w.Kind, w.Scope, w.Key.Key, err)
	}
	return ch
}

func set(t *testing.T, s state.Store, scope, key, value string) state.Change {
	t.Helper()
	return do(t, s, state.Set(scope, key, json.RawMessage(value)))
}

// get reads an item that must exist.
func get(t *testing.T, s state.Store, scope, key string) state.Item {
	t.Helper()
	item, ok, err := s.Get(t.Context(), state.Key{Scope: scope, Key: key})
	if err != nil || !ok {
		t.Fatalf("get %s/%s: got ok %v, error %v; want an item", scope, key, ok, err)
	}
	return item
}

// wantValue demands value and version of an item.
func wantValue(t *testing.T, s state.Store, scope, key, value string, version int64) {
	t.Helper()
	item := get(t, s, scope, key)
	want := state.Item{Key: state.Key{Scope: scope, Key: key}, Value: json.RawMessage(value), Version: version, Due: item.Due, Expires: item.Expires}
	if diff := cmp.Diff(want, item); diff != "" {
		t.Errorf("item %s/%s (-want +got):\n%s", scope, key, diff)
	}
}

func wantAbsent(t *testing.T, s state.Store, scope, key string) {
	t.Helper()
	item, ok, err := s.Get(t.Context(), state.Key{Scope: scope, Key: key})
	if err != nil || ok {
		t.Errorf("get %s/%s: got %+v, ok %v, error %v; want none", scope, key, item, ok, err)
	}
}

// wantConflict demands a conflict of the write at index.
func wantConflict(t *testing.T, err error, index int) *state.ConflictError {
	t.Helper()
	var c *state.ConflictError
	if !errors.As(err, &c) {
		t.Fatalf("got error %v, want a *state.ConflictError", err)
	}
	if c.Index != index {
		t.Errorf("got conflict index %d, want %d", c.Index, index)
	}
	return c
}

// wantInvalid demands that a field is refused.
func wantInvalid(t *testing.T, err error, field string) {
	t.Helper()
	var e *state.InvalidKeyError
	if !errors.As(err, &e) {
		t.Fatalf("got error %v, want a *state.InvalidKeyError for %s", err, field)
	}
	if e.Field != field || e.Allowed == "" {
		t.Errorf("got field %q, allowed %q; want field %q and what is allowed", e.Field, e.Allowed, field)
	}
}

func keysOf(items []state.Item) []string {
	keys := make([]string, len(items))
	for i, item := range items {
		keys[i] = item.Key.Key
	}
	return keys
}

func wantStrings(t *testing.T, what string, got, want []string) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// deadline bounds what a suite waits for.
func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}
