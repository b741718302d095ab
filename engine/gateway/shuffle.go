package gateway

import (
	"container/heap"
	"context"
	"math/rand/v2"
	"time"

	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/protocol"
)

// shuffle hands frames on in another order than they came, as concurrent
// functions behind a gateway would see them: each is late by a time of its own.
type shuffle struct {
	clock clock.Clock
	in    chan lateFrame // closed when nothing more comes
	// room and chunks have an element for every frame that is under way.
	room, chunks chan struct{}
	held         lateFrames

	// Only add uses these.
	rand *rand.Rand
	n    int
}

func newShuffle(c clock.Clock, seed, connection uint64) *shuffle {
	return &shuffle{clock: c, rand: rand.New(rand.NewPCG(seed, connection)), in: make(chan lateFrame),
		room: make(chan struct{}, maxInFlight), chunks: make(chan struct{}, maxChunksInFlight)}
}

// add takes a frame; it waits while too many are under way, until ctx ends. One
// goroutine calls it.
func (s *shuffle) add(ctx context.Context, d delivery) {
	places := []chan struct{}{s.room}
	if _, ok := d.frame.(*protocol.Chunk); ok {
		places = append(places, s.chunks)
	}
	for _, p := range places {
		select {
		case p <- struct{}{}:
		case <-ctx.Done():
			return
		}
	}
	d.done = func() {
		for _, p := range places {
			<-p
		}
	}
	late := time.Duration(s.rand.Int64N(int64(Spread)))
	s.n++
	select {
	case s.in <- lateFrame{d, s.clock.Monotonic() + late, s.n}:
	case <-ctx.Done():
	}
}

// run hands frames on to out and closes it, when nothing more comes or ctx ends.
func (s *shuffle) run(ctx context.Context, out chan<- delivery) {
	defer close(out)
	in := s.in
	for in != nil || len(s.held) > 0 {
		var timer clock.Timer
		var due <-chan time.Time
		var to chan<- delivery
		var next delivery
		if len(s.held) > 0 {
			if wait := s.held[0].due - s.clock.Monotonic(); wait > 0 && in != nil {
				timer = s.clock.NewTimer(wait)
				due = timer.C()
			} else {
				to, next = out, s.held[0].delivery
			}
		}
		select {
		case f, ok := <-in:
			if !ok {
				in = nil // nothing can come in between any more: no need to wait
				break
			}
			heap.Push(&s.held, f)
		case to <- next:
			heap.Pop(&s.held)
		case <-due:
		case <-ctx.Done():
			in, s.held = nil, nil
		}
		if timer != nil {
			timer.Stop()
		}
	}
}

// lateFrame is a frame and when it is handed on.
type lateFrame struct {
	delivery
	due time.Duration
	n   int
}

// lateFrames is a heap by time.
type lateFrames []lateFrame

func (h lateFrames) Len() int { return len(h) }
func (h lateFrames) Less(i, j int) bool {
	return h[i].due < h[j].due || h[i].due == h[j].due && h[i].n < h[j].n
}
func (h lateFrames) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *lateFrames) Push(x any)   { *h = append(*h, x.(lateFrame)) }
func (h *lateFrames) Pop() any {
	old := *h
	f := old[len(old)-1]
	old[len(old)-1] = lateFrame{}
	*h = old[:len(old)-1]
	return f
}
