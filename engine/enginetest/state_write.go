package enginetest

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/commit"
	"github.com/iii-aws/harness/engine/state"
)

var stateWrites = []stateCase{
	{"a set creates, then updates", func(t *testing.T, s state.Store, _ *clock.Fake) {
		key := state.Key{Scope: "s", Key: "k"}
		want := state.Change{Key: key, Type: state.Created, New: json.RawMessage(`{"n":1}`), Version: 1}
		if diff := cmp.Diff(want, set(t, s, "s", "k", `{"n":1}`), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("create (-want +got):\n%s", diff)
		}
		want = state.Change{Key: key, Type: state.Updated, Old: json.RawMessage(`{"n":1}`), New: json.RawMessage(`{"n":2}`), Version: 2}
		if diff := cmp.Diff(want, set(t, s, "s", "k", `{"n":2}`), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("update (-want +got):\n%s", diff)
		}
		wantValue(t, s, "s", "k", `{"n":2}`, 2)
	}},
	{"a created change has no old value, a stored null is one", func(t *testing.T, s state.Store, _ *clock.Fake) {
		if ch := set(t, s, "s", "k", `null`); ch.Old != nil || ch.Type != state.Created {
			t.Errorf("got type %s, old %s; want %s and none", ch.Type, ch.Old, state.Created)
		}
		if ch := set(t, s, "s", "k", `1`); string(ch.Old) != "null" || ch.Type != state.Updated {
			t.Errorf("got type %s, old %s; want %s and null", ch.Type, ch.Old, state.Updated)
		}
	}},
	{"an empty value is null", func(t *testing.T, s state.Store, _ *clock.Fake) {
		if ch := do(t, s, state.Set("s", "k", nil)); string(ch.New) != "null" {
			t.Errorf("got new value %q, want null", ch.New)
		}
		wantValue(t, s, "s", "k", `null`, 1)
	}},
	{"a delete gives the old value and forgets the version", func(t *testing.T, s state.Store, _ *clock.Fake) {
		set(t, s, "s", "k", `1`)
		set(t, s, "s", "k", `2`)
		want := state.Change{Key: state.Key{Scope: "s", Key: "k"}, Type: state.Deleted, Old: json.RawMessage(`2`)}
		if diff := cmp.Diff(want, do(t, s, state.Delete("s", "k")), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("delete (-want +got):\n%s", diff)
		}
		wantAbsent(t, s, "s", "k")
		if ch := set(t, s, "s", "k", `3`); ch.Version != 1 || ch.Type != state.Created {
			t.Errorf("got type %s, version %d after a delete; want %s and 1", ch.Type, ch.Version, state.Created)
		}
	}},
	{"deleting an absent key succeeds", func(t *testing.T, s state.Store, _ *clock.Fake) {
		ch := do(t, s, state.Delete("s", "k"))
		if ch.Type != state.Deleted || ch.Old != nil || ch.New != nil || ch.Version != 0 {
			t.Errorf("got %+v; want a delete with no values", ch)
		}
	}},
	{"a change carries its origin", func(t *testing.T, s state.Store, _ *clock.Fake) {
		w := state.Set("s", "k", json.RawMessage(`1`))
		w.Origin = state.Origin{Principal: bus.Principal{ID: "p1", Role: bus.RoleClient}, Traceparent: "00-a-b-01", Baggage: "k=v"}
		if diff := cmp.Diff(w.Origin, do(t, s, w).Origin); diff != "" {
			t.Errorf("origin (-want +got):\n%s", diff)
		}
	}},
	{"an update applies its ops to the stored value", func(t *testing.T, s state.Store, _ *clock.Fake) {
		inc := state.Op{Type: "increment", Path: json.RawMessage(`"n"`), By: json.RawMessage(`2`)}
		ch := do(t, s, state.Update("s", "k", inc))
		if string(ch.New) != `{"n":2}` || ch.Type != state.Created || ch.Version != 1 {
			t.Errorf("got %s, type %s, version %d; want {\"n\":2}, created, 1", ch.New, ch.Type, ch.Version)
		}
		ch = do(t, s, state.Update("s", "k", inc, inc))
		if string(ch.New) != `{"n":6}` || string(ch.Old) != `{"n":2}` || ch.Version != 2 {
			t.Errorf("got old %s, new %s, version %d; want {\"n\":2}, {\"n\":6}, 2", ch.Old, ch.New, ch.Version)
		}
		wantValue(t, s, "s", "k", `{"n":6}`, 2)
	}},
	{"a failing op is skipped and reported, the others apply", func(t *testing.T, s state.Store, _ *clock.Fake) {
		set(t, s, "s", "k", `{"text":"x"}`)
		ch := do(t, s, state.Update("s", "k",
			state.Op{Type: "increment", Path: json.RawMessage(`"text"`), By: json.RawMessage(`1`)},
			state.Op{Type: "set", Path: json.RawMessage(`"a"`), Value: json.RawMessage(`1`)},
		))
		if string(ch.New) != `{"text":"x","a":1}` {
			t.Errorf("got %s; want {\"text\":\"x\",\"a\":1}", ch.New)
		}
		if len(ch.OpErrors) != 1 || ch.OpErrors[0].OpIndex != 0 || ch.OpErrors[0].Code != "increment.not_number" {
			t.Errorf("got op errors %+v; want one, of op 0, increment.not_number", ch.OpErrors)
		}
	}},
	{"an update without ops creates the key", func(t *testing.T, s state.Store, _ *clock.Fake) {
		do(t, s, state.Update("s", "k"))
		wantValue(t, s, "s", "k", `{}`, 1)
	}},
	{"an unknown kind is refused", func(t *testing.T, s state.Store, _ *clock.Fake) {
		_, err := state.Do(t.Context(), s, state.Write{Key: state.Key{Scope: "s", Key: "k"}, Kind: "replace"})
		wantInvalid(t, err, "kind")
	}},
	{"a value that is no JSON is refused", func(t *testing.T, s state.Store, _ *clock.Fake) {
		_, err := state.Do(t.Context(), s, state.Set("s", "k", json.RawMessage(`{"a":`)))
		wantInvalid(t, err, "value")
		wantAbsent(t, s, "s", "k")
	}},
	{"the versions of keys are their own", func(t *testing.T, s state.Store, _ *clock.Fake) {
		for i := range 3 {
			for k := range i + 1 {
				set(t, s, "s", fmt.Sprint("k", k), `1`)
			}
		}
		for k, want := range []int64{3, 2, 1} {
			wantValue(t, s, "s", fmt.Sprint("k", k), `1`, want)
		}
	}},
	{"an ended context submits nothing", func(t *testing.T, s state.Store, _ *clock.Fake) {
		ctx, cancel := contextWithCancel(t)
		cancel()
		p := s.Submit(ctx, []state.Write{state.Set("s", "k", json.RawMessage(`1`))})
		if err := commit.Wait(deadline(t), p); err == nil {
			t.Error("got no error; want that of the context")
		}
		wantAbsent(t, s, "s", "k")
	}},
	{"a submitted write goes on when its context ends", func(t *testing.T, s state.Store, _ *clock.Fake) {
		ctx, cancel := contextWithCancel(t)
		p := s.Submit(ctx, []state.Write{state.Set("s", "k", json.RawMessage(`1`))})
		cancel()
		if err := commit.Wait(deadline(t), p); err != nil {
			t.Fatalf("got error %v", err)
		}
		wantValue(t, s, "s", "k", `1`, 1)
	}},
	{"times are kept to the millisecond", func(t *testing.T, s state.Store, c *clock.Fake) {
		w := state.Set("s", "k", json.RawMessage(`1`))
		w.Due, w.Expires = c.Now().Add(1500*time.Millisecond), c.Now().Add(time.Hour)
		do(t, s, w)
		item := get(t, s, "s", "k")
		if !item.Due.Equal(w.Due) || !item.Expires.Equal(w.Expires) {
			t.Errorf("got due %v, expires %v; want %v and %v", item.Due, item.Expires, w.Due, w.Expires)
		}
		set(t, s, "s", "k", `2`)
		if item := get(t, s, "s", "k"); !item.Due.IsZero() || !item.Expires.IsZero() {
			t.Errorf("got due %v, expires %v after a write without them; want none", item.Due, item.Expires)
		}
	}},
}
