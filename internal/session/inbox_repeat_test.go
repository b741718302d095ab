package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
)

func pushJSON(name, id, text string) string {
	m := map[string]any{"name": name, "session_id": "s1", "item": json.RawMessage(user(text))}
	if id != "" {
		m["id"] = id
	}
	return string(encode(m))
}

// A client that lost the answer pushes again. If the turn has taken the item
// meanwhile, its words must not come twice.
func TestA33PushAgainAfterItWasTaken(t *testing.T) {
	t.Parallel()
	f, _ := memoryFixture(t)
	turn := bus.Call{Principal: alice, Worker: turnWorker}
	f.must(alice, "session-inbox::push", pushJSON("steering", "i1", "one"))
	if _, err := f.invoke(turn, "session-inbox::drain", `{"name":"steering","session_id":"s1","ids":["i1"]}`); err != nil {
		t.Fatal(err)
	}
	if got := f.must(alice, "session-inbox::push", pushJSON("steering", "i1", "one")); got != `{"ok":true,"id":"i1"}` {
		t.Errorf("again: %s", got)
	}
	if got := f.must(alice, "session-inbox::peek", `{"name":"steering","session_id":"s1"}`); got != `{"items":[],"ids":[]}` {
		t.Errorf("the words are back: %s", got)
	}
	for what, data := range map[string]string{
		"other words":     pushJSON("steering", "i1", "two"),
		"the other inbox": pushJSON("followup", "i1", "one"),
	} {
		_, err := f.invoke(bus.Call{Principal: alice}, "session-inbox::push", data)
		wantCode(t, what+" under a taken id", err, "invalid_payload")
	}
	f.must(alice, "session-inbox::push", pushJSON("steering", "i2", "one"))
	_, err := f.invoke(bus.Call{Principal: alice}, "session-inbox::push", pushJSON("steering", "i2", "two"))
	wantCode(t, "other words under a waiting id", err, "invalid_payload")
	_, err = f.invoke(bus.Call{Principal: alice}, "session-inbox::push", pushJSON("followup", "i2", "one"))
	wantCode(t, "a waiting id in the other inbox", err, "invalid_payload")
}

func TestInboxRemembersTheLastIDsOnly(t *testing.T) {
	t.Parallel()
	f, m := memoryFixture(t)
	for i := range maxTaken + 1 {
		f.must(alice, "session-inbox::push", pushJSON("steering", fmt.Sprint("i", i), "x"))
	}
	f.must(alice, "session-inbox::drain", `{"name":"steering","session_id":"s1"}`)
	b, _, err := f.inbox(t.Context(), inboxRequest{Name: "steering", SessionID: "s1"})
	if err != nil || len(b.Taken) != maxTaken || b.Taken[0].ID != "i1" {
		t.Errorf("%d ids remembered from %+v, %v", len(b.Taken), b.Taken[:1], err)
	}
	// Ids that were minted are not sent again: nothing is kept of them.
	f.must(alice, "session-inbox::push", pushJSON("followup", "", "x"))
	f.must(alice, "session-inbox::drain", `{"name":"followup","session_id":"s1"}`)
	if _, ok := m.items[state.Key{Scope: agent.ScopeInbox, Key: "s1/followup"}]; ok {
		t.Error("an empty inbox is stored")
	}
}

func TestA33ManyPushersLoseNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.must(alice, "session-tree::ensure", `{"session_id":"s1"}`)
	const n = 20
	var wg sync.WaitGroup
	for i := range n {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if _, err := f.invoke(bus.Call{Principal: alice}, "session-inbox::push", pushJSON("steering", fmt.Sprint(i), "x")); err != nil {
				t.Error(err)
			}
		}()
	}
	wg.Wait()
	b, _, err := f.inbox(t.Context(), inboxRequest{Name: "steering", SessionID: "s1"})
	if err != nil || len(b.Items) != n {
		t.Errorf("%d items, %v", len(b.Items), err)
	}
}

// The control item is raised after the item is stored, only while a turn runs,
// and its failure does not take the words back.
func TestPushTellsARunningTurn(t *testing.T) {
	t.Parallel()
	control := state.Key{Scope: agent.ScopeControl, Key: "s1"}
	f, m := memoryFixture(t)
	for _, rec := range []string{`{"state":"stopped"}`, `{"state":"failed"}`} {
		m.set(agent.ScopeTurnState, "s1", rec)
		f.must(alice, "session-inbox::push", pushJSON("steering", "", "x"))
		if _, ok := m.items[control]; ok {
			t.Errorf("control raised while %s", rec)
		}
	}
	m.set(agent.ScopeTurnState, "s1", `{"state":"assistant_streaming"}`)
	m.set(agent.ScopeControl, "s1", `{"lease":3,"rev":7}`)
	stored := false
	m.before = func(_ int, tx []state.Write) error {
		if tx[0].Scope == agent.ScopeControl && !stored {
			t.Error("raised before the item was stored")
		}
		stored = stored || tx[0].Scope == agent.ScopeInbox
		return nil
	}
	f.must(alice, "session-inbox::push", pushJSON("steering", "k", "x"))
	if got := string(m.items[control].Value); got != `{"lease":3,"rev":8}` {
		t.Errorf("control = %s", got)
	}
	m.before = func(_ int, tx []state.Write) error {
		if tx[0].Scope == agent.ScopeControl {
			return &state.StorageError{Op: "write", Err: errors.New("disk")}
		}
		return nil
	}
	f.must(alice, "session-inbox::push", pushJSON("steering", "l", "x"))
}

// The turn has said the words that it drains: it must hear that they are still
// there.
func TestDrainTellsTheTurnOfAFailure(t *testing.T) {
	t.Parallel()
	f, m := memoryFixture(t)
	f.must(alice, "session-inbox::push", pushJSON("steering", "i", "x"))
	m.before = func(int, []state.Write) error { return &state.StorageError{Op: "write", Err: errors.New("disk")} }
	_, err := f.invoke(bus.Call{Principal: alice, Worker: turnWorker}, "session-inbox::drain", `{"name":"steering","session_id":"s1","ids":["i"]}`)
	wantCode(t, "the turn's drain", err, "storage")
	if got := f.must(alice, "session-inbox::drain", `{"name":"steering","session_id":"s1"}`); got != `{"items":[]}` {
		t.Errorf("a client's drain = %s", got)
	}
	m.before = nil
	if got := f.must(alice, "session-inbox::peek", `{"body":{"name":"steering","session_id":"s1"}}`); got != `{"items":[`+user("x")+`],"ids":["i"]}` {
		t.Errorf("peek = %s", got)
	}
}
