package enginetest

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/queue"
)

func testQueueModel(s *queueSuite) {
	for seed := range uint64(12) {
		s.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			ops := make([]byte, 600)
			for i := range ops {
				ops[i] = byte(r.IntN(256))
			}
			RunQueueOps(t, s.h, ops)
		})
	}
}

// RunQueueOps does to a FIFO queue what ops say, sends, receives,
// acknowledgements, failures, stale receipts, extensions, time and, if the
// harness can, kills, and compares it with a model after each: order within a
// group, one of a group at a time, nothing lost, nothing after its
// acknowledgement. Any ops are valid.
func RunQueueOps(t *testing.T, h QueueHarness, ops []byte) {
	q, advance := h.New(t)
	s := &queueSuite{T: t, h: h, q: q, advance: advance}
	m := &queueModel{queueSuite: s, groups: map[string][]*modelMessage{}}
	m.config = s.define(queue.Config{
		Name: "q", Type: queue.FIFO, MaxReceives: 3, Backoff: 3 * time.Second, Concurrency: 4, Visibility: 20 * time.Second,
	})
	for len(ops) > 0 {
		op := ops[0]
		ops = ops[1:]
		arg := byte(0)
		if len(ops) > 0 {
			arg = ops[0]
			ops = ops[1:]
		}
		m.step(op, arg)
		if t.Failed() {
			t.FailNow()
		}
	}
	m.finish()
}

// modelMessage is what the model knows of a message.
type modelMessage struct {
	text     string
	group    string
	receives int
	out      bool
	// until is when the visibility or the backoff ends.
	until   time.Duration
	receipt string
}

type queueModel struct {
	*queueSuite
	config queue.Config
	now    time.Duration
	sent   int
	groups map[string][]*modelMessage
	stale  []string
	dead   []string
}

func (m *queueModel) step(op, arg byte) {
	m.Helper()
	switch op % 16 {
	case 0, 1, 2, 3:
		m.sendOne(fmt.Sprint("g", arg%5))
	case 4, 5, 6, 7:
		m.receiveSome(int(arg%4) + 1)
	case 8, 9:
		m.settleOne(arg, true)
	case 10:
		m.settleOne(arg, false)
	case 11:
		m.extendOne(arg)
	case 12:
		if len(m.stale) > 0 {
			m.wantStale("q", m.stale[int(arg)%len(m.stale)])
		}
	case 13, 14:
		m.pass(time.Duration(arg%8) * time.Second)
	case 15:
		if arg%4 == 0 {
			m.reopen()
		}
	}
}

func (m *queueModel) sendOne(group string) {
	m.sent++
	text := fmt.Sprint(m.sent)
	m.sendText("q", group, text)
	m.groups[group] = append(m.groups[group], &modelMessage{text: text, group: group})
}

// heads is the first message of each group, by group.
func (m *queueModel) heads() []*modelMessage {
	var hs []*modelMessage
	for _, g := range slices.Sorted(maps.Keys(m.groups)) {
		if len(m.groups[g]) > 0 {
			hs = append(hs, m.groups[g][0])
		}
	}
	return hs
}

func (m *queueModel) inFlight() []*modelMessage {
	return slices.DeleteFunc(m.heads(), func(h *modelMessage) bool { return !h.out })
}

func (m *queueModel) receiveSome(n int) {
	m.Helper()
	visible := map[string]*modelMessage{}
	free := m.config.Concurrency
	for _, h := range m.heads() {
		if h.out {
			free--
		} else if h.until <= m.now {
			visible[h.text] = h
		}
	}
	if len(visible) == 0 || free == 0 {
		return
	}
	ds := m.receive("q", n)
	if len(ds) > min(n, free) {
		m.Fatalf("received %d, want at most %d", len(ds), min(n, free))
	}
	for _, d := range ds {
		h := visible[textOf(d)]
		if h == nil {
			m.Fatalf("received %s of group %s, which is not visible", textOf(d), d.Group)
		}
		delete(visible, h.text)
		h.receives++
		h.out, h.until, h.receipt = true, m.now+m.config.Visibility, d.Receipt
		if d.Group != h.group || d.Receives != h.receives {
			m.Fatalf("received %s of group %s for time %d, want group %s and time %d", h.text, d.Group, d.Receives, h.group, h.receives)
		}
	}
}

// end ends a receive; its receipt is stale from now on.
func (m *queueModel) end(h *modelMessage) {
	m.stale = append(m.stale, h.receipt)
	h.out, h.receipt = false, ""
}

func (m *queueModel) remove(h *modelMessage) {
	m.groups[h.group] = m.groups[h.group][1:]
}

// expire ends a receive whose visibility is over.
func (m *queueModel) expire(h *modelMessage) {
	m.end(h)
	if h.receives >= m.config.MaxReceives {
		m.dead = append(m.dead, h.text)
		m.remove(h)
	}
}

func (m *queueModel) settleOne(arg byte, ack bool) {
	m.Helper()
	out := m.inFlight()
	if len(out) == 0 {
		return
	}
	h := out[int(arg)%len(out)]
	if ack {
		_, err := m.q.Ack(m.ctx(), "q", h.receipt).Wait(m.ctx())
		m.ok(err)
		m.end(h)
		m.remove(h)
		return
	}
	dead, err := m.q.Fail(m.ctx(), "q", h.receipt, &bus.Error{Code: "boom", Message: h.text})
	m.ok(err)
	if dead != (h.receives >= m.config.MaxReceives) {
		m.Fatalf("Fail of %s: dead = %v after receive %d of %d", h.text, dead, h.receives, m.config.MaxReceives)
	}
	h.until = m.now
	m.expire(h)
	if !dead {
		h.until = m.now + m.config.BackoffAfter(h.receives)
	}
}

func (m *queueModel) extendOne(arg byte) {
	m.Helper()
	out := m.inFlight()
	if len(out) == 0 {
		return
	}
	h := out[int(arg)%len(out)]
	d := time.Duration(arg%40) * time.Second
	m.ok(m.q.Extend(m.ctx(), "q", h.receipt, d))
	h.until = m.now + d
	if d == 0 {
		m.expire(h)
	}
}

func (m *queueModel) pass(d time.Duration) {
	m.Helper()
	m.advance(d)
	m.now += d
	// A visibility that ended is seen before the next step, which may be a kill.
	_, err := m.q.Stats(m.ctx(), "q")
	m.ok(err)
	for _, h := range m.inFlight() {
		if h.until <= m.now {
			m.expire(h)
		}
	}
}

// reopen kills the backend: what is in flight is visible again, and its receive
// does not count.
func (m *queueModel) reopen() {
	if m.h.Reopen == nil {
		return
	}
	m.q = m.h.Reopen(m.T, m.q)
	for _, h := range m.inFlight() {
		m.end(h)
		h.until = m.now
		h.receives--
	}
}

// finish lets everything come out and compares what is left.
func (m *queueModel) finish() {
	m.pass(24 * time.Hour)
	var left []string
	for _, g := range m.groups {
		for _, h := range g {
			left = append(left, h.text)
		}
	}
	var got []string
	for range left {
		d := m.one("q")
		head := m.groups[d.Group][0]
		if textOf(d) != head.text {
			m.Fatalf("group %s: received %s, want %s", d.Group, textOf(d), head.text)
		}
		m.remove(head)
		m.ack(d)
		got = append(got, textOf(d))
	}
	slices.Sort(left)
	slices.Sort(got)
	if diff := cmp.Diff(left, got); diff != "" {
		m.Errorf("messages at the end (-want +got):\n%s", diff)
	}
	m.wantVisible("q")
	var dead []string
	for _, d := range m.deadAll() {
		dead = append(dead, textOf(queue.Delivery{Message: d.Message}))
	}
	slices.Sort(dead)
	slices.Sort(m.dead)
	if diff := cmp.Diff(m.dead, dead); diff != "" {
		m.Errorf("dead letters (-want +got):\n%s", diff)
	}
	for _, receipt := range m.stale[max(0, len(m.stale)-20):] {
		if _, err := m.q.Ack(m.ctx(), "q", receipt).Wait(m.ctx()); !errors.Is(err, queue.ErrStale) {
			m.Errorf("Ack of an ended receive: %v, want ErrStale", err)
		}
	}
}

func (m *queueModel) deadAll() []queue.DeadLetter {
	m.Helper()
	dead, err := m.q.DeadLetters(m.ctx(), "q", 0, 1_000_000)
	m.ok(err)
	return dead
}
