package enginetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/queue"
)

// patience bounds every wait of the suites. Nothing waits that long unless it
// is broken.
const patience = 30 * time.Second

// QueueHarness is how RunQueue gets at a backend.
type QueueHarness struct {
	// New gives a queue port with the built-in queues only, and what lets time
	// pass for it: it moves a fake clock, or waits.
	New func(t *testing.T) (q queue.Queue, advance func(d time.Duration))
	// Reopen, if the backend can be killed, gives the port that a new process
	// finds after the old one was killed, with the same clock.
	Reopen func(t *testing.T, q queue.Queue) queue.Queue
	// Duplicates is set if Sent tells of duplicates.
	Duplicates bool
}

// RunQueue checks a backend against the comments of queue.Queue. Each subtest
// has a backend of its own and runs in parallel with the others.
func RunQueue(t *testing.T, h QueueHarness) {
	for _, test := range []struct {
		name string
		run  func(*queueSuite)
	}{
		{"Define", testDefine},
		{"DefineInvalid", testDefineInvalid},
		{"DefineType", testDefineType},
		{"UnknownQueue", testUnknownQueue},
		{"InvalidMessage", testInvalidMessage},
		{"Verbatim", testVerbatim},
		{"ReceiveWaits", testReceiveWaits},
		{"ReceiveEndsWithContext", testReceiveEndsWithContext},
		{"ReceiveAtMost", testReceiveAtMost},
		{"Order", testOrder},
		{"GroupField", testGroupField},
		{"Visibility", testVisibility},
		{"StaleReceipt", testStaleReceipt},
		{"ExpiredReceipt", testExpiredReceipt},
		{"Extend", testExtend},
		{"ExtendToNow", testExtendToNow},
		{"Backoff", testBackoff},
		{"NoBackoff", testNoBackoff},
		{"DeadLetter", testDeadLetter},
		{"DeadLetterByExpiry", testDeadLetterByExpiry},
		{"DeadLetterPage", testDeadLetterPage},
		{"DeadLetterFunction", testDeadLetterFunction},
		{"Redrive", testRedrive},
		{"RedriveAtTheBack", testRedriveAtTheBack},
		{"Discard", testDiscard},
		{"F12Dedup", testDedup},
		{"DedupOfContent", testContentDedup},
		{"F16PoisonInGroup", testPoisonInGroup},
		{"Concurrency", testConcurrency},
		{"ConcurrencyOfGroups", testConcurrencyOfGroups},
		{"Paused", testPaused},
		{"AfterTickets", testAfterTickets},
		{"Stats", testStats},
		{"Release", testRelease},
		{"ThousandGroups", testThousandGroups},
		{"ManyConsumers", testManyConsumers},
		{"Model", testQueueModel},
		{"Consumer", testConsumer},
		{"SubscriptionNames", testSubscriptionNames},
		{"Remove", testRemove},
		{"RemoveRace", testRemoveRace},
		{"SubmitAll", testSubmitAll},
		{"TopicModel", testTopicModel},
		{"LargeData", testLargeData},
		{"ErrorText", testErrorText},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			q, advance := h.New(t)
			test.run(&queueSuite{T: t, h: h, q: q, advance: advance})
		})
	}
}

// queueSuite is one subtest.
type queueSuite struct {
	*testing.T
	h       QueueHarness
	q       queue.Queue
	advance func(time.Duration)
	probes  int
}

func (s *queueSuite) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	s.Cleanup(cancel)
	return ctx
}

func (s *queueSuite) ok(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *queueSuite) define(c queue.Config) queue.Config {
	s.Helper()
	_, err := s.q.Define(s.ctx(), c)
	s.ok(err)
	return c.WithDefaults()
}

// fifo defines a FIFO queue that limits nothing.
func (s *queueSuite) fifo(name string) queue.Config {
	s.Helper()
	return s.define(queue.Config{Name: name, Type: queue.FIFO, Concurrency: 10000, MaxReceives: 1000})
}

func (s *queueSuite) standard(name string) queue.Config {
	s.Helper()
	return s.define(queue.Config{Name: name, Concurrency: 10000, MaxReceives: 1000})
}

func (s *queueSuite) send(m queue.Message) queue.Sent {
	s.Helper()
	if m.FunctionID == "" {
		m.FunctionID = "t::f"
	}
	sent, err := s.q.Submit(s.ctx(), m).Wait(s.ctx())
	s.ok(err)
	return sent
}

// sendText sends a message of a group, with the text as its data.
func (s *queueSuite) sendText(name, group, text string) queue.Sent {
	s.Helper()
	return s.send(queue.Message{Queue: name, Group: group, Data: quote(text)})
}

func quote(text string) json.RawMessage {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string always marshals
	}
	return b
}

func textOf(d queue.Delivery) string {
	var text string
	if json.Unmarshal(d.Data, &text) != nil {
		return string(d.Data)
	}
	return text
}

// receive waits for at least one message and takes at most n.
func (s *queueSuite) receive(name string, n int) []queue.Delivery {
	s.Helper()
	ds, err := s.q.Receive(s.ctx(), name, n)
	s.ok(err)
	if len(ds) == 0 {
		s.Fatal("Receive gave no message and no error")
	}
	return ds
}

func (s *queueSuite) one(name string) queue.Delivery {
	s.Helper()
	return s.receive(name, 1)[0]
}

// visible receives all that is visible now: a message sent last tells when that
// is all.
func (s *queueSuite) visible(name string) []queue.Delivery {
	s.Helper()
	s.probes++
	probe := fmt.Sprintf("probe %d", s.probes)
	s.send(queue.Message{Queue: name, Group: probe, FunctionID: "probe::probe", Data: quote(probe)})
	var found []queue.Delivery
	for last := false; !last; {
		for _, d := range s.receive(name, 10) {
			if d.FunctionID != "probe::probe" {
				found = append(found, d)
				continue
			}
			s.ack(d)
			last = last || textOf(d) == probe
		}
	}
	return found
}

func (s *queueSuite) wantVisible(name string, want ...string) []queue.Delivery {
	s.Helper()
	ds := s.visible(name)
	got := map[string]int{}
	for _, d := range ds {
		got[textOf(d)]++
	}
	expected := map[string]int{}
	for _, w := range want {
		expected[w]++
	}
	if diff := cmp.Diff(expected, got); diff != "" {
		s.Fatalf("visible messages (-want +got):\n%s", diff)
	}
	return ds
}

func (s *queueSuite) ack(d queue.Delivery) {
	s.Helper()
	_, err := s.q.Ack(s.ctx(), d.Queue, d.Receipt).Wait(s.ctx())
	s.ok(err)
}

func (s *queueSuite) fail(d queue.Delivery) (dead bool) {
	s.Helper()
	dead, err := s.q.Fail(s.ctx(), d.Queue, d.Receipt, &bus.Error{Code: "boom", Message: "it broke"})
	s.ok(err)
	return dead
}

// wantStale checks that a receipt changes nothing.
func (s *queueSuite) wantStale(name, receipt string) {
	s.Helper()
	_, err := s.q.Ack(s.ctx(), name, receipt).Wait(s.ctx())
	if !errors.Is(err, queue.ErrStale) {
		s.Errorf("Ack: %v, want ErrStale", err)
	}
	if err := s.q.Extend(s.ctx(), name, receipt, time.Hour); !errors.Is(err, queue.ErrStale) {
		s.Errorf("Extend: %v, want ErrStale", err)
	}
	if err := s.q.Extend(s.ctx(), name, receipt, 0); !errors.Is(err, queue.ErrStale) {
		s.Errorf("Extend to now: %v, want ErrStale", err)
	}
	if _, err := s.q.Fail(s.ctx(), name, receipt, errors.New("x")); !errors.Is(err, queue.ErrStale) {
		s.Errorf("Fail: %v, want ErrStale", err)
	}
	if r, ok := s.q.(queue.Releaser); ok {
		if err := r.Release(s.ctx(), name, receipt, 0, true); !errors.Is(err, queue.ErrStale) {
			s.Errorf("Release: %v, want ErrStale", err)
		}
	}
}

func (s *queueSuite) deadLetters(name string) []queue.DeadLetter {
	s.Helper()
	dead, err := s.q.DeadLetters(s.ctx(), name, 0, 100)
	s.ok(err)
	return dead
}
