package enginetest

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/state"
)

var stateTransactions = []stateCase{
	{"a transaction applies all its writes", func(t *testing.T, s state.Store, _ *clock.Fake) {
		set(t, s, "a", "gone", `0`)
		set(t, s, "a", "same", `0`)
		changes, err := s.Submit(t.Context(), []state.Write{
			state.Set("a", "k", json.RawMessage(`1`)),
			state.Delete("a", "gone"),
			state.Update("b", "k", state.Op{Type: "set", Path: json.RawMessage(`"x"`), Value: json.RawMessage(`1`)}),
			state.Write{Key: state.Key{Scope: "a", Key: "same"}, Kind: state.KindCheck}.IfVersion(1),
		}).Wait(deadline(t))
		if err != nil {
			t.Fatal(err)
		}
		if len(changes) != 4 {
			t.Fatalf("got %d changes, want one per write", len(changes))
		}
		for i, want := range []string{"1", "", `{"x":1}`, "0"} {
			if string(changes[i].New) != want {
				t.Errorf("change %d: got %s, want %s", i, changes[i].New, want)
			}
		}
		wantValue(t, s, "a", "k", `1`, 1)
		wantAbsent(t, s, "a", "gone")
		wantValue(t, s, "b", "k", `{"x":1}`, 1)
	}},
	{"a failed condition fails all writes and is named by its index", func(t *testing.T, s state.Store, _ *clock.Fake) {
		set(t, s, "s", "old", `0`)
		for i := range 3 {
			writes := []state.Write{
				state.Set("s", "a", json.RawMessage(`1`)),
				state.Set("s", "b", json.RawMessage(`1`)),
				state.Delete("s", "old"),
			}
			writes[i] = writes[i].IfVersion(9)
			_, err := s.Submit(t.Context(), writes).Wait(deadline(t))
			c := wantConflict(t, err, i)
			if c.Key != writes[i].Key {
				t.Errorf("got conflict on %v, want %v", c.Key, writes[i].Key)
			}
		}
		wantAbsent(t, s, "s", "a")
		wantAbsent(t, s, "s", "b")
		wantValue(t, s, "s", "old", `0`, 1)
	}},
	{"conditions are those before the transaction", func(t *testing.T, s state.Store, _ *clock.Fake) {
		set(t, s, "s", "a", `0`)
		_, err := s.Submit(t.Context(), []state.Write{
			state.Set("s", "a", json.RawMessage(`1`)).IfVersion(1),
			state.Set("s", "b", json.RawMessage(`1`)).IfAbsent(),
		}).Wait(deadline(t))
		if err != nil {
			t.Fatal(err)
		}
		wantValue(t, s, "s", "a", `1`, 2)
	}},
	{"a key twice is refused", func(t *testing.T, s state.Store, _ *clock.Fake) {
		_, err := s.Submit(t.Context(), []state.Write{
			state.Set("s", "a", json.RawMessage(`1`)),
			state.Set("s", "b", json.RawMessage(`1`)),
			state.Delete("s", "a"),
		}).Wait(deadline(t))
		wantInvalid(t, err, "key")
		wantAbsent(t, s, "s", "b")
	}},
	{"the same key in two scopes is not the same", func(t *testing.T, s state.Store, _ *clock.Fake) {
		_, err := s.Submit(t.Context(), []state.Write{
			state.Set("a", "k", json.RawMessage(`1`)),
			state.Set("b", "k", json.RawMessage(`2`)),
		}).Wait(deadline(t))
		if err != nil {
			t.Fatal(err)
		}
		wantValue(t, s, "a", "k", `1`, 1)
		wantValue(t, s, "b", "k", `2`, 1)
	}},
	{"as many writes as allowed and one more", func(t *testing.T, s state.Store, _ *clock.Fake) {
		writes := make([]state.Write, state.MaxTx+1)
		for i := range writes {
			writes[i] = state.Set("s", fmt.Sprintf("%03d", i), json.RawMessage(`1`))
		}
		_, err := s.Submit(t.Context(), writes).Wait(deadline(t))
		wantInvalid(t, err, "writes")
		wantAbsent(t, s, "s", "000")
		if _, err := s.Submit(t.Context(), writes[:state.MaxTx]).Wait(deadline(t)); err != nil {
			t.Fatal(err)
		}
		wantValue(t, s, "s", "099", `1`, 1)
	}},
	{"no writes are no change", func(t *testing.T, s state.Store, _ *clock.Fake) {
		changes, err := s.Submit(t.Context(), nil).Wait(deadline(t))
		if err != nil || len(changes) != 0 {
			t.Errorf("got %v, error %v; want nothing", changes, err)
		}
	}},
	{"the caller may use its slice again at once", func(t *testing.T, s state.Store, _ *clock.Fake) {
		writes := []state.Write{state.Set("s", "a", json.RawMessage(`1`))}
		p := s.Submit(t.Context(), writes)
		writes[0] = state.Set("s", "b", json.RawMessage(`2`))
		if _, err := p.Wait(deadline(t)); err != nil {
			t.Fatal(err)
		}
		wantValue(t, s, "s", "a", `1`, 1)
		wantAbsent(t, s, "s", "b")
	}},
}
