package enginetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/queue"
)

func testVerbatim(s *queueSuite) {
	s.standard("std")
	s.fifo("fifo")
	for _, name := range []string{"std", "fifo"} {
		m := queue.Message{
			Queue: name, Group: "g", FunctionID: "t::f", Namespace: "shop",
			Data:      json.RawMessage("{\"z\": 1e3,\n \"a\":12345678901234567890, \"t\":\"<é\\u0000>\"}"),
			Principal: bus.Principal{ID: "p", Role: bus.RoleApprover, WorkspaceID: "w", OnBehalfOf: "slack:T:U", Sessions: []string{"s-*"}},
			ReceiptID: "r-1", Traceparent: "00-1-2-01", Baggage: "k=v", External: true,
		}
		sent := s.send(m)
		d := s.one(name)
		if name == "std" {
			m.Group = ""
		}
		want := queue.Delivery{Message: m, ID: sent.ID, Receives: 1}
		if diff := cmp.Diff(want, d, cmpopts.IgnoreFields(queue.Delivery{}, "Receipt", "SentAt")); diff != "" {
			s.Errorf("%s: delivery (-want +got):\n%s", name, diff)
		}
		if d.Receipt == "" || d.SentAt.IsZero() || sent.ID == "" || sent.Duplicate {
			s.Errorf("%s: receipt %q, sent at %v, sent %+v", name, d.Receipt, d.SentAt, sent)
		}
	}
	s.send(queue.Message{Queue: "std"})
	if d := s.one("std"); string(d.Data) != "null" || d.ReceiptID != d.ID {
		s.Errorf("data %s, receipt id %q of message %q; want null and the message's id", d.Data, d.ReceiptID, d.ID)
	}
}

func testReceiveWaits(s *queueSuite) {
	s.fifo("q")
	got := make(chan queue.Delivery, 2)
	for range 2 {
		go func() {
			ds, err := s.q.Receive(s.ctx(), "q", 10)
			if err != nil || len(ds) != 1 {
				s.Errorf("Receive: %v, %v", ds, err)
				return
			}
			got <- ds[0]
		}()
	}
	s.sendText("q", "g", "1")
	d := <-got
	s.sendText("q", "g", "2") // Behind the first.
	s.sendText("q", "h", "3")
	if other := <-got; textOf(other) != "3" {
		s.Errorf("received %s, want 3", textOf(other))
	}
	s.ack(d)
	if next := s.one("q"); textOf(next) != "2" {
		s.Errorf("received %s, want 2", textOf(next))
	}
}

func testReceiveEndsWithContext(s *queueSuite) {
	s.fifo("q")
	ended, cancel := context.WithCancel(s.ctx())
	done := make(chan error)
	go func() {
		_, err := s.q.Receive(ended, "q", 1)
		done <- err
	}()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		s.Errorf("Receive: %v, want context.Canceled", err)
	}
	s.sendText("q", "g", "1")
	if _, err := s.q.Receive(ended, "q", 1); !errors.Is(err, context.Canceled) {
		s.Errorf("Receive of a visible message: %v, want context.Canceled", err)
	}
	// The ended receives took nothing.
	if d := s.one("q"); d.Receives != 1 {
		s.Errorf("receives = %d, want 1", d.Receives)
	}
}

func testReceiveAtMost(s *queueSuite) {
	s.standard("q")
	for i := range 5 {
		s.sendText("q", "", fmt.Sprint(i))
	}
	if n := len(s.receive("q", 2)); n > 2 {
		s.Errorf("received %d, want at most 2", n)
	}
}

func testOrder(s *queueSuite) {
	s.fifo("q")
	for i := range 4 {
		for _, g := range []string{"a", "b"} {
			s.sendText("q", g, fmt.Sprint(g, i))
		}
	}
	for i := range 4 {
		ds := s.wantVisible("q", fmt.Sprint("a", i), fmt.Sprint("b", i))
		s.wantVisible("q") // Two of a group are never out together.
		for _, d := range ds {
			s.ack(d)
		}
	}
	s.wantVisible("q")
}

func testGroupField(s *queueSuite) {
	s.define(queue.Config{Name: "q", Type: queue.FIFO, GroupField: "g", Concurrency: 100})
	long := strings.Repeat("x", 300)
	var want []string
	for _, v := range []string{`"a"`, `7`, `7.50`, `true`, `{"x": [1]}`, `"` + long + `"`, `"` + long + `y"`} {
		for i := range 2 {
			data := fmt.Sprintf(`{"g":%s,"n":%d}`, v, i)
			s.send(queue.Message{Queue: "q", Data: json.RawMessage(data)})
			if i == 0 {
				want = append(want, data)
			}
		}
	}
	// The message's own group goes before the field.
	s.send(queue.Message{Queue: "q", Group: "a", Data: json.RawMessage(`{"g":"other"}`)})
	for _, d := range s.wantVisible("q", want...) {
		if len(d.Group) > 128 || d.Group == "" {
			s.Errorf("group %q of %s, want 1 to 128 bytes", d.Group, d.Data)
		}
	}
}

func testVisibility(s *queueSuite) {
	for _, c := range []queue.Config{s.standard("std"), s.fifo("fifo")} {
		s.sendText(c.Name, "g", "1")
		first := s.one(c.Name)
		s.advance(c.Visibility - time.Second)
		s.wantVisible(c.Name)
		s.advance(time.Second)
		again := s.wantVisible(c.Name, "1")[0]
		if again.ID != first.ID || again.Receives != 2 || again.Receipt == first.Receipt {
			s.Errorf("%s: id %s receives %d receipt %s after id %s receipt %s", c.Name, again.ID, again.Receives, again.Receipt, first.ID, first.Receipt)
		}
		s.ack(again)
		s.advance(c.Visibility)
		s.wantVisible(c.Name)
	}
}

func testStaleReceipt(s *queueSuite) {
	for _, c := range []queue.Config{s.standard("std"), s.fifo("fifo")} {
		s.sendText(c.Name, "g", "1")
		first := s.one(c.Name)
		s.advance(c.Visibility)
		second := s.one(c.Name)
		s.wantStale(c.Name, first.Receipt)
		s.advance(c.Visibility - time.Second)
		s.wantVisible(c.Name) // The stale receipt neither showed nor removed it.
		s.ack(second)
		s.wantStale(c.Name, second.Receipt)
		s.wantStale(c.Name, first.Receipt)
		s.wantStale(c.Name, "nonsense")
	}
}

func testExpiredReceipt(s *queueSuite) {
	c := s.fifo("fifo")
	s.sendText("fifo", "g", "1")
	d := s.one("fifo")
	s.advance(c.Visibility)
	s.wantStale("fifo", d.Receipt)
	s.wantVisible("fifo", "1")

	c = s.standard("std")
	s.sendText("std", "", "1")
	d = s.one("std")
	s.advance(c.Visibility)
	s.ack(d) // Nobody received it since.
	s.wantVisible("std")
}

func testExtend(s *queueSuite) {
	for _, c := range []queue.Config{s.standard("std"), s.fifo("fifo")} {
		s.sendText(c.Name, "g", "1")
		d := s.one(c.Name)
		for range 4 {
			s.advance(c.Visibility - time.Second)
			s.ok(s.q.Extend(s.ctx(), c.Name, d.Receipt, c.Visibility))
		}
		s.advance(c.Visibility - time.Second)
		s.wantVisible(c.Name)
		s.advance(time.Second)
		s.wantVisible(c.Name, "1")

		// Shorter, too.
		s.sendText(c.Name, "h", "2")
		d = s.one(c.Name)
		s.ok(s.q.Extend(s.ctx(), c.Name, d.Receipt, 2*time.Second))
		s.advance(2 * time.Second)
		s.wantVisible(c.Name, "2")
	}
	if err := s.q.Extend(s.ctx(), "std", "x", -time.Second); err == nil {
		s.Error("Extend by a negative time: no error")
	}
}

func testExtendToNow(s *queueSuite) {
	for _, c := range []queue.Config{s.standard("std"), s.fifo("fifo")} {
		s.sendText(c.Name, "g", "1")
		s.sendText(c.Name, "g", "2")
		var d queue.Delivery
		for _, v := range s.visible(c.Name) {
			if textOf(v) == "1" {
				d = v
			}
		}
		s.ok(s.q.Extend(s.ctx(), c.Name, d.Receipt, 0))
		again := s.wantVisible(c.Name, "1")[0] // Before the second of its group.
		if again.Receives != 2 {
			s.Errorf("%s: receives = %d, want 2", c.Name, again.Receives)
		}
		s.wantStale(c.Name, d.Receipt)
	}
}
