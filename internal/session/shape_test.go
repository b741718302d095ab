package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
)

func TestA32UpdatePartIgnoresNonResults(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.must(alice, "session-tree::ensure", `{"session_id":"s1"}`)
	f.must(alice, "session-tree::append_batch", batchJSON("s1", "", []string{"u", "a", "r1", "r2"}, user("1"), assistant("c1", "c2"), result("c1"), result("c2")))
	before := f.treeOf("s1")
	for _, id := range []string{"u", "a", "none"} {
		if got := f.must(alice, "session-tree::update_part", fmt.Sprintf(`{"session_id":"s1","entry_id":%q,"output":"x","compacted_at":5}`, id)); got != `{"ok":true}` {
			t.Errorf("%s: %s", id, got)
		}
	}
	if diff := cmp.Diff(before.entries, f.treeOf("s1").entries); diff != "" {
		t.Errorf("it has changed:\n%s", diff)
	}
	f.put(agent.ScopeSessionTree+"s1", "r3", `{"id":"r3","timestamp":9,"type":"message","message":`+strings.Replace(result("c9"), `"details":{}`, `"details":[1]`, 1)+`}`)
	got := f.must(alice, "session-tree::update_parts", `{"session_id":"s1","items":[{"entry_id":"r1","output":"x","compacted_at":5},
		{"entry_id":"u","compacted_at":5},{"entry_id":"r2","output":"old","compacted_at":5},{"entry_id":"r2","compacted_at":6},{"entry_id":"r3","compacted_at":7}]}`)
	if got != `{"updated":3}` {
		t.Errorf("update_parts = %s", got)
	}
	now := f.treeOf("s1")
	for id, want := range map[string]string{
		"r1": `[{"text":"x","type":"text"}] {"compacted_at":5}`,
		"r2": `[{"text":"[output pruned]","type":"text"}] {"compacted_at":6}`,
		"r3": `[{"text":"[output pruned]","type":"text"}] {"compacted_at":7,"value":[1]}`,
	} {
		m := decoded[map[string]json.RawMessage](t, string(now.entries[now.byID[id]].Message))
		if got := string(m["content"]) + " " + string(m["details"]); got != want || string(m["function_id"]) != `"a::b"` {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
	}
}

func TestUpdatesRefuse(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.must(alice, "session-tree::ensure", `{"session_id":"s1"}`)
	f.must(alice, "session-tree::append_batch", batchJSON("s1", "", []string{"a", "r1"}, assistant("c1"), result("c1")))
	f.put(agent.ScopeTurnState, "s1", `{"state":"provisioning"}`)
	part := `{"session_id":"s1","entry_id":"r1","compacted_at":5}`
	none := `{"session_id":"s1","items":[]}`
	for id, data := range map[string]string{"session-tree::update_part": part, "session-tree::update_parts": none, "session-tree::compact": `{"session_id":"s1","summary":"s"}`} {
		_, err := f.invoke(bus.Call{Principal: alice}, id, data)
		wantCode(t, "busy: "+id, err, "session_busy")
		if _, err := f.invoke(bus.Call{Principal: alice, Worker: compactionWorker}, id, data); err != nil {
			t.Errorf("%s of the compaction: %v", id, err)
		}
		_, err = f.invoke(bus.Call{Principal: bob}, id, data)
		wantCode(t, "a stranger's "+id, err, "not_found")
	}
	for id, bad := range map[string][]string{
		"session-tree::update_part":      {`{"session_id":"","entry_id":"r1","compacted_at":5}`, `{"session_id":"s1","compacted_at":5}`, `{"session_id":"s1","entry_id":"r1"}`},
		"session-tree::update_parts":     {`{"session_id":"s1"}`, `{"session_id":"s1","items":[{"entry_id":"r1"}]}`, `{"items":[]}`, manyItems(1001)},
		"session-tree::fork":             {`{"from_entry_id":"e"}`, `{"source_session_id":"s1"}`},
		"session-tree::clone":            {`{}`},
		"session-tree::tree":             {`{}`},
		"session-tree::compactions":      {`{}`},
		"session-tree::reconcile":        {`{"state_snapshot":[]}`, `{"session_id":"s1"}`, `{"session_id":"s1","state_snapshot":[1]}`},
		"session-tree::append_synthetic": {`{"text":"x"}`, `{"session_id":"s1"}`},
		"session-tree::compact": {`{"summary":"x"}`, `{"session_id":"s1"}`, `{"session_id":"s1","summary":"x","tokens_before":-1}`,
			`{"session_id":"s1","summary":"x","details":[]}`, `{"session_id":"s1","summary":"` + strings.Repeat("x", maxSummary+1) + `"}`},
	} {
		for _, data := range bad {
			_, err := f.invoke(bus.Call{Principal: alice}, id, data)
			wantCode(t, id, err, "invalid_payload")
		}
	}
	_, err := f.invoke(bus.Call{Principal: alice, Worker: compactionWorker}, "session-tree::compact", `{"session_id":"s1","summary":"x","tail_start_id":"none"}`)
	wantCode(t, "an unknown tail", err, "entry_not_found")
}

func manyItems(n int) string {
	return `{"session_id":"s1","items":[` + strings.TrimSuffix(strings.Repeat(`{"entry_id":"e","compacted_at":1},`, n), ",") + `]}`
}

// TestUpdateOfALongList: in several transactions; a conflict is run again and a
// failure is told.
func TestUpdateOfALongList(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.must(alice, "session-tree::ensure", `{"session_id":"s1"}`)
	var items []part
	for i := range 150 {
		call, id := fmt.Sprintf("c%d", i), fmt.Sprintf("r%d", i)
		f.must(alice, "session-tree::append_batch", batchJSON("s1", "", []string{"a" + id, id}, assistant(call), result(call)))
		items = append(items, part{EntryID: id, CompactedAt: 5})
	}
	data := string(encode(partsRequest{SessionID: "s1", Items: items}))
	conflict := true
	f.store.submit = func(int, []state.Write) error {
		if conflict {
			conflict = false
			return &state.ConflictError{}
		}
		return nil
	}
	if got := f.must(alice, "session-tree::update_parts", data); got != `{"updated":150}` {
		t.Errorf("got %s", got)
	}
	f.store.submit = func(int, []state.Write) error { return &state.StorageError{Op: "write", Err: errors.New("disk")} }
	_, err := f.invoke(bus.Call{Principal: alice}, "session-tree::update_parts", data)
	wantCode(t, "a failing store", err, "storage")
}

func TestCompactions(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.chain("s1", 2)
	if got := f.must(alice, "session-tree::compactions", `{"session_id":"s1"}`); got != `{"entries":[]}` {
		t.Errorf("none: %s", got)
	}
	first := decoded[appendResponse](t, f.must(alice, "session-tree::compact", `{"session_id":"s1","summary":"one"}`)).EntryID
	second := decoded[appendResponse](t, f.must(alice, "session-tree::compact",
		`{"session_id":"s1","parent_id":"e2","summary":"two","tokens_before":9,"tail_start_id":"e2","details":{"modified_files":["f"]}}`)).EntryID
	got := f.must(alice, "session-tree::compactions", `{"session_id":"s1"}`)
	tr := f.treeOf("s1")
	want := fmt.Sprintf(`{"entries":[{"id":%q,"summary":"one","tokens_before":0,"tail_start_id":null,"details":{},"timestamp":%d},`+
		`{"id":%q,"summary":"two","tokens_before":9,"tail_start_id":"e2","details":{"modified_files":["f"]},"timestamp":%d}]}`,
		first, tr.entries[tr.byID[first]].Timestamp, second, tr.entries[tr.byID[second]].Timestamp)
	if got != want {
		t.Errorf("compactions = %s\nwant %s", got, want)
	}
	if tr.leaf() != second { // its own branch is the newest
		t.Errorf("leaf %s, want %s", tr.leaf(), second)
	}
}

func TestTree(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.must(alice, "session-tree::ensure", `{"session_id":"s1"}`)
	_, err := f.invoke(bus.Call{Principal: alice}, "session-tree::tree", `{"session_id":"s1"}`)
	wantCode(t, "an empty tree", err, "entry_not_found")
	f.chain("s1", 2)
	f.must(alice, "session-tree::append", appendJSON("s1", "e1", "b1", user("branch")))
	f.put(agent.ScopeSessionTree+"s1", "second", `{"id":"second","timestamp":99999999999999,"type":"custom_message"}`)
	type shown struct {
		Entry    struct{ ID string }
		Children []shown
	}
	got := decoded[shown](t, f.must(alice, "session-tree::tree", `{"session_id":"s1"}`))
	node := func(id string, children ...shown) shown {
		s := shown{Children: append([]shown{}, children...)}
		s.Entry.ID = id
		return s
	}
	if diff := cmp.Diff(node("e1", node("e2"), node("b1")), got); diff != "" {
		t.Error(diff)
	}
	f.put(agent.ScopeSessionTree+"s2", "x", `{"id":"x","parent_id":"gone","timestamp":1,"type":"custom_message"}`)
	f.must(alice, "session-tree::ensure", `{"session_id":"s2"}`)
	_, err = f.invoke(bus.Call{Principal: alice}, "session-tree::tree", `{"session_id":"s2"}`)
	wantCode(t, "a tree without a root", err, "entry_not_found")
}

func TestDeepTree(t *testing.T) {
	t.Parallel()
	f, _ := memoryFixture(t)
	grow := func(session string, n int) {
		f.must(alice, "session-tree::ensure", fmt.Sprintf(`{"session_id":%q}`, session))
		for at := 0; at < n; at += 1000 {
			m := make([]string, min(1000, n-at))
			for i := range m {
				m[i] = user("x")
			}
			f.must(alice, "session-tree::append_batch", string(encode(map[string]any{"session_id": session, "messages": raws(m)})))
		}
	}
	grow("s1", maxNesting)
	if got := f.must(alice, "session-tree::tree", `{"session_id":"s1"}`); strings.Count(got, `"entry"`) != maxNesting {
		t.Errorf("%d entries", strings.Count(got, `"entry"`))
	}
	grow("s2", maxNesting+1)
	_, err := f.invoke(bus.Call{Principal: alice}, "session-tree::tree", `{"session_id":"s2"}`)
	wantCode(t, "a deeper tree", err, "VALUE_TOO_LARGE")
}

func raws(texts []string) []json.RawMessage {
	out := make([]json.RawMessage, len(texts))
	for i, s := range texts {
		out[i] = json.RawMessage(s)
	}
	return out
}

func snapshot(session string, messages ...string) string {
	return string(encode(map[string]any{"session_id": session, "state_snapshot": raws(messages)}))
}

func TestReconcile(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.must(alice, "session-tree::ensure", `{"session_id":"s1"}`)
	for _, tt := range []struct{ data, want string }{
		{snapshot("s1", user("1"), user("2")), `{"state_count":2,"tree_count_before":0,"tree_count_after":2,"repaired":true}`},
		{snapshot("s1", user("1")), `{"state_count":1,"tree_count_before":2,"tree_count_after":2,"repaired":false}`},
		{snapshot("s1", user("other"), user("2")), `{"state_count":2,"tree_count_before":2,"tree_count_after":2,"repaired":false}`},
		{snapshot("s1", user("1"), user("2"), user("3")), `{"state_count":3,"tree_count_before":2,"tree_count_after":3,"repaired":true}`},
	} {
		if got := f.must(alice, "session-tree::reconcile", tt.data); got != tt.want {
			t.Errorf("%s: %s\nwant %s", tt.data, got, tt.want)
		}
	}
	if diff := cmp.Diff([]string{"1", "2", "3"}, f.texts("s1", "")); diff != "" {
		t.Error(diff)
	}
	_, err := f.invoke(bus.Call{Principal: alice}, "session-tree::reconcile", snapshot("s1", user("1"), user("2"), user("3"), result("none")))
	wantCode(t, "a snapshot that is not legal", err, "orphan_result")
	_, err = f.invoke(bus.Call{Principal: bob}, "session-tree::reconcile", snapshot("s1", user("1")))
	wantCode(t, "a stranger's", err, "not_found")
	f.put(agent.ScopeTurnState, "s1", `{"state":"provisioning"}`)
	_, err = f.invoke(bus.Call{Principal: alice}, "session-tree::reconcile", snapshot("s1", user("1"), user("2"), user("3"), user("4")))
	wantCode(t, "while a turn runs", err, "session_busy")
}

// TestReconcileCountsAgain: what comes between its look and its write is not
// appended a second time.
func TestReconcileCountsAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.must(alice, "session-tree::ensure", `{"session_id":"s1"}`)
	raced := false
	f.store.submit = func(int, []state.Write) error {
		if !raced {
			raced = true
			f.must(alice, "session-tree::append", appendJSON("s1", "", "", user("1")))
		}
		return nil
	}
	got := f.must(alice, "session-tree::reconcile", snapshot("s1", user("1"), user("2")))
	if got != `{"state_count":2,"tree_count_before":1,"tree_count_after":2,"repaired":true}` {
		t.Errorf("got %s", got)
	}
	if diff := cmp.Diff([]string{"1", "2"}, f.texts("s1", "")); diff != "" {
		t.Error(diff)
	}
	// In the middle of a long repair it ends, and to call again goes on.
	var long []string
	for i := range 150 {
		long = append(long, user(fmt.Sprint("m", i)))
	}
	n := 0
	f.store.submit = func(int, []state.Write) error {
		if n++; n == 2 {
			f.store.submit = nil
			f.must(alice, "session-tree::append", appendJSON("s1", "", "", user("between")))
		}
		return nil
	}
	_, err := f.invoke(bus.Call{Principal: alice}, "session-tree::reconcile", snapshot("s1", long...))
	wantCode(t, "others between", err, "storage")
	f.must(alice, "session-tree::reconcile", snapshot("s1", long...))
	if got := f.texts("s1", ""); len(got) != 150 || len(f.treeOf("s1").entries) != 150 {
		t.Errorf("%d messages of %d entries", len(got), len(f.treeOf("s1").entries))
	}
}

func TestAppendSynthetic(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.chain("s1", 2)
	id := decoded[appendResponse](t, f.must(alice, "session-tree::append_synthetic", `{"session_id":"s1","text":"go on","parent_id":null,"metadata":{"a":1}}`)).EntryID
	tr := f.treeOf("s1")
	e := tr.entries[tr.byID[id]]
	if m, ok := e.message(); !ok || m.Role != agent.RoleUser || m.Content[0].Text != "go on" || e.parent() != "e2" || strings.Contains(string(e.Message), "metadata") {
		t.Errorf("entry %+v", e)
	}
}
