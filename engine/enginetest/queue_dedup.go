package enginetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/iii-aws/harness/engine/queue"
)

// testDedup is the same start three times: with one dedup id, with different
// ones, and after the window.
func testDedup(s *queueSuite) {
	s.fifo("q")
	s.fifo("other")
	send := func(name, id, text string) queue.Sent {
		s.Helper()
		return s.send(queue.Message{Queue: name, Group: "g", DedupID: id, Data: quote(text)})
	}
	first := send("q", "d", "1")
	for range 2 {
		again := send("q", "d", "repeated")
		if s.h.Duplicates && (!again.Duplicate || again.ID != first.ID) {
			s.Errorf("repeat: %+v, want a duplicate of %s", again, first.ID)
		}
	}
	send("other", "d", "elsewhere")
	s.wantVisible("other", "elsewhere")
	long := strings.Repeat("x", 200)
	send("q", long, "2")
	send("q", long, "repeated")
	send("q", long+"y", "3")
	for _, want := range []string{"1", "2", "3"} {
		s.ack(s.wantVisible("q", want)[0])
	}
	s.wantVisible("q")

	// The window outlives the message, and a repeat does not prolong it.
	s.advance(queue.DedupWindow - 10*time.Second)
	send("q", "d", "repeated")
	s.wantVisible("q")
	s.advance(10 * time.Second)
	send("q", "d", "4")
	send("q", "d", "repeated")
	s.ack(s.wantVisible("q", "4")[0])
	s.wantVisible("q")

	// A dead letter that is redriven is not a repeat of itself.
	s.define(queue.Config{Name: "q", Type: queue.FIFO, MaxReceives: 1, Concurrency: 100})
	send("q", "e", "5")
	s.fail(s.one("q"))
	n, err := s.q.Redrive(s.ctx(), "q", "")
	s.ok(err)
	if n != 1 {
		s.Errorf("redriven %d, want 1", n)
	}
	s.wantVisible("q", "5")
}

func testContentDedup(s *queueSuite) {
	s.define(queue.Config{Name: "q", Type: queue.FIFO, GroupField: "g", ContentDedup: true, Concurrency: 100})
	send := func(function, id string, n int) {
		s.Helper()
		s.send(queue.Message{Queue: "q", FunctionID: function, DedupID: id, Data: json.RawMessage(fmt.Sprintf(`{"g":"%s%d","n":%d}`, function, n, n))})
	}
	send("f", "", 1)
	send("f", "", 1)
	send("f", "", 2)
	send("h", "", 1)
	s.wantVisible("q", `{"g":"f1","n":1}`, `{"g":"f2","n":2}`, `{"g":"h1","n":1}`)
	// A dedup id of its own goes before the content.
	send("f", "own", 3)
	send("f", "own", 4)
	s.wantVisible("q", `{"g":"f3","n":3}`)
	s.advance(queue.DedupWindow)
	send("x", "", 1)
	send("x", "", 1)
	for _, d := range s.visible("q") {
		if d.FunctionID == "x" {
			s.ack(d)
		}
	}
	send("x", "", 1)
	for _, d := range s.visible("q") {
		if d.FunctionID == "x" {
			s.Error("a repeat of the content was delivered after the first was acknowledged")
		}
	}
}
