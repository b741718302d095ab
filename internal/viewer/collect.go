package viewer

import (
	"context"
	"errors"
	"fmt"
	"sort"

	"github.com/iii-aws/harness/engine/bus"
)

var (
	errAtRest = errors.New("viewer: nothing to post")
	errEnded  = errors.New("viewer: the subscription has ended")
)

// entryOverhead is what an entry of a batch has besides its event.
const entryOverhead = 64

// collected is one push, and how far the viewer is when it was made.
type collected struct {
	entries []entry
	size    int
	limit   int // of entries
	epoch   string
	at      spot
	logs    int
}

// add takes an entry if it fits; the first always does.
func (b *collected) add(e entry) bool {
	size := len(e.event) + entryOverhead
	if len(b.entries) > 0 && (len(b.entries) >= b.limit || b.size+size > FrameBytes) {
		return false
	}
	b.entries = append(b.entries, e)
	b.size += size
	return true
}

// begin starts a push from where the viewer is.
func (p *pump) begin() collected {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.woken = false
	b := collected{limit: 1, epoch: p.s.head.Epoch, at: p.at, logs: p.logs}
	if p.row.Batch && !p.single {
		b.limit = readItems
	}
	return b
}

// collect gathers the next push: one entry, or what fits into a batch. If there
// is nothing it puts the pump to rest and returns errAtRest.
func (p *pump) collect(ctx context.Context) (collected, error) {
	b := p.begin()
	for {
		at := b.at
		through, delta, err := p.plan(&at, len(b.entries) == 0)
		switch {
		case err != nil:
			return b, err
		case delta != nil:
			if !b.add(*delta) {
				return b, nil
			}
			b.at = at
			continue
		case through < at.next: // nothing more
			return b, nil
		}
		b.at = at
		full, err := p.events(ctx, &b, through)
		if err != nil && len(b.entries) == 0 {
			return b, err
		}
		if full || err != nil {
			return b, nil
		}
	}
}

// plan decides what comes next: a delta, or the events up to a sequence (none
// if that is before the viewer's next). If there is nothing, and nothing was
// gathered yet, it puts the pump to rest and returns errAtRest.
func (p *pump) plan(at *spot, first bool) (through int64, delta *entry, err error) {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.gone {
		return 0, nil, errEnded
	}
	through = s.head.Tail
	if !p.eventsOnly {
		at.enter(s.draft)
		if at.wants(s.open()) {
			if at.next <= s.draft.after {
				return s.draft.after, nil, nil
			}
			if u, ok := at.take(); ok {
				event, err := bus.Encode(u)
				if err != nil {
					return 0, nil, fmt.Errorf("viewer: encode delta: %w", err)
				}
				return 0, &entry{seq: -1, rev: u.Rev, event: event}, nil
			}
		}
	}
	if first && at.next > through {
		p.at = *at
		p.rest()
		return 0, nil, errAtRest
	}
	return through, nil, nil
}

// events adds the events up to a sequence, as far as one read of the log and
// the push go. It reports whether the push is full.
func (p *pump) events(ctx context.Context, b *collected, through int64) (full bool, err error) {
	got, err := p.s.read(ctx, b.at.next)
	if err != nil {
		return false, err
	}
	got = got[:sort.Search(len(got), func(i int) bool { return got[i].seq > through })]
	if len(got) == 0 { // they were deleted
		b.at.next = through + 1
		return false, nil
	}
	for _, e := range got {
		if !b.add(e) {
			return true, nil
		}
		b.at.next = e.seq + 1
	}
	return false, nil
}
