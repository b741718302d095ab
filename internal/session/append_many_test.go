package session

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
)

// callsAndResults is an assistant message with n calls, and their results.
func callsAndResults(n int) (ids, messages []string) {
	calls := make([]string, n)
	for i := range calls {
		calls[i] = fmt.Sprintf("c%d", i)
	}
	ids, messages = []string{"a"}, []string{assistant(calls...)}
	for i, c := range calls {
		ids, messages = append(ids, fmt.Sprintf("r%d", i)), append(messages, result(c))
	}
	return ids, messages
}

// Batches above the limit of one transaction are stored in several, and each
// kill between two of them is mended by the repeat.
func TestF33ManyCallsInOneMessage(t *testing.T) {
	t.Parallel()
	for _, n := range []int{60, 98, 250} {
		for _, caller := range []bus.Call{{Principal: alice}, {Principal: alice, Worker: turnWorker}} {
			ids, messages := callsAndResults(n)
			batch := batchJSON("s1", "", ids, messages...)
			clean, m := memoryFixture(t)
			start := m.n
			if _, err := clean.invoke(caller, "session-tree::append_batch", batch); err != nil {
				t.Fatalf("%d calls: %v", n, err)
			}
			transactions := m.n - start
			for kill := 1; kill <= transactions; kill++ {
				f, m := memoryFixture(t)
				start := m.n
				m.before = func(k int, _ []state.Write) error {
					if k-start == kill {
						return &state.StorageError{Op: "write", Err: errors.New("killed")}
					}
					return nil
				}
				if _, err := f.invoke(caller, "session-tree::append_batch", batch); bus.Code(err) != "storage" {
					t.Fatalf("killed at write %d: %v", kill, err)
				}
				f.checkTree()
				got, err := f.invoke(caller, "session-tree::append_batch", batch)
				if err != nil {
					t.Fatalf("%d calls, repeat after a kill at write %d: %v", n, kill, err)
				}
				if want := string(encode(batchResponse{ids})); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
				f.checkTree()
				if diff := cmp.Diff(ids, f.path("s1", "")); diff != "" {
					t.Error(diff)
				}
			}
			_, err := clean.invoke(caller, "session-tree::append", appendJSON("s1", "", "again", assistant("c0")))
			wantCode(t, "a call id of the batch", err, "duplicate_call")
			big := make([]string, n)
			for i := range big {
				big[i] = fmt.Sprintf("d%d", i)
			}
			big[n-1] = "c5"
			_, err = clean.invoke(caller, "session-tree::append", appendJSON("s1", "", "again", assistant(big...)))
			wantCode(t, "a call id of the batch among many", err, "duplicate_call")
		}
	}
}

func TestBatchSharesOneTimestamp(t *testing.T) {
	t.Parallel()
	f, m := memoryFixture(t)
	m.after = func(int, []state.Write) error { f.clock.Advance(1e9); return nil }
	ids := make([]string, 250)
	messages := make([]string, 250)
	for i := range ids {
		ids[i], messages[i] = fmt.Sprintf("e%03d", i), user("x")
	}
	f.must(alice, "session-tree::append_batch", batchJSON("s1", "", ids, messages...))
	for _, id := range ids {
		e, _, err := f.entry(t.Context(), "s1", id)
		if err != nil || e.Timestamp != 1_780_000_000_000 {
			t.Fatalf("entry %s of %d, %v", id, e.Timestamp, err)
		}
	}
}

// What a turn writes does not depend on the length of the history.
func TestF33WritesStayFlat(t *testing.T) {
	t.Parallel()
	f, m := memoryFixture(t)
	bytes := 0
	m.before = func(_ int, tx []state.Write) error {
		for _, w := range tx {
			bytes += len(w.Scope) + len(w.Key.Key) + len(w.Value)
		}
		return nil
	}
	turn := func(i int) int {
		bytes = 0
		id := func(s string) string { return fmt.Sprintf("%s%04d", s, i) }
		f.must(alice, "session-tree::append_batch", batchJSON("s1", "", []string{id("u"), id("a"), id("r"), id("z")},
			user("hi"), assistant(id("c")), result(id("c")), assistant()))
		return bytes
	}
	turn(0)
	first := turn(1)
	gets, lists := 0, 0
	for i := 2; i < 400; i++ {
		m.counts()
		// The head row counts entries, in decimal.
		if got := turn(i); got > first+4 {
			t.Fatalf("turn %d writes %d bytes, turn 1 %d", i, got, first)
		}
		g, l := m.counts()
		if i == 2 {
			gets, lists = g, l
		}
		if g != gets || l != 0 || lists != 0 {
			t.Fatalf("turn %d reads %d items and %d lists, turn 2 %d and %d", i, g, l, gets, lists)
		}
	}
}

func TestTooLargeIsForGood(t *testing.T) {
	t.Parallel()
	f, m := memoryFixture(t)
	m.before = func(_ int, tx []state.Write) error {
		return &state.TooLargeError{Key: tx[0].Key, Size: state.MaxValue + 1}
	}
	for id, data := range map[string]string{
		"session-tree::append": appendJSON("s1", "", "", user("x")),
		"session-inbox::push":  `{"name":"steering","session_id":"s1","item":` + user("x") + `}`,
	} {
		_, err := f.invoke(bus.Call{Principal: alice}, id, data)
		wantCode(t, id, err, "VALUE_TOO_LARGE")
		if bus.Retryable(err) {
			t.Errorf("%s: %v is retryable", id, err)
		}
	}
}

// Entries without a head row, such as a restored copy, are read once.
func TestHeadRowIsRebuilt(t *testing.T) {
	t.Parallel()
	f, m := memoryFixture(t)
	f.must(alice, "session-tree::append_batch", batchJSON("s1", "", []string{"u", "a", "r"}, user("hi"), assistant("c1", "c2"), result("c1")))
	want := f.checkTree()
	delete(m.items, state.Key{Scope: scopeHead, Key: "s1"})
	if diff := cmp.Diff(want, f.checkTree()); diff != "" {
		t.Error(diff)
	}
	_, err := f.invoke(bus.Call{Principal: alice}, "session-tree::append", appendJSON("s1", "", "x", result("c1")))
	wantCode(t, "a second result", err, "orphan_result")
	f.must(alice, "session-tree::append", appendJSON("s1", "", "r2", result("c2")))
	f.checkTree()
	if _, ok := m.items[state.Key{Scope: scopeHead, Key: "s1"}]; !ok {
		t.Error("no head row was written")
	}
	f.must(alice, "session-tree::touch", `{"session_id":"s1"}`)
	if meta, _, err := f.meta(t.Context(), "s1"); err != nil || meta.EntryCount != 4 {
		t.Errorf("meta = %+v, %v", meta, err)
	}
}

// F17: a transcript that ends in an open call takes new words and, once, the
// result that closes it.
func TestF17OpenCallIsClosedOnce(t *testing.T) {
	t.Parallel()
	f, m := memoryFixture(t)
	for id, e := range map[string]Entry{
		"u": {Timestamp: 1, Message: []byte(user("hi"))},
		"a": {Timestamp: 2, Message: []byte(assistant("c1", "c2"))},
		"r": {Timestamp: 3, Message: []byte(result("c1"))},
	} {
		e.ID, e.Type = id, TypeMessage
		if p := map[string]string{"a": "u", "r": "a"}[id]; p != "" {
			e.ParentID = &p
		}
		m.set(agent.ScopeSessionTree+"s1", id, string(encode(e)))
	}
	turn := bus.Call{Principal: alice, Worker: turnWorker}
	for range 2 {
		if _, err := f.invoke(turn, "session-tree::append_batch", batchJSON("s1", "", []string{"closed", "new"}, result("c2"), user("go on"))); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"u", "a", "r", "closed", "new"}, f.path("s1", "")); diff != "" {
		t.Error(diff)
	}
	_, err := f.invoke(turn, "session-tree::append", appendJSON("s1", "", "other", result("c2")))
	wantCode(t, "a second closing result", err, "orphan_result")
	f.checkTree()
}
