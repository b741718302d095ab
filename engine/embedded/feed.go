package embedded

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	"github.com/iii-aws/harness/engine/commit"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/engine/stream"
)

// FeedKind names a change feed.
type FeedKind string

// The change feeds.
const (
	FeedState  FeedKind = "state"
	FeedStream FeedKind = "stream"
)

// FeedRow is one change that a trigger waits for.
type FeedRow struct {
	ID   uint64
	Kind FeedKind
	// Change is set in the feed of the state, Event in that of the streams.
	Change *state.Change
	Event  *stream.Event
	// Deliveries counts how often this process has handed the row out; it
	// starts at 1.
	Deliveries int
}

// maxEphemeral bounds the ephemeral events that wait in memory.
const maxEphemeral = 4096

// Feed hands out the changes of triggered keys, at least once.
//
// A row is written in the commit of its change, if the key was triggered then
// (SetTriggered), and handed out again after a restart until it is Done. The
// rows of one state key, or of one stream group, are handed out in the order
// of their commits and one at a time; rows of different keys may be handled
// side by side. Ephemeral stream events live in memory only. An item that
// expires gives no row.
type Feed struct {
	db   *DB
	kind FeedKind

	mu    sync.Mutex
	lanes map[string]*lane
	// ready are the lanes whose first row can be handed out, oldest first.
	ready         []*lane
	out           map[uint64]*lane
	ephemeral     int
	lastEphemeral uint64
	wake          chan struct{}
}

// lane is the rows of one key that are not done.
type lane struct {
	key  string
	rows []laneRow
}

type laneRow struct {
	id         uint64
	deliveries int
	event      *stream.Event // an ephemeral one, which is not stored
}

// triggered says which changes go to the feeds.
type triggered struct {
	state  func(scope, key string) bool
	stream func(stream, group string) bool
}

// SetTriggered says which changes are written to the feeds from now on; nil
// means none. The functions are asked within the commit: they must be quick
// and must not call the DB.
func (db *DB) SetTriggered(stateKey func(scope, key string) bool, streamGroup func(stream, group string) bool) {
	db.triggered.Store(&triggered{stateKey, streamGroup})
}

func (db *DB) stateTriggered(k state.Key) bool {
	t := db.triggered.Load()
	return t != nil && t.state != nil && t.state(k.Scope, k.Key)
}

func (db *DB) streamTriggered(name, group string) bool {
	t := db.triggered.Load()
	return t != nil && t.stream != nil && t.stream(name, group)
}

// Feed is the change feed of a kind; nil for an unknown one.
func (db *DB) Feed(kind FeedKind) *Feed {
	switch kind {
	case FeedState:
		return db.stateFeed
	case FeedStream:
		return db.streamFeed
	}
	return nil
}

func newFeed(db *DB, kind FeedKind) *Feed {
	return &Feed{
		db:    db,
		kind:  kind,
		lanes: make(map[string]*lane),
		out:   make(map[uint64]*lane),
		wake:  make(chan struct{}, 1),
	}
}

// Next waits for a row. It belongs to the caller, and the later rows of its
// key wait, until Done or Retry. Errors: that of ctx and *state.StorageError
// (a closed DB is ErrClosed in its chain), after which the row is still there.
// A damaged row is logged and left out.
func (f *Feed) Next(ctx context.Context) (FeedRow, error) {
	for {
		if first, ok := f.claim(); ok {
			row, err := f.read(ctx, first)
			var damaged *CorruptError
			switch {
			case err == nil:
				return row, nil
			case errors.As(err, &damaged):
				// It stays in the file; the rows behind it must go on.
				f.db.logger.Error("change feed row is lost", "alarm", "feed_row_damaged", "error", err)
				f.advance(f.take(first.id))
				continue
			}
			f.release(f.take(first.id))
			return FeedRow{}, err
		}
		select {
		case <-f.wake:
		case <-ctx.Done():
			return FeedRow{}, ctx.Err()
		case <-f.db.closing:
			return FeedRow{}, &state.StorageError{Op: "feed.next", Err: ErrClosed}
		}
	}
}

// claim takes the oldest ready lane and gives its first row.
func (f *Feed) claim() (laneRow, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.ready) == 0 {
		return laneRow{}, false
	}
	l := f.ready[0]
	f.ready[0] = nil
	f.ready = f.ready[1:]
	l.rows[0].deliveries++
	f.out[l.rows[0].id] = l
	if len(f.ready) > 0 {
		f.signal()
	}
	return l.rows[0], true
}

// read gives a claimed row.
func (f *Feed) read(ctx context.Context, first laneRow) (FeedRow, error) {
	if first.event != nil {
		return FeedRow{ID: first.id, Kind: f.kind, Event: first.event, Deliveries: first.deliveries}, nil
	}
	row, err := f.db.feedRow(ctx, first.id)
	row.Deliveries = first.deliveries
	return row, err
}

// take ends the claim of a row; nil if it is not claimed.
func (f *Feed) take(id uint64) *lane {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.out[id]
	delete(f.out, id)
	return l
}

// release makes a lane ready again, at the end of the line.
func (f *Feed) release(l *lane) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ready = append(f.ready, l)
	f.signal()
}

// Done ends a row. The promise need not be waited for: if it fails, or the
// process ends within the next moments, the row is handed out again after a
// restart. An unknown id is no error.
func (f *Feed) Done(id uint64) *commit.Promise[struct{}] {
	l := f.take(id)
	if l == nil || !f.advance(l) {
		return commit.Resolved(struct{}{}, nil)
	}
	return submitLazy(f.db, "feed.done", nil, func(tx *bbolt.Tx, c *commitCtx) (struct{}, error) {
		return struct{}{}, c.dropFeed(tx, id)
	})
}

// advance drops the first row of a lane and tells whether it is stored.
func (f *Feed) advance(l *lane) (stored bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	first := l.rows[0]
	if first.event != nil {
		f.ephemeral--
	}
	l.rows = l.rows[1:]
	if len(l.rows) > 0 {
		f.ready = append(f.ready, l)
		f.signal()
	} else {
		delete(f.lanes, l.key)
	}
	return first.event == nil
}

// Retry hands a row out again after a delay; its key waits so long. An unknown
// id is no error.
func (f *Feed) Retry(id uint64, delay time.Duration) {
	l := f.take(id)
	if l == nil {
		return
	}
	if delay <= 0 {
		f.release(l)
		return
	}
	timer := f.db.clock.NewTimer(delay)
	go func() {
		defer timer.Stop()
		select {
		case <-timer.C():
			f.release(l)
		case <-f.db.closing:
		}
	}()
}

// push adds a row at the end of its lane.
func (f *Feed) push(key string, row laneRow) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.add(key, row)
}

func (f *Feed) add(key string, row laneRow) {
	l := f.lanes[key]
	if l == nil {
		l = &lane{key: key}
		f.lanes[key] = l
		f.ready = append(f.ready, l)
		f.signal()
	}
	l.rows = append(l.rows, row)
}

// pushEphemeral adds an event that is not stored; false if too many wait.
func (f *Feed) pushEphemeral(e *stream.Event) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ephemeral >= maxEphemeral {
		return false
	}
	f.ephemeral++
	f.lastEphemeral++
	// The ids of stored rows never come that high.
	f.add(string(tuple(e.Stream, e.Group)), laneRow{id: 1<<63 | f.lastEphemeral, event: e})
	return true
}

func (f *Feed) signal() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// Waiting is the number of rows that are not done.
func (f *Feed) Waiting() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, l := range f.lanes {
		n += len(l.rows)
	}
	return n
}

func feedKey(id uint64) []byte { return binary.BigEndian.AppendUint64(nil, id) }
