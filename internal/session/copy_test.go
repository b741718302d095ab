package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
)

func decoded[T any](t testing.TB, text string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// copied calls fork or clone and gives the new session's id.
func (f *fixture) copied(p bus.Principal, id, data string) string {
	f.t.Helper()
	return decoded[sessionResponse](f.t, f.must(p, id, data)).SessionID
}

// texts is the first text of each message of a path.
func (f *fixture) texts(session, leaf string) []string {
	f.t.Helper()
	out := decoded[messagesResponse](f.t, f.must(operator, "session-tree::messages", fmt.Sprintf(`{"session_id":%q,"branch_leaf":%q}`, session, leaf)))
	texts := []string{}
	for _, m := range out.Messages {
		texts = append(texts, decoded[agent.Message](f.t, string(m.Message)).Content[0].Text)
	}
	return texts
}

// chain makes a session of n user messages with the ids e1, e2, ...
func (f *fixture) chain(session string, n int) {
	f.t.Helper()
	f.must(alice, "session-tree::ensure", fmt.Sprintf(`{"session_id":%q,"display_name":"Plan","cwd":"/w"}`, session))
	for i := 1; i <= n; i++ {
		f.must(alice, "session-tree::append", appendJSON(session, "", fmt.Sprintf("e%d", i), user(fmt.Sprintf("text %d", i))))
	}
}

func (f *fixture) treeOf(session string) tree {
	f.t.Helper()
	t, err := f.tree(f.t.Context(), session)
	if err != nil {
		f.t.Fatal(err)
	}
	return t
}

func TestA32ForkAt50And51Entries(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.chain("s1", 60)
	at50 := f.copied(alice, "session-tree::fork", `{"source_session_id":"s1","from_entry_id":"e50"}`)
	if diff := cmp.Diff(f.texts("s1", "e50"), f.texts(at50, "")); diff != "" {
		t.Errorf("fork at 50 (-source +fork):\n%s", diff)
	}
	source, forked := f.treeOf("s1"), f.treeOf(at50)
	for i, e := range forked.path(forked.leaf()) {
		if e.Timestamp != source.entries[i].Timestamp || e.ID == source.entries[i].ID {
			t.Errorf("entry %d: %+v; its source %+v", i, e, source.entries[i])
		}
	}
	at51 := f.treeOf(f.copied(alice, "session-tree::fork", `{"source_session_id":"s1","from_entry_id":"e51"}`))
	if len(at51.entries) != 1 {
		t.Fatalf("fork at 51 has %d entries, want one", len(at51.entries))
	}
	root := at51.entries[0]
	if root.Type != TypeBranchSummary || root.ParentID != nil || root.FromID != "e51" || root.Timestamp != source.entries[50].Timestamp ||
		!strings.Contains(root.Summary, "text 51") || strings.Contains(root.Summary, "text 52") {
		t.Errorf("root %+v", root)
	}
	_, err := f.invoke(bus.Call{Principal: alice}, "session-tree::fork", `{"source_session_id":"s1","from_entry_id":"nope"}`)
	wantCode(t, "an unknown entry", err, "entry_not_found")
}

func TestA32CloneRemapsParents(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.chain("s1", 3)
	f.must(alice, "session-tree::append", appendJSON("s1", "e1", "b1", assistant("c1"))) // a branch with an open call
	f.must(alice, "session-tree::compact", `{"session_id":"s1","summary":"so far","tail_start_id":"e1","tokens_before":7,"details":{"read_files":["a"]}}`)
	f.must(alice, "session-tree::append", appendJSON("s1", "", "b2", result("c1")))
	source := f.treeOf("s1")
	id := f.copied(alice, "session-tree::clone", `{"source_session_id":"s1"}`)
	clone := f.treeOf(id)
	fresh := map[string]string{}
	for i, e := range source.entries {
		fresh[e.ID] = clone.entries[i].ID
	}
	for i, e := range source.entries {
		got := clone.entries[i]
		if source.byID[got.ID] != 0 || got.parent() != fresh[e.parent()] || (e.TailStartID != nil && *got.TailStartID != fresh[*e.TailStartID]) {
			t.Errorf("entry %d: %+v; its source %+v", i, got, e)
		}
		e.ID, e.ParentID, e.TailStartID, got.ID, got.ParentID, got.TailStartID = "", nil, nil, "", nil, nil
		if diff := cmp.Diff(e, got); diff != "" {
			t.Errorf("entry %d (-source +clone):\n%s", i, diff)
		}
	}
	// The head row and the marks of calls are those of a tree that grew here.
	h, version, err := f.head(t.Context(), id)
	if diff := cmp.Diff(clone.head(), h, cmpopts.EquateEmpty()); diff != "" || version == 0 || err != nil {
		t.Errorf("head, version %d, %v:\n%s", version, err, diff)
	}
	f.must(alice, "session-tree::append", appendJSON(id, "", "", user("more")))
	_, err = f.invoke(bus.Call{Principal: alice}, "session-tree::append", appendJSON(id, "", "", assistant("c1")))
	wantCode(t, "a call of the source", err, "duplicate_call")
	if diff := cmp.Diff(source.entries, f.treeOf("s1").entries); diff != "" {
		t.Errorf("the source has changed:\n%s", diff)
	}
}

func TestCopyBelongsToWhoMadeIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.chain("s1", 2)
	approver := bus.Principal{ID: "carol", Role: bus.RoleApprover, Sessions: []string{"s*"}}
	for id, data := range map[string]string{
		"session-tree::fork": `{"source_session_id":"s1","from_entry_id":"e2"}`, "session-tree::clone": `{"source_session_id":"s1"}`,
	} {
		_, err := f.invoke(bus.Call{Principal: bob}, id, data)
		wantCode(t, "a stranger's "+id, err, "not_found")
		_, err = f.invoke(bus.Call{Principal: alice}, id, strings.Replace(data, "s1", "none", 1))
		wantCode(t, id+" of none", err, "not_found")
		mine := f.copied(approver, id, data)
		m, _, err := f.meta(t.Context(), mine)
		suffix := " (" + strings.TrimPrefix(id, "session-tree::") + ")"
		if err != nil || m.Owner != "carol" || m.DisplayName != "Plan"+suffix || m.Cwd != "/w" || m.EntryCount != 2 || m.Summary != "text 2" {
			t.Errorf("%s: %+v, %v", id, m, err)
		}
		_, err = f.invoke(bus.Call{Principal: alice}, "session-tree::messages", fmt.Sprintf(`{"session_id":%q}`, mine))
		wantCode(t, "another's copy", err, "not_found")
	}
}

// TestHalfACopyIsNeverSeen: whichever of its transactions fails.
func TestHalfACopyIsNeverSeen(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.chain("s1", 50)
	for i := range 40 { // beside the path, so that a clone takes two transactions
		f.must(alice, "session-tree::append", appendJSON("s1", "e1", fmt.Sprintf("x%d", i), assistant(fmt.Sprintf("c%d", i))))
	}
	for fail := 1; ; fail++ {
		start := f.store.n
		f.store.submit = func(n int, _ []state.Write) error {
			if n == start+fail {
				return &state.StorageError{Op: "write", Err: errors.New("disk")}
			}
			return nil
		}
		_, err := f.invoke(bus.Call{Principal: alice}, "session-tree::clone", `{"source_session_id":"s1"}`)
		if err == nil {
			if fail < 4 {
				t.Errorf("a clone of 91 entries took %d transactions", fail-1)
			}
			break
		}
		wantCode(t, fmt.Sprint("failure ", fail), err, "storage")
		if n := decoded[listResponse](t, f.must(alice, "session-tree::list", `{}`)).Total; n != 1 {
			t.Errorf("failure %d: %d sessions", fail, n)
		}
	}
}

func TestCopyOfADamagedTree(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.must(alice, "session-tree::ensure", fmt.Sprintf(`{"session_id":"s1","display_name":%q}`, strings.Repeat("é", maxText/2)))
	f.put(agent.ScopeSessionTree+"s1", "c", `{"id":"c","parent_id":"gone","timestamp":3,"type":"message","message":`+user("x")+`}`)
	f.put(agent.ScopeSessionTree+"s1", "d", `{"id":"d","parent_id":"c","timestamp":4,"type":"branch_summary","from_id":"c"}`)
	copied := f.treeOf(f.copied(alice, "session-tree::fork", `{"source_session_id":"s1","from_entry_id":"d"}`))
	if len(copied.entries) != 2 || copied.entries[0].ParentID != nil || copied.entries[1].FromID != copied.entries[0].ID {
		t.Errorf("copy %+v", copied.entries)
	}
	if id := f.copied(alice, "session-tree::clone", `{"source_session_id":"s1"}`); len(f.treeOf(id).entries) != 2 {
		t.Error("the clone lost entries")
	}
}
