package turn

import (
	"context"
	"sync"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/commit"
)

// courier delivers the outbox beside the step, in order, again and again until
// it is done. What it has delivered the driver takes out with its next write.
type courier struct {
	t   *Turn
	ctx context.Context
	// The record changes while the courier works: it has its own copies.
	session   string
	run       string
	principal bus.Principal
	viewer    ViewerSession
	by        string
	base      int64

	mu        sync.Mutex
	queue     []*load
	delivered map[string]bool
	last      int64 // the tail of the event log
	failed    error // the last failure, nil after a success
	broken    error // what can never be delivered
	changed   chan struct{}
	running   bool
	done      chan struct{}
}

// courierPauses are the pauses after failures; the last one repeats.
var courierPauses = []time.Duration{50 * time.Millisecond, 200 * time.Millisecond, time.Second, 5 * time.Second}

// newCourier makes the courier of a step. Base is the tail of the event log, or
// what it was when the oldest event owed was made.
func newCourier(d *driver, by string, base int64) *courier {
	return &courier{
		t: d.t, ctx: d.ctx, session: d.rec.SessionID, run: d.rec.Run, principal: d.rec.Principal, viewer: d.viewer,
		by: by, base: base, last: base,
		delivered: map[string]bool{}, changed: make(chan struct{}),
	}
}

// send adds what a write owes.
func (c *courier) send(parcels []parcel, after commit.Ticket) {
	if len(parcels) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	l := newLoad(parcels, after)
	if len(c.queue) == 0 && l.ready() {
		c.submitEvents(l)
	}
	c.queue = append(c.queue, l)
	if !c.running {
		c.running = true
		c.done = make(chan struct{})
		go c.work(c.done)
	}
}

// work delivers until nothing is left.
func (c *courier) work(done chan struct{}) {
	defer close(done)
	for tries := 0; ; {
		b := c.head()
		if b == nil {
			return
		}
		var err error
		if v := caught(func() { err = c.deliver(b) }); v != nil {
			err = v
		}
		c.report(b, err)
		if err == nil {
			tries = 0
			continue
		}
		c.t.Logger.Warn("delivery failed, it will be repeated", "session", c.session, "error", err)
		timer := c.t.Clock.NewTimer(courierPauses[min(tries, len(courierPauses)-1)])
		tries++
		select {
		case <-timer.C():
		case <-c.ctx.Done():
			timer.Stop()
			c.giveUp(c.ctx.Err())
			return
		}
	}
}

// head is the oldest batch, nil if there is none: then the courier rests.
func (c *courier) head() *load {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) == 0 || c.ctx.Err() != nil {
		c.running = false
		c.signal()
		return nil
	}
	return c.queue[0]
}

// report notes how a delivery ended.
func (c *courier) report(b *load, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed = err
	if err == nil && len(c.queue) > 0 && c.queue[0] == b {
		c.queue = c.queue[1:]
	}
	c.signal()
}

func (c *courier) giveUp(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed, c.running = err, false
	c.signal()
}

func (c *courier) signal() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// deliveredItem notes that an item was delivered.
func (c *courier) deliveredItem(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.delivered[id] = true
}

func (c *courier) deliveredAll(ps []parcel) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range ps {
		c.delivered[p.item.ID] = true
	}
}

// drop counts an item as delivered that never can be.
func (c *courier) drop(id string) { c.deliveredItem(id) }

// takeDelivered is what was delivered since it was asked last.
func (c *courier) takeDelivered() map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.delivered
	c.delivered = map[string]bool{}
	return out
}

// tail is the last known tail of the event log.
func (c *courier) tail() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// idle reports whether nothing waits, and gives a channel that is closed when
// that may have changed.
func (c *courier) idle() (bool, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.queue) == 0, c.changed
}

// fatal is what can never be delivered, nil if all can.
func (c *courier) fatal() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.broken
	c.broken = nil
	return err
}

// stop waits for the courier to notice that the step has ended.
func (c *courier) stop() {
	c.mu.Lock()
	done := c.done
	c.mu.Unlock()
	if done != nil {
		<-done
	}
}
