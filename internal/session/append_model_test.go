package session

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
)

// decisions is a source of small choices: bytes of a fuzzer, then zeros.
type decisions struct{ data []byte }

func (d *decisions) pick(n int) int {
	if len(d.data) == 0 {
		return 0
	}
	x := int(d.data[0]) % n
	d.data = d.data[1:]
	return x
}

// run makes appends that the decisions name, with faults around the store's
// transactions, and checks after each that the transcript is legal, that the
// head row is what the tree says, and that an answer is true.
func run(t *testing.T, data []byte) {
	t.Helper()
	f, m := memoryFixture(t)
	d := &decisions{data}
	fault := 0
	m.before = func(int, []state.Write) error {
		switch fault {
		case 1:
			fault = 0
			return &state.StorageError{Op: "write", Err: errors.New("disk")}
		case 2:
			fault = 0
			return &state.ConflictError{} // a cancelled transaction that names no key
		}
		return nil
	}
	m.after = func(int, []state.Write) error {
		if fault == 3 {
			fault = 0
			return &state.StorageError{Op: "write", Ambiguous: true, Err: errors.New("answer lost")}
		}
		return nil
	}
	entries := []string{""}
	for step := 0; len(d.data) > 0 && step < 40; step++ {
		var ids, messages []string
		for range 1 + d.pick(4) {
			// Ids come again, by chance and with other words.
			id := fmt.Sprintf("e%d", d.pick(40))
			if slices.Contains(ids, id) {
				continue
			}
			ids = append(ids, id)
			call := func() string { return fmt.Sprintf("c%d", d.pick(6)) }
			switch d.pick(5) {
			case 0:
				messages = append(messages, assistant(call()))
			case 1:
				messages = append(messages, assistant(call(), call()))
			case 2, 3:
				messages = append(messages, result(call()))
			default:
				messages = append(messages, user(fmt.Sprint(d.pick(3))))
			}
		}
		parent := entries[d.pick(len(entries))]
		if d.pick(3) > 0 {
			parent = ""
		}
		fault = d.pick(8)
		before, _, err := f.head(t.Context(), "s1")
		if err != nil {
			t.Fatal(err)
		}
		what := batchJSON("s1", parent, ids, messages...)
		_, err = f.invoke(bus.Call{Principal: alice}, "session-tree::append_batch", what)
		fault = 0
		after := f.checkTree()
		switch code := bus.Code(err); {
		case err == nil:
			f.checkStored(ids, messages)
			entries = append(entries, ids...)
		case slices.Contains([]string{"invalid_payload", "orphan_result", "duplicate_call", "storage", "entry_not_found"}, code):
			if code != "storage" && after.Count != before.Count {
				t.Fatalf("refused with %v, but stored:\n%s", err, what)
			}
		default:
			t.Fatalf("error %v (%s) of\n%s", err, code, what)
		}
	}
}

// checkTree checks every branch, and the head row against the tree.
func (f *fixture) checkTree() head {
	f.t.Helper()
	tr, err := f.tree(f.t.Context(), "s1")
	if err != nil {
		f.t.Fatal(err)
	}
	want := head{Leaf: tr.leaf(), Count: len(tr.entries)}
	parents := map[string]bool{}
	for _, e := range tr.entries {
		parents[e.parent()] = true
	}
	for _, e := range tr.entries {
		want.Last = max(want.Last, e.Timestamp)
		if p := e.parent(); p != "" {
			i, ok := tr.byID[p]
			if !ok {
				f.t.Fatalf("entry %s hangs on nothing", e.ID)
			}
			if tr.entries[i].Timestamp > e.Timestamp {
				f.t.Fatalf("entry %s is older than its parent", e.ID)
			}
		}
		if !parents[e.ID] {
			f.checkLegal(tr.path(e.ID))
		}
	}
	want.Open, _ = tr.calls(want.Leaf)
	got, _, err := f.head(f.t.Context(), "s1")
	if err != nil {
		f.t.Fatal(err)
	}
	if len(want.Open) == 0 {
		want.Open, got.Open = nil, nil
	}
	if diff := cmp.Diff(want, got); diff != "" {
		f.t.Fatalf("head row (-tree +row):\n%s", diff)
	}
	return got
}

// checkLegal: each call once, each result once and after its call.
func (f *fixture) checkLegal(path []Entry) {
	f.t.Helper()
	results := map[string]int{}
	for _, e := range path {
		m, ok := e.message()
		if !ok {
			f.t.Fatalf("entry %s has no message", e.ID)
		}
		for _, c := range m.Calls() {
			if _, again := results[c.ID]; again {
				f.t.Fatalf("call %s stands twice on the path to %s", c.ID, e.ID)
			}
			results[c.ID] = 0
		}
		if m.Role == agent.RoleFunctionResult {
			if n, called := results[m.FunctionCallID]; !called || n > 0 {
				f.t.Fatalf("result of %s in %s has no open call", m.FunctionCallID, e.ID)
			}
			results[m.FunctionCallID]++
		}
	}
}

// checkStored: the answered ids hold the messages that were sent, as a chain.
func (f *fixture) checkStored(ids, messages []string) {
	f.t.Helper()
	for i, id := range ids {
		e, ok, err := f.entry(f.t.Context(), "s1", id)
		if err != nil || !ok {
			f.t.Fatalf("entry %s was answered and is not there: %v", id, err)
		}
		if e.Timestamp < clock.Millis(f.clock.Now()) {
			f.t.Fatalf("entry %s is of %d", id, e.Timestamp)
		}
		if !sameMessage(e.Message, json.RawMessage(messages[i])) {
			f.t.Fatalf("entry %s holds %s, sent was %s", id, e.Message, messages[i])
		}
	}
}

func TestAppendsAgainstTheTree(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		data := make([]byte, 400)
		r := rand.New(rand.NewPCG(seed, 1))
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) { run(t, data) })
	}
}

func FuzzAppend(f *testing.F) {
	f.Add([]byte{1, 2, 3})
	f.Add(bytes.Repeat([]byte{3, 7, 0, 1, 2}, 40))
	f.Add(bytes.Repeat([]byte{2, 11, 0, 4, 2, 4, 9, 1, 3}, 30))
	f.Fuzz(func(t *testing.T, data []byte) { run(t, data) })
}

// FuzzAppendPayload: no payload crashes the worker or is stored as what it is
// not.
func FuzzAppendPayload(f *testing.F) {
	f.Add(appendJSON("s1", "", "e", user("x")))
	f.Add(`{"session_id":"s1","message":{"role":"assistant","content":[{"type":"function_call"}]}}`)
	f.Add(`{"session_id":"s1","message":null,"parent_id":"","entry_id":"\u0000"}`)
	f.Fuzz(func(t *testing.T, data string) {
		x, m := memoryFixture(t)
		out, err := x.invoke(bus.Call{Principal: alice}, "session-tree::append", data)
		items, listErr := m.List(context.Background(), agent.ScopeSessionTree+"s1", state.ListOptions{})
		if listErr != nil || (err == nil) != (len(items) == 1) {
			t.Fatalf("%q answered %s, %v and stored %d entries", data, out, err, len(items))
		}
		if err == nil {
			x.checkTree()
		}
	})
}
