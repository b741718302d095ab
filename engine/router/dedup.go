package router

import (
	"hash/maphash"
	"sync"
	"time"

	"github.com/iii-aws/harness/engine/clock"
)

// dedupWindow is how long a repeat of an answered call still finds it.
const dedupWindow = 60 * time.Second

// generations is how many sets of answered calls there are; each takes in those of a third of the window.
const (
	generations      = 4
	generationLength = dedupWindow / (generations - 1)
)

// dedupKey is an invocation id as one caller uses it: nobody can learn the result of another's call by its id.
type dedupKey struct{ caller, id string }

// dedup knows the calls that are under way and those of the last minute. Answered calls are known by a hash of 64 bits,
// so that a busy minute stays small: that one of a million calls is taken for a repeat has odds of one to 10^7.
type dedup struct {
	clock clock.Clock
	limit int
	seed  maphash.Seed

	mu      sync.Mutex
	current map[dedupKey]*call
	recent  [generations]generation // newest first
	bytes   int                     // of the results that are kept
}

type generation struct {
	since time.Duration
	ended map[uint64]*past
	bytes int
}

// past is how an answered call ended; nil instead if that is no longer kept.
type past struct {
	function string
	outcome
}

func newDedup(c clock.Clock, limit int) *dedup {
	d := &dedup{clock: c, limit: limit, seed: maphash.MakeSeed(), current: map[dedupKey]*call{}}
	d.recent[0] = generation{since: c.Monotonic(), ended: map[uint64]*past{}}
	return d
}

func (d *dedup) hash(k dedupKey) uint64 { return maphash.Comparable(d.seed, k) }

// begin notes a call. If it is a repeat, first is the call under way, or last is how the answered one ended, with kept
// false if its result is gone.
func (d *dedup) begin(c *call) (first *call, last *past, repeat bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.turn()
	if first := d.current[*c.key]; first != nil {
		return first, nil, true
	}
	h := d.hash(*c.key)
	for i := range d.recent {
		if last, ok := d.recent[i].ended[h]; ok {
			return nil, last, true
		}
	}
	d.current[*c.key] = c
	return nil, nil, false
}

// finish notes the end of a call, with its result if that may be kept.
func (d *dedup) finish(c *call, out outcome, keep bool) {
	if c.key == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.current[*c.key] != c {
		return
	}
	delete(d.current, *c.key)
	d.turn()
	g := &d.recent[0]
	size := len(out.result) + 64
	if !keep || d.bytes+size > d.limit {
		g.ended[d.hash(*c.key)] = nil
		return
	}
	g.ended[d.hash(*c.key)] = &past{function: c.FunctionID, outcome: out}
	g.bytes += size
	d.bytes += size
}

// cancel forgets a call that was given to nobody: a repeat may run.
func (d *dedup) cancel(c *call) {
	if c.key == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.current[*c.key] == c {
		delete(d.current, *c.key)
	}
}

// turn starts new generations as time goes by. The caller holds mu.
func (d *dedup) turn() {
	now := d.clock.Monotonic()
	if now-d.recent[0].since >= dedupWindow+generationLength {
		d.recent = [generations]generation{{since: now, ended: map[uint64]*past{}}}
		d.bytes = 0
		return
	}
	for now-d.recent[0].since >= generationLength {
		d.bytes -= d.recent[generations-1].bytes
		copy(d.recent[1:], d.recent[:generations-1])
		d.recent[0] = generation{since: d.recent[1].since + generationLength, ended: map[uint64]*past{}}
	}
}
