package session

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
)

// A turn that starts between the check and the write of a client's append must
// not find the client's entry behind its own.
func TestTurnThatStartsMeanwhileWins(t *testing.T) {
	t.Parallel()
	for what, before := range map[string]string{"first run": "", "later run": `{"state":"stopped"}`} {
		f, m := memoryFixture(t)
		if before != "" {
			m.set(agent.ScopeTurnState, "s1", before)
		}
		m.before = func(int, []state.Write) error {
			m.set(agent.ScopeTurnState, "s1", `{"state":"provisioning"}`)
			return nil
		}
		_, err := f.invoke(bus.Call{Principal: alice}, "session-tree::append", appendJSON("s1", "", "e", user("x")))
		wantCode(t, what, err, "session_busy")
		if !bus.Retryable(err) {
			t.Errorf("%s: %v is not retryable", what, err)
		}
		if h := f.checkTree(); h.Count != 0 {
			t.Errorf("%s: %d entries", what, h.Count)
		}
	}
}

// A turn that ends meanwhile is no reason to refuse.
func TestTurnRecordThatChangesMeanwhile(t *testing.T) {
	t.Parallel()
	f, m := memoryFixture(t)
	m.set(agent.ScopeTurnState, "s1", `{"state":"stopped"}`)
	once := true
	m.before = func(int, []state.Write) error {
		if once {
			once = false
			m.set(agent.ScopeTurnState, "s1", `{"state":"stopped","outbox":{}}`)
		}
		return nil
	}
	f.must(alice, "session-tree::append", appendJSON("s1", "", "e", user("x")))
	f.checkTree()
}

func TestManyWritersOfOneSession(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.must(alice, "session-tree::ensure", `{"session_id":"s1"}`)
	const writers, each = 8, 10
	var wg sync.WaitGroup
	for w := range writers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range each {
				call := fmt.Sprintf("call-%d-%d", w, i)
				ids := []string{fmt.Sprintf("a%d-%d", w, i), fmt.Sprintf("r%d-%d", w, i)}
				if _, err := f.invoke(bus.Call{Principal: alice}, "session-tree::append_batch", batchJSON("s1", "", ids, assistant(call), result(call))); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	wg.Wait()
	if h := f.checkTree(); h.Count != writers*each*2 || len(h.Open) != 0 {
		t.Errorf("head = %+v", h)
	}
	if got := f.path("s1", ""); len(got) != writers*each*2 {
		t.Errorf("%d entries on the path", len(got))
	}
}

// Of many that append the same call id at once, one may.
func TestSameCallFromManyWriters(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.must(alice, "session-tree::ensure", `{"session_id":"s1"}`)
	errs := make(chan error, 8)
	var wg sync.WaitGroup
	for w := range cap(errs) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			ids := []string{fmt.Sprint("a", w), fmt.Sprint("r", w)}
			_, err := f.invoke(bus.Call{Principal: alice}, "session-tree::append_batch", batchJSON("s1", "", ids, assistant("c"), result("c")))
			errs <- err
		}()
	}
	wg.Wait()
	close(errs)
	won := 0
	for err := range errs {
		if err == nil {
			won++
			continue
		}
		wantCode(t, "a loser", err, "duplicate_call")
	}
	if won != 1 {
		t.Errorf("%d writers appended the call", won)
	}
	f.checkTree()
}

// A path that was read, and grew before the append was written, is read again.
func TestCallThatArrivesAfterThePathWasRead(t *testing.T) {
	t.Parallel()
	f, m := memoryFixture(t)
	f.must(alice, "session-tree::append_batch", batchJSON("s1", "", []string{"u", "b"}, user("x"), user("y")))
	// The id stands on another branch: its mark is there, and the path is read.
	f.must(alice, "session-tree::append_batch", batchJSON("s1", "u", []string{"o", "or"}, assistant("c"), result("c")))
	f.must(alice, "session-tree::append", appendJSON("s1", "b", "b2", user("z")))
	n := 0
	m.before = func(_ int, tx []state.Write) error {
		if n++; n == 2 {
			f.must(alice, "session-tree::append_batch", batchJSON("s1", "", []string{"m", "mr"}, assistant("c"), result("c")))
		}
		return nil
	}
	_, err := f.invoke(bus.Call{Principal: alice}, "session-tree::append", appendJSON("s1", "", "x", assistant("c")))
	wantCode(t, "the second c on the path", err, "duplicate_call")
	f.checkTree()
}

// A write whose answer was lost is looked up, also where the ids are ours.
func TestF15LostAnswers(t *testing.T) {
	t.Parallel()
	lost := &state.StorageError{Op: "write", Ambiguous: true, Err: errors.New("answer lost")}
	for id, data := range map[string]string{
		"session-tree::create": `{}`, "session-tree::ensure": `{"session_id":"new"}`, "session-tree::touch": `{"session_id":"s1"}`,
		"session-tree::append":       appendJSON("s1", "", "", user("x")),
		"session-tree::append_batch": `{"session_id":"s1","messages":[` + user("x") + `,` + assistant("c") + `]}`,
		"session-inbox::push":        `{"name":"steering","session_id":"s1","item":` + user("x") + `}`,
		"session-inbox::drain":       `{"name":"followup","session_id":"s1"}`,
	} {
		f, m := memoryFixture(t)
		f.must(alice, "session-inbox::push", `{"name":"followup","session_id":"s1","item":`+user("words")+`}`)
		once := true
		m.after = func(int, []state.Write) error {
			if once {
				once = false
				return lost
			}
			return nil
		}
		out, err := f.invoke(bus.Call{Principal: alice}, id, data)
		if err != nil {
			t.Errorf("%s: %v", id, err)
		}
		if once {
			t.Errorf("%s wrote nothing", id)
		}
		if want := `{"items":[` + user("words") + `]}`; id == "session-inbox::drain" && out != want {
			t.Errorf("drain = %s, want %s", out, want)
		}
		f.checkTree()
	}
	f, m := memoryFixture(t)
	m.after = func(int, []state.Write) error { return lost }
	f.must(alice, "session-tree::append", appendJSON("s1", "", "e", user("x")))
	if diff := cmp.Diff([]string{"e"}, f.path("s1", "")); diff != "" {
		t.Error(diff)
	}
}

func TestIDOfAnotherMessageIsRefused(t *testing.T) {
	t.Parallel()
	f, _ := memoryFixture(t)
	f.must(alice, "session-tree::append", appendJSON("s1", "", "e", user("x")))
	same := `{"timestamp":99,"content":[{"text":"x","type":"text"}],"role":"user"}`
	f.must(alice, "session-tree::append", appendJSON("s1", "", "e", same))
	_, err := f.invoke(bus.Call{Principal: alice}, "session-tree::append", appendJSON("s1", "", "e", user("other")))
	wantCode(t, "other words under a used id", err, "invalid_payload")
	if _, err := f.invoke(bus.Call{Principal: alice, Worker: turnWorker}, "session-tree::append", appendJSON("s1", "", "e", user("other"))); err != nil {
		t.Errorf("the turn's ids are derived from what they name: %v", err)
	}
	if h := f.checkTree(); h.Count != 1 {
		t.Errorf("%d entries", h.Count)
	}
}

// Which reads an append makes.
func TestAppendReads(t *testing.T) {
	t.Parallel()
	f, m := memoryFixture(t)
	turn := bus.Call{Principal: alice, Worker: turnWorker}
	for _, tt := range []struct {
		name, parent, id string
		gets, lists      int
	}{
		{"the first looks for entries without a head row", "", "e1", 2, 1},
		{"to the leaf by name", "e1", "e2", 2, 0},
		{"to the leaf", "", "e3", 2, 0},
		{"a repeat by parent", "e1", "e2", 4, 0},
		{"a repeat", "", "e3", 3, 0},
		{"a new branch", "e1", "e4", 3, 1},
	} {
		m.counts()
		if _, err := f.invoke(turn, "session-tree::append", appendJSON("s1", tt.parent, tt.id, user("x"))); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if g, l := m.counts(); g != tt.gets || l != tt.lists {
			t.Errorf("%s: %d gets and %d lists, want %d and %d", tt.name, g, l, tt.gets, tt.lists)
		}
	}
	m.counts()
	f.must(alice, "session-tree::messages", `{"session_id":"s1"}`)
	if _, l := m.counts(); l != 1 {
		t.Errorf("messages makes %d lists", l)
	}
}

// The first entry of a branch is newer than all there is, even if time stands
// still and its id sorts first: the branch is the active one.
func TestA32NewBranchIsActive(t *testing.T) {
	t.Parallel()
	f, _ := memoryFixture(t)
	f.must(alice, "session-tree::append_batch", batchJSON("s1", "", []string{"r", "z"}, user("1"), user("2")))
	f.must(alice, "session-tree::append", appendJSON("s1", "r", "a", user("3")))
	if diff := cmp.Diff([]string{"r", "a"}, f.path("s1", "")); diff != "" {
		t.Error(diff)
	}
	f.must(alice, "session-tree::append", appendJSON("s1", "", "b", user("4")))
	if diff := cmp.Diff([]string{"r", "a", "b"}, f.path("s1", "")); diff != "" {
		t.Error(diff)
	}
	f.checkTree()
}
