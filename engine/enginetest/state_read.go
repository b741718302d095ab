package enginetest

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/state"
)

var stateReads = []stateCase{
	{"an absent key is no error", func(t *testing.T, s state.Store, _ *clock.Fake) {
		wantAbsent(t, s, "s", "k")
		item, ok, err := s.Get(t.Context(), state.Key{Scope: "s", Key: "k"}, state.Eventual)
		if ok || err != nil {
			t.Errorf("eventual: got %+v, ok %v, error %v; want none", item, ok, err)
		}
	}},
	{"a read belongs to its caller", func(t *testing.T, s state.Store, _ *clock.Fake) {
		set(t, s, "s", "k", `{"a":1}`)
		item := get(t, s, "s", "k")
		for i := range item.Value {
			item.Value[i] = 'x'
		}
		wantValue(t, s, "s", "k", `{"a":1}`, 1)
	}},
	{"lists", func(t *testing.T, s state.Store, _ *clock.Fake) {
		for _, k := range []string{"b/2", "a", "b/1", "b", "b0", "c/1", "b/10"} {
			set(t, s, "s", k, `"`+k+`"`)
		}
		set(t, s, "s2", "b/3", `1`)
		set(t, s, "r", "b/3", `1`)
		for _, tt := range []struct {
			name    string
			options state.ListOptions
			want    []string
		}{
			{"all, in key order", state.ListOptions{}, []string{"a", "b", "b/1", "b/10", "b/2", "b0", "c/1"}},
			{"prefix", state.ListOptions{Prefix: "b/"}, []string{"b/1", "b/10", "b/2"}},
			{"prefix that is a key", state.ListOptions{Prefix: "b"}, []string{"b", "b/1", "b/10", "b/2", "b0"}},
			{"prefix of nothing", state.ListOptions{Prefix: "x"}, []string{}},
			{"after a key", state.ListOptions{After: "b/10"}, []string{"b/2", "b0", "c/1"}},
			{"after no key", state.ListOptions{After: "b/11"}, []string{"b/2", "b0", "c/1"}},
			{"after the last", state.ListOptions{After: "c/1"}, []string{}},
			{"after before the prefix", state.ListOptions{Prefix: "b/", After: "a"}, []string{"b/1", "b/10", "b/2"}},
			{"after within the prefix", state.ListOptions{Prefix: "b/", After: "b/1"}, []string{"b/10", "b/2"}},
			{"after behind the prefix", state.ListOptions{Prefix: "b/", After: "c"}, []string{}},
			{"limit", state.ListOptions{Limit: 2}, []string{"a", "b"}},
			{"limit above", state.ListOptions{Prefix: "c", Limit: 9}, []string{"c/1"}},
			{"all together", state.ListOptions{Prefix: "b/", After: "b/1", Limit: 1}, []string{"b/10"}},
		} {
			t.Run(tt.name, func(t *testing.T) {
				items, err := s.List(t.Context(), "s", tt.options)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tt.want, keysOf(items)); diff != "" {
					t.Errorf("keys (-want +got):\n%s", diff)
				}
				for _, item := range items {
					want := state.Item{Key: state.Key{Scope: "s", Key: item.Key.Key}, Value: json.RawMessage(`"` + item.Key.Key + `"`), Version: 1}
					if diff := cmp.Diff(want, item); diff != "" {
						t.Errorf("item (-want +got):\n%s", diff)
					}
				}
			})
		}
	}},
	{"pages of a list meet without a gap", func(t *testing.T, s state.Store, _ *clock.Fake) {
		for i := range 25 {
			set(t, s, "s", fmt.Sprintf("%02d", i), `1`)
		}
		var got []string
		for after := ""; ; after = got[len(got)-1] {
			items, err := s.List(t.Context(), "s", state.ListOptions{After: after, Limit: 10})
			if err != nil {
				t.Fatal(err)
			}
			if len(items) == 0 {
				break
			}
			got = append(got, keysOf(items)...)
		}
		if len(got) != 25 || got[0] != "00" || got[24] != "24" {
			t.Errorf("got %v; want 00 to 24", got)
		}
	}},
	{"groups are the scopes that hold an item", func(t *testing.T, s state.Store, _ *clock.Fake) {
		groups, err := s.Groups(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		wantStrings(t, "groups of an empty store", groups, []string{})
		for _, scope := range []string{"b", "a:1", "a", "a/1", "c", "gone"} {
			set(t, s, scope, "k1", `1`)
			set(t, s, scope, "k2", `1`)
		}
		do(t, s, state.Delete("gone", "k1"))
		do(t, s, state.Delete("gone", "k2"))
		if groups, err = s.Groups(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantStrings(t, "groups", groups, []string{"a", "a/1", "a:1", "b", "c"})
	}},
	{"an ended context ends a read", func(t *testing.T, s state.Store, _ *clock.Fake) {
		ctx, cancel := contextWithCancel(t)
		cancel()
		if _, _, err := s.Get(ctx, state.Key{Scope: "s", Key: "k"}); err == nil {
			t.Error("get: got no error")
		}
		if _, err := s.List(ctx, "s", state.ListOptions{}); err == nil {
			t.Error("list: got no error")
		}
	}},
}
