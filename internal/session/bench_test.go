package session

import (
	"fmt"
	"testing"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/internal/agent"
)

// history stores n turns of four entries.
func history(b *testing.B, m *memory, n int) {
	b.Helper()
	parent, at := "", int64(0)
	add := func(id, message string) {
		at++
		e := Entry{ID: id, Timestamp: at, Type: TypeMessage, Message: []byte(message)}
		if parent != "" {
			p := parent
			e.ParentID = &p
		}
		m.set(agent.ScopeSessionTree+"s1", id, string(encode(e)))
		parent = id
	}
	for i := range n {
		c := fmt.Sprintf("call%d", i)
		add(fmt.Sprintf("u%d", i), user("what time is it, and what is in this folder?"))
		add(fmt.Sprintf("a%d", i), assistant(c))
		add(fmt.Sprintf("r%d", i), result(c))
		add(fmt.Sprintf("z%d", i), assistant())
	}
}

func BenchmarkMessages2000Turns(b *testing.B) {
	f, m := memoryFixture(b)
	history(b, m, 2000)
	for b.Loop() {
		f.must(alice, "session-tree::messages", `{"session_id":"s1"}`)
	}
}

func BenchmarkAppendBehind2000Turns(b *testing.B) {
	f, m := memoryFixture(b)
	history(b, m, 2000)
	turn := bus.Call{Principal: alice, Worker: turnWorker}
	for i := 0; b.Loop(); i++ {
		if _, err := f.invoke(turn, "session-tree::append", appendJSON("s1", "", fmt.Sprint("n", i), user("x"))); err != nil {
			b.Fatal(err)
		}
	}
}
