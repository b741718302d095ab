package embedded

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	"github.com/iii-aws/harness/engine/state"
)

// sweepEvery is how often expired records are removed while something is being
// written. They count as absent anyway; an idle DB does nothing.
const sweepEvery = time.Minute

// sweepBatch is how many records one commit of a sweep removes.
const sweepBatch = 256

// What an entry of the expiry index is about.
const (
	expiryState = 's'
	expiryBlob  = 'b'
)

type sweeper struct {
	mu      sync.Mutex
	last    time.Time
	running bool
}

// expiring is an entry of the expiry index.
type expiring struct {
	index []byte
	kind  byte
	key   []byte
}

// sweepLater sweeps in the background if it is time.
func (db *DB) sweepLater() {
	now := db.clock.Now()
	s := &db.sweeper
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running || now.Sub(s.last) < sweepEvery && !now.Before(s.last) {
		return
	}
	s.last = now
	s.running = db.spawn(func() {
		if _, err := db.Sweep(context.Background()); err != nil && !errors.Is(err, ErrClosed) {
			db.logger.Warn("sweep of expired records failed", "error", err)
		}
		s.mu.Lock()
		s.running = false
		s.mu.Unlock()
	})
}

// Sweep removes what has expired and answers how much that was. It also runs
// by itself, about once a minute while something is being written.
func (db *DB) Sweep(ctx context.Context) (removed int, err error) {
	var after []byte
	for {
		due, err := db.expired(ctx, after)
		if err != nil || len(due) == 0 {
			return removed, err
		}
		after = due[len(due)-1].index
		n, err := db.removeExpired(ctx, due)
		removed += n
		if err != nil {
			return removed, err
		}
	}
}

// expired is the next entries of the index whose time has come.
func (db *DB) expired(ctx context.Context, after []byte) ([]expiring, error) {
	var due []expiring
	now := db.clock.Now().UnixMilli()
	err := db.view(ctx, "sweep", func(tx *bbolt.Tx) error {
		c := tx.Bucket(expiryBucket).Cursor()
		for k, _ := c.Seek(after); k != nil && len(due) < sweepBatch; k, _ = c.Next() {
			at, rest, ok := takeTime(k)
			if !ok || len(rest) == 0 {
				return &CorruptError{Path: db.path(), What: "expiry index", Err: errRecord}
			}
			if at > now {
				return nil
			}
			if bytes.Equal(k, after) {
				continue
			}
			due = append(due, expiring{index: bytes.Clone(k), kind: rest[0], key: bytes.Clone(rest[1:])})
		}
		return nil
	})
	return due, err
}

func (db *DB) removeExpired(ctx context.Context, due []expiring) (removed int, err error) {
	removed, err = submit(db, "sweep", nil, func(tx *bbolt.Tx, c *commitCtx) (int, error) {
		return db.removeExpiredState(tx, c, due)
	}).Wait(ctx)
	for _, e := range due {
		if err != nil {
			return removed, err
		}
		if e.kind == expiryBlob {
			var ok bool
			if ok, err = db.removeBlob(ctx, string(e.key), true); ok {
				removed++
			}
		}
	}
	return removed, err
}

func (db *DB) removeExpiredState(tx *bbolt.Tx, c *commitCtx, due []expiring) (int, error) {
	now := c.now().UnixMilli()
	type doomed struct {
		expiring
		id  state.Key
		rec record
	}
	var list []doomed
	for _, e := range due {
		if e.kind != expiryState {
			continue
		}
		r, there, err := db.stateRecord(tx, e.key)
		p, ok := split(e.key, 2)
		if err != nil || !there || !ok || !r.expired(now) {
			continue // damaged records are for those who read them
		}
		list = append(list, doomed{e, state.Key{Scope: p[0], Key: p[1]}, r})
	}
	for i := range list {
		d := &list[i]
		if err := c.unindexState(d.id, &d.rec); err != nil {
			return 0, err
		}
		if err := c.dropRecord(stateBucket, d.key, &d.rec); err != nil {
			return 0, err
		}
		c.afterCommit(func() { db.stateWatch.notify(d.key) })
	}
	return len(list), nil
}
