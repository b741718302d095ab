package embedded

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	"github.com/iii-aws/harness/engine/queue"
)

// Queue is the queue port. What waits, is delayed and is in flight is known in
// memory; messages, ended receives, dead letters and configs lie in the file.
// Whatever a process held when it died is visible when the file is opened
// again, and the receive that it died in does not count. To end a message that
// ends every process, the file says that it is held before it is handed out,
// except the first time in the process that sent it, and enough such deaths in
// a row make it a dead letter.
type Queue struct {
	db *DB
	// epoch tells the receipts of this opening from those of earlier ones.
	epoch uint64

	mu       sync.Mutex
	lanes    map[string]*queueLane
	entries  map[uint64]*queueEntry // by number
	due      dueHeap
	receipts uint64
	// dying is what the next unlock makes dead letters of; burying is what is
	// being made.
	dying   []*queueEntry
	burying map[*queueEntry]struct{}
	// ended is the receives that the next unlock has stored.
	ended []endedReceive
	// wakeAt is when watchDue looks next.
	wakeAt time.Duration
	// earlier is signalled when it has to look sooner.
	earlier chan struct{}
}

var (
	_ queue.Queue    = (*Queue)(nil)
	_ queue.Releaser = (*Queue)(nil)
	_ queue.Batcher  = (*Queue)(nil)
)

// builtinQueues exist without being defined.
func builtinQueues() []queue.Config {
	return []queue.Config{
		queue.Config{Name: queue.DefaultQueue}.WithDefaults(),
		queue.Config{Name: queue.DeadLetterQueue, MaxReceives: 10, Internal: true}.WithDefaults(),
	}
}

func builtinQueue(name string) (queue.Config, bool) {
	for _, c := range builtinQueues() {
		if c.Name == name {
			return c, true
		}
	}
	return queue.Config{}, false
}

// OpenQueue makes the queue port of db; there may be one. It ends with db.
// Errors: *CorruptError, *state.StorageError.
func OpenQueue(ctx context.Context, db *DB) (*Queue, error) {
	q := &Queue{
		db: db, lanes: map[string]*queueLane{}, entries: map[uint64]*queueEntry{},
		burying: map[*queueEntry]struct{}{}, wakeAt: never, earlier: make(chan struct{}, 1),
	}
	for _, c := range builtinQueues() {
		q.lanes[c.Name] = newQueueLane(c)
	}
	opened := submit(db, "queue.open", nil, func(_ *bbolt.Tx, c *commitCtx) (uint64, error) {
		return c.next(queueBucket)
	})
	var err error
	if q.epoch, err = opened.Wait(ctx); err != nil {
		return nil, err
	}
	if err := db.view(ctx, "queue.load", q.load); err != nil {
		return nil, err
	}
	db.background.Add(1)
	go func() {
		defer db.background.Done()
		q.watchDue()
	}()
	return q, nil
}

// Config is a queue's config.
func (q *Queue) Config(name string) (queue.Config, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lanes[name]
	if l == nil {
		return queue.Config{}, false
	}
	return l.config, true
}

// Names is every queue, sorted.
func (q *Queue) Names() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Sorted(maps.Keys(q.lanes))
}

// Stats counts.
func (q *Queue) Stats(ctx context.Context, name string) (queue.Stats, error) {
	if err := q.flush(ctx); err != nil {
		return queue.Stats{}, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	l, err := q.lane(name)
	if err != nil {
		return queue.Stats{}, err
	}
	return queue.Stats{Depth: l.depth, InFlight: l.out, DeadLetters: l.dead}, nil
}

func (q *Queue) now() time.Duration { return q.db.clock.Monotonic() }

// lane is a queue by name; q.mu is held.
func (q *Queue) lane(name string) (*queueLane, error) {
	if l := q.lanes[name]; l != nil {
		return l, nil
	}
	return nil, &queue.UnknownError{Queue: name}
}

// receipt writes a receipt: epoch, number and a count of receives.
func (q *Queue) receipt(e *queueEntry) string {
	b := strconv.AppendUint(make([]byte, 0, 40), q.epoch, 36)
	b = strconv.AppendUint(append(b, '.'), e.number, 36)
	return string(strconv.AppendUint(append(b, '.'), e.receipt, 36))
}

// find is the entry of a receipt that no later receive has replaced, or nil;
// q.mu is held.
func (q *Queue) find(l *queueLane, receipt string) *queueEntry {
	parts := strings.Split(receipt, ".")
	if len(parts) != 3 {
		return nil
	}
	var n [3]uint64
	for i, p := range parts {
		var err error
		if n[i], err = strconv.ParseUint(p, 36, 64); err != nil {
			return nil
		}
	}
	e := q.entries[n[1]]
	if n[0] != q.epoch || e == nil || e.home != l || e.receipt == 0 || e.receipt != n[2] {
		return nil
	}
	return e
}
