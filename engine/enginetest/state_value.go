package enginetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/state"
)

// text is a JSON string of n bytes, quotes included.
func text(n int) string { return `"` + strings.Repeat("x", n-2) + `"` }

var stateValues = []stateCase{
	{"values are kept to the byte", func(t *testing.T, s state.Store, _ *clock.Fake) {
		for i, v := range []string{
			`{"z":1,"a":2,"m":{"y":1,"b":2}}`,
			`{"n":9007199254740993,"m":123456789012345678901234567890,"f":1.0,"e":1e400}`,
			`  [ 1 , 2 ]  `,
			"{\"a\":\n1}",
			`"\u00e9<>&é"`,
			`{"a":1,"a":2}`,
			`true`, `""`, `[]`, `-0`, `null`,
		} {
			key := fmt.Sprint(i)
			set(t, s, "s", key, v)
			wantValue(t, s, "s", key, v, 1)
		}
	}},
	{"large values come back whole", func(t *testing.T, s state.Store, _ *clock.Fake) {
		for _, n := range []int{255 << 10, state.InlineLimit, state.InlineLimit + 1, 257 << 10, 3 << 20} {
			key, v := fmt.Sprint(n), text(n)
			if ch := set(t, s, "s", key, v); string(ch.New) != v {
				t.Errorf("%d bytes: the change has another value", n)
			}
			if got := get(t, s, "s", key); string(got.Value) != v || got.Version != 1 {
				t.Errorf("%d bytes: got %d bytes, version %d", n, len(got.Value), got.Version)
			}
			if ch := set(t, s, "s", key, `1`); string(ch.Old) != v {
				t.Errorf("%d bytes: the change has another old value", n)
			}
			if ch := set(t, s, "s", key, v); string(ch.Old) != `1` {
				t.Errorf("%d bytes: got old value %.20s, want 1", n, ch.Old)
			}
			if ch := do(t, s, state.Delete("s", key)); string(ch.Old) != v {
				t.Errorf("%d bytes: the delete has another old value", n)
			}
		}
	}},
	{"large values in lists and in the index of due", func(t *testing.T, s state.Store, c *clock.Fake) {
		v := text(300 << 10)
		w := state.Set("s", "large", json.RawMessage(v))
		w.Due = c.Now()
		do(t, s, w)
		set(t, s, "s", "small", `1`)
		items, err := s.List(t.Context(), "s", state.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		wantStrings(t, "keys", keysOf(items), []string{"large", "small"})
		if string(items[0].Value) != v {
			t.Error("list: another value")
		}
		items, err = s.Due(t.Context(), "s", c.Now(), 0)
		if err != nil || len(items) != 1 || string(items[0].Value) != v {
			t.Errorf("due: got %d items, error %v; want the value", len(items), err)
		}
	}},
	{"ops on a large value, and ops that make one", func(t *testing.T, s state.Store, _ *clock.Fake) {
		set(t, s, "s", "k", `{"a":`+text(200<<10)+`}`)
		part := state.Op{Type: "append", Path: json.RawMessage(`"a"`), Value: json.RawMessage(text(100 << 10))}
		want := `{"a":` + text(300<<10-2) + `}`
		if ch := do(t, s, state.Update("s", "k", part)); string(ch.New) != want {
			t.Errorf("got %d bytes, want %d", len(ch.New), len(want))
		}
		do(t, s, state.Update("s", "k", state.Op{Type: "set", Path: json.RawMessage(`"b"`), Value: json.RawMessage(`1`)}))
		wantValue(t, s, "s", "k", strings.TrimSuffix(want, "}")+`,"b":1}`, 3)
	}},
	{"the largest value, and one byte more", func(t *testing.T, s state.Store, _ *clock.Fake) {
		v := text(state.MaxValue)
		set(t, s, "s", "k", v)
		if got := get(t, s, "s", "k"); string(got.Value) != v {
			t.Errorf("got %d bytes, want %d", len(got.Value), len(v))
		}
		_, err := state.Do(t.Context(), s, state.Set("s", "k", json.RawMessage(text(state.MaxValue+1))))
		wantTooLarge(t, err, state.Key{Scope: "s", Key: "k"}, state.MaxValue+1)
		grow := state.Op{Type: "append", Path: json.RawMessage(`""`), Value: json.RawMessage(`"x"`)}
		_, err = state.Do(t.Context(), s, state.Update("s", "k", grow))
		wantTooLarge(t, err, state.Key{Scope: "s", Key: "k"}, state.MaxValue+1)
		if got := get(t, s, "s", "k"); got.Version != 1 {
			t.Errorf("got version %d after refused writes, want 1", got.Version)
		}
	}},
	{"readers of a large value that is being replaced", func(t *testing.T, s state.Store, _ *clock.Fake) {
		values := []string{text(300 << 10), text(301 << 10), `1`}
		set(t, s, "s", "k", values[0])
		done := make(chan struct{})
		var readers sync.WaitGroup
		for range 4 {
			readers.Go(func() {
				for {
					select {
					case <-done:
						return
					default:
					}
					item, ok, err := s.Get(t.Context(), state.Key{Scope: "s", Key: "k"})
					if err != nil || !ok {
						t.Errorf("got ok %v, error %v", ok, err)
						return
					}
					if want := values[(item.Version-1)%3]; string(item.Value) != want {
						t.Errorf("version %d: got %d bytes, want %d", item.Version, len(item.Value), len(want))
						return
					}
				}
			})
		}
		for i := 1; i < 40; i++ {
			set(t, s, "s", "k", values[i%3])
		}
		close(done)
		readers.Wait()
	}},
}

func wantTooLarge(t *testing.T, err error, key state.Key, size int) {
	t.Helper()
	var e *state.TooLargeError
	if !errors.As(err, &e) {
		t.Fatalf("got error %v, want a *state.TooLargeError", err)
	}
	if e.Key != key || e.Size != size || e.ErrorCode() != "VALUE_TOO_LARGE" {
		t.Errorf("got %+v, code %s; want %v, %d bytes, VALUE_TOO_LARGE", e, e.ErrorCode(), key, size)
	}
}

// oddNames are names that must not be mixed up.
var oddNames = []string{
	"a", "b", "a b", "a/b", "a//b", "a:b", "a\\b", "a\nb", "a\x01", "a\x01b", "é", "日本", "\U0001F600", " ", ".", "..", "-", "%00", "#", `"`, "a\x7f", "\uffff", "\ufffd",
}

var stateNames = []stateCase{
	{"odd names do not collide", func(t *testing.T, s state.Store, _ *clock.Fake) {
		want := map[state.Key]string{}
		for i, scope := range oddNames {
			for j, key := range oddNames {
				want[state.Key{Scope: scope, Key: key}] = fmt.Sprint(i*100 + j)
			}
		}
		var writes []state.Write
		flush := func() {
			if _, err := s.Submit(t.Context(), writes).Wait(deadline(t)); err != nil {
				t.Fatal(err)
			}
			writes = nil
		}
		for k, v := range want {
			if writes = append(writes, state.Set(k.Scope, k.Key, json.RawMessage(v))); len(writes) == state.MaxTx {
				flush()
			}
		}
		flush()
		for k, v := range want {
			wantValue(t, s, k.Scope, k.Key, v, 1)
		}
		for _, scope := range oddNames {
			items, err := s.List(t.Context(), scope, state.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if len(items) != len(oddNames) {
				t.Errorf("scope %q: got %d items, want %d", scope, len(items), len(oddNames))
			}
			for i, item := range items {
				if want[item.Key] != string(item.Value) {
					t.Errorf("got %s at %v, want %s", item.Value, item.Key, want[item.Key])
				}
				if i > 0 && items[i-1].Key.Key >= item.Key.Key {
					t.Errorf("%q is listed before %q", items[i-1].Key.Key, item.Key.Key)
				}
			}
		}
	}},
	{"names are bounded", func(t *testing.T, s state.Store, _ *clock.Fake) {
		set(t, s, strings.Repeat("s", 512), strings.Repeat("k", 1024), `1`)
		wantValue(t, s, strings.Repeat("s", 512), strings.Repeat("k", 1024), `1`, 1)
		for _, tt := range []struct{ field, scope, key string }{
			{"scope", "", "k"},
			{"scope", strings.Repeat("s", 513), "k"},
			{"scope", "a\x00b", "k"},
			{"scope", "\xff", "k"},
			{"key", "s", ""},
			{"key", "s", strings.Repeat("k", 1025)},
			{"key", "s", "a\x00b"},
			{"key", "s", "a\xc3"},
		} {
			_, err := state.Do(t.Context(), s, state.Set(tt.scope, tt.key, json.RawMessage(`1`)))
			wantInvalid(t, err, tt.field)
			_, _, err = s.Get(t.Context(), state.Key{Scope: tt.scope, Key: tt.key})
			wantInvalid(t, err, tt.field)
		}
		_, err := s.List(t.Context(), "", state.ListOptions{})
		wantInvalid(t, err, "scope")
		_, err = s.Due(t.Context(), "a\x00", someTime, 0)
		wantInvalid(t, err, "scope")
	}},
}

var someTime = time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)
