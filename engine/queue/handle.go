package queue

import (
	"context"
	"sync"
	"time"

	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/commit"
)

// Handle is a received message while its handler runs. The methods of a nil
// Handle say that there is no message. It is safe for concurrent use.
type Handle struct {
	Delivery
	// Deadline is when the queue's timeout ends the handler, by the wall
	// clock; zero if nothing does.
	Deadline time.Time

	q     Queue
	clock clock.Clock

	mu      sync.Mutex
	wall    time.Time
	mono    time.Duration
	acked   *commit.Promise[struct{}]
	settled bool
}

// NewHandle is a handle on a delivery that was received now.
func NewHandle(q Queue, d Delivery, c clock.Clock) *Handle {
	return &Handle{Delivery: d, q: q, clock: c, wall: c.Now(), mono: c.Monotonic()}
}

// RenewalAge is how long ago the message was received or its visibility last
// renewed: the larger of what the wall clock and the monotonic clock say, so
// that neither a machine that slept nor a clock that was set hides it. It is 0
// for a nil Handle.
func (h *Handle) RenewalAge() time.Duration {
	if h == nil {
		return 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return max(h.clock.Now().Sub(h.wall), h.clock.Monotonic()-h.mono)
}

// Ack removes the message, after the given tickets, in place of the consumer,
// which then does not do it again. If the acknowledgement fails, the message
// counts as not acknowledged. Further calls give the first one's promise. For a
// nil Handle the promise ends as the tickets do.
func (h *Handle) Ack(after ...commit.Ticket) *commit.Promise[struct{}] {
	if h == nil {
		p := commit.NewPromise[struct{}]()
		go func() { p.Resolve(struct{}{}, commit.Wait(context.Background(), after...)) }()
		return p
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.acked == nil {
		h.acked = h.q.Ack(context.Background(), h.Queue, h.Receipt, after...)
	}
	return h.acked
}

// renewed notes a renewal that was asked for at the given times.
func (h *Handle) renewed(wall time.Time, mono time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wall, h.mono = wall, mono
}

func (h *Handle) ackPromise() *commit.Promise[struct{}] {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.acked
}

// settle claims the end of the receive; only the first caller gets it.
func (h *Handle) settle() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	first := !h.settled
	h.settled = true
	return first
}

type handleKey struct{}

// WithDelivery puts the message that is being handled into the context.
func WithDelivery(ctx context.Context, h *Handle) context.Context {
	return context.WithValue(ctx, handleKey{}, h)
}

// DeliveryFrom is the message that is being handled, or nil.
func DeliveryFrom(ctx context.Context) *Handle {
	h, _ := ctx.Value(handleKey{}).(*Handle)
	return h
}
