package embedded

import (
	"container/heap"
	"container/list"
	"time"

	"github.com/iii-aws/harness/engine/queue"
)

// phase is where a message is in its life.
type phase uint8

const (
	// waiting for its turn: visible, or behind others of its group.
	waiting phase = iota
	// delayed by a backoff or a release.
	delayed
	// inFlight: handed out.
	inFlight
)

// deathsPerReceive times MaxReceives processes may end while they hold a
// message before it is given up: no receive counts by such an end, but a message
// that ends every process has to go at last.
const deathsPerReceive = 4

// queueEntry is a stored message in memory. Its data stays in the file.
type queueEntry struct {
	number uint64
	home   *queueLane
	group  *queueGroup   // FIFO only
	place  *list.Element // in queueLane.ready, or in group.messages
	phase  phase
	// until is when delayed or inFlight ends, on the monotonic clock.
	until time.Duration
	slot  int // in due; -1 if not there
	// receives counts those that count, the one in flight among them.
	receives int
	// deaths is how many processes have ended in a row while they held it.
	deaths int
	// kept: it was there when the file was opened.
	kept bool
	// receipt is the number of the last receive; 0 if there is no valid one.
	receipt uint64
	// claimed by a write that removes it.
	claimed bool
	// buried is closed when a try to make it a dead letter has ended.
	buried  chan struct{}
	lastErr string
}

// queueGroup is the messages of a FIFO group. Only the first can be out.
type queueGroup struct {
	name     string
	messages list.List
	place    *list.Element // in queueLane.ready while the first is visible
}

// queueLane is a queue in memory.
type queueLane struct {
	name   string
	config queue.Config
	// ready is the visible messages, or the groups whose first is visible.
	ready  list.List
	groups map[string]*queueGroup
	// waiters are Receives that found nothing.
	waiters list.List
	depth   int // waiting and delayed
	out     int // inFlight
	dead    int
}

func newQueueLane(c queue.Config) *queueLane {
	return &queueLane{name: c.Name, config: c, groups: map[string]*queueGroup{}}
}

func (l *queueLane) fifo() bool { return l.config.Type == queue.FIFO }

// add puts a message at the back. It is visible unless it is delayed.
func (l *queueLane) add(e *queueEntry, groupName string) {
	e.home, e.slot = l, -1
	l.depth++
	if l.fifo() {
		g := l.groups[groupName]
		if g == nil {
			g = &queueGroup{name: groupName}
			l.groups[groupName] = g
		}
		e.group = g
		e.place = g.messages.PushBack(e)
	}
	if e.phase == waiting {
		l.show(e)
	}
}

// show makes a waiting message visible, if it is not behind others.
func (l *queueLane) show(e *queueEntry) {
	switch {
	case e.group == nil:
		e.place = l.ready.PushBack(e)
	case e.group.place == nil && e.group.messages.Front() == e.place:
		e.group.place = l.ready.PushBack(e.group)
	default:
		return
	}
	l.wake()
}

// hide takes a visible message out of ready.
func (l *queueLane) hide(e *queueEntry) {
	switch {
	case e.group != nil && e.group.place != nil && e.group.messages.Front() == e.place:
		l.ready.Remove(e.group.place)
		e.group.place = nil
	case e.group == nil && e.place != nil:
		l.ready.Remove(e.place)
		e.place = nil
	}
}

// move changes the phase of a message that is not visible.
func (l *queueLane) move(e *queueEntry, p phase) {
	if e.phase == inFlight {
		l.out--
		l.depth++
	}
	if p == inFlight {
		l.out++
		l.depth--
	}
	e.phase = p
}

// exhausted reports whether a message may not be handed out again.
func (e *queueEntry) exhausted() bool {
	most := e.home.config.MaxReceives
	return e.receives >= most || e.deaths >= deathsPerReceive*most
}

// first is the message to hand out next, or nil.
func (l *queueLane) first() *queueEntry {
	front := l.ready.Front()
	if front == nil {
		return nil
	}
	if g, ok := front.Value.(*queueGroup); ok {
		return g.messages.Front().Value.(*queueEntry)
	}
	return front.Value.(*queueEntry)
}

// free reports whether concurrency allows one more.
func (l *queueLane) free() bool { return l.out < l.config.Concurrency }

// remove drops a message; the next of its group becomes visible.
func (l *queueLane) remove(e *queueEntry) {
	if e.phase == inFlight {
		l.out--
	} else {
		l.depth--
	}
	if e.group == nil {
		l.hide(e)
		l.wake()
		return
	}
	g := e.group
	l.hide(e)
	g.messages.Remove(e.place)
	e.place = nil
	next := g.messages.Front()
	if next == nil {
		delete(l.groups, g.name)
		l.wake()
		return
	}
	if n := next.Value.(*queueEntry); n.phase == waiting && g.place == nil {
		l.show(n)
	}
	l.wake()
}

// laneWaiter is a Receive that waits.
type laneWaiter struct {
	wake  chan struct{}
	place *list.Element
}

func (l *queueLane) wait() *laneWaiter {
	w := &laneWaiter{wake: make(chan struct{})}
	w.place = l.waiters.PushBack(w)
	return w
}

// wake lets one waiter look again, if there is something for it.
func (l *queueLane) wake() {
	if l.ready.Len() == 0 || !l.free() {
		return
	}
	if front := l.waiters.Front(); front != nil {
		w := l.waiters.Remove(front).(*laneWaiter)
		w.place = nil
		close(w.wake)
	}
}

// wakeAll lets all waiters look again: the queue is gone.
func (l *queueLane) wakeAll() {
	for front := l.waiters.Front(); front != nil; front = l.waiters.Front() {
		w := l.waiters.Remove(front).(*laneWaiter)
		w.place = nil
		close(w.wake)
	}
}

// leave forgets a waiter that gave up, and hands its wake on.
func (l *queueLane) leave(w *laneWaiter) {
	if w.place != nil {
		l.waiters.Remove(w.place)
		return
	}
	l.wake()
}

// dueHeap orders the entries that are delayed or in flight by their end.
type dueHeap []*queueEntry

func (d dueHeap) Len() int           { return len(d) }
func (d dueHeap) Less(i, j int) bool { return d[i].until < d[j].until }
func (d dueHeap) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].slot, d[j].slot = i, j
}

// Push is for heap.
func (d *dueHeap) Push(x any) {
	e := x.(*queueEntry)
	e.slot = len(*d)
	*d = append(*d, e)
}

// Pop is for heap.
func (d *dueHeap) Pop() any {
	old := *d
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*d = old[:len(old)-1]
	e.slot = -1
	return e
}

// set puts e at its time, or moves it there.
func (d *dueHeap) set(e *queueEntry) {
	if e.slot < 0 {
		heap.Push(d, e)
		return
	}
	heap.Fix(d, e.slot)
}

func (d *dueHeap) drop(e *queueEntry) {
	if e.slot >= 0 {
		heap.Remove(d, e.slot)
	}
}
