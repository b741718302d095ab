package enginetest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/state"
)

// expiring is a set that expires after d.
func expiring(c *clock.Fake, scope, key string, d time.Duration) state.Write {
	w := state.Set(scope, key, json.RawMessage(`1`))
	w.Expires = c.Now().Add(d)
	return w
}

// due is a set with a place in the index of Due.
func due(c *clock.Fake, scope, key string, d time.Duration) state.Write {
	w := state.Set(scope, key, json.RawMessage(`1`))
	w.Due = c.Now().Add(d)
	return w
}

func wantDue(t *testing.T, s state.Store, scope string, at time.Time, limit int, want ...string) {
	t.Helper()
	items, err := s.Due(t.Context(), scope, at, limit)
	if err != nil {
		t.Fatal(err)
	}
	if want == nil {
		want = []string{}
	}
	wantStrings(t, "due", keysOf(items), want)
}

var stateTimes = []stateCase{
	{"an item is absent from its expiry on", func(t *testing.T, s state.Store, c *clock.Fake) {
		do(t, s, expiring(c, "s", "k", time.Minute))
		set(t, s, "t", "k", `1`)
		c.Advance(time.Minute - time.Millisecond)
		wantValue(t, s, "s", "k", `1`, 1)
		c.Advance(time.Millisecond)
		wantAbsent(t, s, "s", "k")
		items, err := s.List(t.Context(), "s", state.ListOptions{})
		if err != nil || len(items) != 0 {
			t.Errorf("list: got %v, error %v; want none", items, err)
		}
		groups, err := s.Groups(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		wantStrings(t, "groups", groups, []string{"t"})
	}},
	{"an expired item does not fill a list", func(t *testing.T, s state.Store, c *clock.Fake) {
		do(t, s, expiring(c, "s", "a", time.Minute))
		set(t, s, "s", "b", `1`)
		set(t, s, "s", "c", `1`)
		c.Advance(time.Minute)
		items, err := s.List(t.Context(), "s", state.ListOptions{Limit: 2})
		if err != nil {
			t.Fatal(err)
		}
		wantStrings(t, "keys", keysOf(items), []string{"b", "c"})
	}},
	{"an item that is born expired is absent", func(t *testing.T, s state.Store, c *clock.Fake) {
		do(t, s, expiring(c, "s", "k", -time.Second))
		wantAbsent(t, s, "s", "k")
	}},
	{"writes treat an expired item as absent", func(t *testing.T, s state.Store, c *clock.Fake) {
		do(t, s, expiring(c, "s", "k", time.Minute))
		do(t, s, expiring(c, "s", "k", time.Minute))
		c.Advance(time.Minute)
		_, err := state.Do(t.Context(), s, state.Set("s", "k", json.RawMessage(`2`)).IfVersion(2))
		if conflict := wantConflict(t, err, 0); conflict.Current != nil {
			t.Errorf("got current %+v, want none", conflict.Current)
		}
		ch := do(t, s, state.Set("s", "k", json.RawMessage(`2`)).IfAbsent())
		if ch.Type != state.Created || ch.Version != 1 || ch.Old != nil {
			t.Errorf("got %+v; want created at version 1 with no old value", ch)
		}
		c.Advance(time.Hour)
		wantValue(t, s, "s", "k", `2`, 1)
	}},
	{"a later write moves the expiry", func(t *testing.T, s state.Store, c *clock.Fake) {
		do(t, s, expiring(c, "s", "k", time.Minute))
		do(t, s, expiring(c, "s", "k", 2*time.Minute))
		c.Advance(90 * time.Second)
		wantValue(t, s, "s", "k", `1`, 2)
		c.Advance(30 * time.Second)
		wantAbsent(t, s, "s", "k")
	}},
	{"due items, oldest first", func(t *testing.T, s state.Store, c *clock.Fake) {
		now := c.Now()
		do(t, s, due(c, "s", "late", 3*time.Second))
		do(t, s, due(c, "s", "early", time.Second))
		do(t, s, due(c, "s", "middle", 2*time.Second))
		do(t, s, due(c, "other", "early", time.Second))
		set(t, s, "s", "never", `1`)
		wantDue(t, s, "s", now, 0)
		wantDue(t, s, "s", now.Add(time.Second), 0, "early")
		wantDue(t, s, "s", now.Add(time.Hour), 0, "early", "middle", "late")
		wantDue(t, s, "s", now.Add(time.Hour), 2, "early", "middle")
		items, err := s.Due(t.Context(), "s", now.Add(time.Second), 1)
		if err != nil || len(items) != 1 || !items[0].Due.Equal(now.Add(time.Second)) || string(items[0].Value) != "1" || items[0].Version != 1 {
			t.Errorf("got %+v, error %v; want the whole item", items, err)
		}
	}},
	{"a write moves an item in the index or takes it out", func(t *testing.T, s state.Store, c *clock.Fake) {
		now := c.Now()
		do(t, s, due(c, "s", "moved", time.Second))
		do(t, s, due(c, "s", "moved", time.Hour))
		do(t, s, due(c, "s", "out", time.Second))
		set(t, s, "s", "out", `1`)
		do(t, s, due(c, "s", "updated", time.Second))
		do(t, s, state.Update("s", "updated"))
		do(t, s, due(c, "s", "gone", time.Second))
		do(t, s, state.Delete("s", "gone"))
		wantDue(t, s, "s", now.Add(time.Minute), 0)
		wantDue(t, s, "s", now.Add(time.Hour), 0, "moved")
	}},
	{"expired items are not due", func(t *testing.T, s state.Store, c *clock.Fake) {
		w := due(c, "s", "k", time.Second)
		w.Expires = c.Now().Add(time.Minute)
		do(t, s, w)
		c.Advance(time.Minute)
		wantDue(t, s, "s", c.Now(), 0)
	}},
	{"a failed write does not touch the index", func(t *testing.T, s state.Store, c *clock.Fake) {
		do(t, s, due(c, "s", "k", time.Second))
		if _, err := state.Do(t.Context(), s, due(c, "s", "k", time.Hour).IfVersion(9)); err == nil {
			t.Fatal("got no error")
		}
		wantDue(t, s, "s", c.Now().Add(time.Minute), 0, "k")
	}},
}
