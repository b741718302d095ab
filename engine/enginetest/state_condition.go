package enginetest

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/state"
)

var stateConditions = []stateCase{
	{"conditions", func(t *testing.T, s state.Store, _ *clock.Fake) {
		one := json.RawMessage(`1`)
		for _, tt := range []struct {
			name   string
			exists bool // at version 2
			write  state.Write
			ok     bool
		}{
			{"create absent", false, state.Set("", "", one).IfAbsent(), true},
			{"create existing", true, state.Set("", "", one).IfAbsent(), false},
			{"set at the version", true, state.Set("", "", one).IfVersion(2), true},
			{"set at an older version", true, state.Set("", "", one).IfVersion(1), false},
			{"set at a newer version", true, state.Set("", "", one).IfVersion(3), false},
			{"set absent at a version", false, state.Set("", "", one).IfVersion(1), false},
			{"update at the version", true, state.Update("", "").IfVersion(2), true},
			{"update at another version", true, state.Update("", "").IfVersion(1), false},
			{"update absent if absent", false, state.Update("", "").IfAbsent(), true},
			{"update existing if absent", true, state.Update("", "").IfAbsent(), false},
			{"delete at the version", true, state.Delete("", "").IfVersion(2), true},
			{"delete at another version", true, state.Delete("", "").IfVersion(1), false},
			{"delete absent at a version", false, state.Delete("", "").IfVersion(1), false},
			{"delete absent if absent", false, state.Delete("", "").IfAbsent(), true},
			{"delete existing if absent", true, state.Delete("", "").IfAbsent(), false},
			{"no condition", true, state.Set("", "", one).If(state.Expect{}), true},
		} {
			t.Run(tt.name, func(t *testing.T) {
				w := tt.write
				w.Scope, w.Key.Key = "s", tt.name
				if tt.exists {
					set(t, s, "s", tt.name, `"a"`)
					set(t, s, "s", tt.name, `"b"`)
				}
				_, err := state.Do(t.Context(), s, w)
				if tt.ok {
					if err != nil {
						t.Fatalf("got error %v", err)
					}
					return
				}
				wantConflict(t, err, 0)
				if tt.exists {
					wantValue(t, s, "s", tt.name, `"b"`, 2)
				} else {
					wantAbsent(t, s, "s", tt.name)
				}
			})
		}
	}},
	{"a conflict shows the stored item where it is known", func(t *testing.T, s state.Store, _ *clock.Fake) {
		set(t, s, "s", "k", `"x"`)
		_, err := state.Do(t.Context(), s, state.Set("s", "k", json.RawMessage(`1`)).IfAbsent())
		c := wantConflict(t, err, 0)
		if c.Key != (state.Key{Scope: "s", Key: "k"}) {
			t.Errorf("got key %v, want s/k", c.Key)
		}
		want := &state.Item{Key: c.Key, Value: json.RawMessage(`"x"`), Version: 1}
		if diff := cmp.Diff(want, c.Current); c.Current != nil && diff != "" {
			t.Errorf("current (-want +got):\n%s", diff)
		}
		_, err = state.Do(t.Context(), s, state.Set("s", "none", json.RawMessage(`1`)).IfVersion(7))
		if c := wantConflict(t, err, 0); c.Current != nil {
			t.Errorf("got current %+v of an absent key, want nil", c.Current)
		}
		if !c.Retryable() || c.ErrorCode() != "CONFLICT" {
			t.Errorf("got retryable %v, code %s; want true, CONFLICT", c.Retryable(), c.ErrorCode())
		}
	}},
	{"impossible conditions are refused", func(t *testing.T, s state.Store, _ *clock.Fake) {
		for _, e := range []state.Expect{{Absent: true, Version: 1}, {Version: -1}} {
			_, err := state.Do(t.Context(), s, state.Set("s", "k", json.RawMessage(`1`)).If(e))
			wantInvalid(t, err, "expect")
		}
	}},
	{"a check writes nothing", func(t *testing.T, s state.Store, _ *clock.Fake) {
		set(t, s, "s", "k", `"x"`)
		check := state.Write{Key: state.Key{Scope: "s", Key: "k"}, Kind: state.KindCheck}
		ch := do(t, s, check.IfVersion(1))
		if string(ch.Old) != `"x"` || string(ch.New) != `"x"` || ch.Version != 1 {
			t.Errorf("got %+v; want the stored value at version 1", ch)
		}
		wantValue(t, s, "s", "k", `"x"`, 1)
		_, err := state.Do(t.Context(), s, check.IfVersion(2))
		wantConflict(t, err, 0)
		absent := state.Write{Key: state.Key{Scope: "s", Key: "none"}, Kind: state.KindCheck}
		if ch := do(t, s, absent.IfAbsent()); ch.Old != nil || ch.New != nil || ch.Version != 0 {
			t.Errorf("got %+v of an absent key; want no values", ch)
		}
		wantAbsent(t, s, "s", "none")
	}},
}
