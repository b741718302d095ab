package embedded

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/commit"
	"github.com/iii-aws/harness/engine/state"
)

// faults is a FaultHook that keeps its calls and fails at one of them.
type faults struct {
	mu    sync.Mutex
	calls []string
	// failAt counts down at each call named fail.
	fail   string
	failAt int
}

func (f *faults) hook(op, when string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	call := op + " " + when
	f.calls = append(f.calls, call)
	if call == f.fail {
		if f.failAt--; f.failAt == 0 {
			return errTest
		}
	}
	return nil
}

func (f *faults) reset(fail string, at int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls, f.fail, f.failAt = nil, fail, at
}

func (f *faults) seen() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls)
}

func TestFaultHookIsCalledAroundEverything(t *testing.T) {
	t.Parallel()
	f := &faults{}
	db := openTest(t, Options{NoSync: true, Fault: f.hook})
	f.reset("", 0)
	setTest(t, db, "s", "k", `1`)
	want := []string{"state.submit before", "commit before", "commit after", "state.submit after"}
	if diff := cmp.Diff(want, f.seen()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// TestFaultsAtEveryPoint fails each durable point of a run in turn, before and
// after, and demands that the result is the one that the error says.
func TestFaultsAtEveryPoint(t *testing.T) {
	t.Parallel()
	const points = 5
	for _, call := range []string{"commit before", "commit after", "state.submit before", "state.submit after"} {
		for at := 1; at <= points; at++ {
			t.Run(fmt.Sprintf("%s %d", call, at), func(t *testing.T) {
				t.Parallel()
				f := &faults{}
				db := openTest(t, Options{NoSync: true, Fault: f.hook})
				f.reset(call, at)
				applied := 0
				for i := range points {
					_, err := state.Do(within(t), db.State(), state.Set("s", "k", json.RawMessage(fmt.Sprint(i))))
					var s *state.StorageError
					switch {
					case i != at-1:
						if err != nil {
							t.Fatalf("write %d: %v", i, err)
						}
						applied++
					case !errors.As(err, &s) || !errors.Is(err, errTest) || !s.Retry:
						t.Fatalf("write %d: got error %v, want a *state.StorageError", i, err)
					case s.Ambiguous:
						applied++
					}
					if ambiguous := s != nil && s.Ambiguous; i == at-1 && ambiguous != (call == "commit after" || call == "state.submit after") {
						t.Errorf("write %d: ambiguous is %v", i, ambiguous)
					}
				}
				item, _, err := db.State().Get(t.Context(), state.Key{Scope: "s", Key: "k"})
				if err != nil || item.Version != int64(applied) {
					t.Errorf("got version %d, error %v; want %d", item.Version, err, applied)
				}
			})
		}
	}
}

func TestWhatComesAfterAFaultIsSkipped(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		fail    string
		want    []string
		skipped bool
	}{
		{"test.put before", []string{}, true},
		{"commit before", []string{}, true},
		// They shared the commit that was made.
		{"commit after", []string{"a", "b"}, false},
		{"test.put after", []string{"a", "b"}, false},
	} {
		t.Run(tt.fail, func(t *testing.T) {
			t.Parallel()
			f := &faults{}
			db := openTest(t, Options{NoSync: true, Fault: f.hook})
			g := holdCommitter(t, db)
			f.reset(tt.fail, 1)
			a := put(db, "a")
			b := put(db, "b", a)
			g.release()
			if err := commit.Wait(within(t), a); !errors.Is(err, errTest) {
				t.Errorf("got error %v, want that of the hook", err)
			}
			if err := commit.Wait(within(t), b); errors.Is(err, commit.ErrSkipped) != (tt.skipped && tt.fail != "commit before") {
				t.Errorf("got error %v, skipped should be %v", err, tt.skipped)
			}
			if diff := cmp.Diff(tt.want, stored(t, db)); diff != "" {
				t.Errorf("stored (-want +got):\n%s", diff)
			}
			// Whoever asks later is told no: the write may have been lost.
			if err := commit.Wait(within(t), put(db, "c", a)); !errors.Is(err, commit.ErrSkipped) {
				t.Errorf("got error %v, want commit.ErrSkipped", err)
			}
		})
	}
}

// TestFaultsOfLargeValues demands that a value's file is gone if, and only if,
// its write was not applied.
func TestFaultsOfLargeValues(t *testing.T) {
	t.Parallel()
	large := json.RawMessage(`"` + string(bytesOf('x', state.InlineLimit)) + `"`)
	for _, tt := range []struct {
		fail string
		want int
	}{
		{"state.submit before", 0}, {"commit before", 0}, {"commit after", 1}, {"state.submit after", 1},
	} {
		t.Run(tt.fail, func(t *testing.T) {
			t.Parallel()
			f := &faults{}
			db := openTest(t, Options{NoSync: true, Fault: f.hook})
			f.reset(tt.fail, 1)
			if _, err := state.Do(within(t), db.State(), state.Set("s", "k", large)); !errors.Is(err, errTest) {
				t.Fatalf("got error %v, want that of the hook", err)
			}
			if got := files(t, db, valuesDir); len(got) != tt.want {
				t.Errorf("got files %v, want %d", got, tt.want)
			}
			if _, ok := getTest(t, db, "s", "k"); ok != (tt.want == 1) {
				t.Errorf("stored: %v, want %v", ok, tt.want == 1)
			}
		})
	}
}

func bytesOf(b byte, n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = b
	}
	return p
}
