package embedded

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"github.com/iii-aws/harness/engine/commit"
	"github.com/iii-aws/harness/engine/state"
)

// stateStore implements state.Store.
type stateStore struct{ db *DB }

// State is the port for state.
func (db *DB) State() state.Store { return stateStore{db} }

func stateWhat(key []byte) string {
	if p, ok := split(key, 2); ok {
		return fmt.Sprintf("state %q/%q", p[0], p[1])
	}
	return fmt.Sprintf("state %q", key)
}

// Get reads one key.
func (s stateStore) Get(ctx context.Context, key state.Key, _ ...state.ReadOption) (state.Item, bool, error) {
	if err := checkKey(key); err != nil {
		return state.Item{}, false, err
	}
	var f found
	ok := false
	now := s.db.clock.Now().UnixMilli()
	k := tuple(key.Scope, key.Key)
	err := s.db.view(ctx, "state.get", func(tx *bbolt.Tx) error {
		r, there, err := s.db.stateRecord(tx, k)
		if err != nil || !there || r.expired(now) {
			return err
		}
		f, ok = keep(k, r), true
		return nil
	})
	if err != nil || !ok {
		return state.Item{}, false, err
	}
	return s.item(ctx, key, f, now)
}

// stateRecord reads a record inside of a transaction.
func (db *DB) stateRecord(tx *bbolt.Tx, k []byte) (record, bool, error) {
	v := tx.Bucket(stateBucket).Get(k)
	if v == nil {
		return record{}, false, nil
	}
	r, err := decodeRecord(k, v)
	if err != nil {
		return record{}, true, &CorruptError{Path: db.path(), What: stateWhat(k), Err: err}
	}
	return r, true, nil
}

// item makes the item of a record, whose value may lie in a file.
func (s stateStore) item(ctx context.Context, key state.Key, f found, now int64) (state.Item, bool, error) {
	f, ok, err := s.db.fetch(ctx, "state.get", stateBucket, f, stateWhat)
	if err != nil || !ok || f.expired(now) {
		return state.Item{}, false, err
	}
	return stateItem(key, f.record, f.Value), true, nil
}

// items makes the items of records in their order.
func (s stateStore) items(ctx context.Context, list []found, now int64) ([]state.Item, error) {
	items := make([]state.Item, 0, len(list))
	for _, f := range list {
		p, ok := split(f.key, 2)
		if !ok {
			return nil, &CorruptError{Path: s.db.path(), What: stateWhat(f.key), Err: errRecord}
		}
		item, ok, err := s.item(ctx, state.Key{Scope: p[0], Key: p[1]}, f, now)
		if err != nil {
			return nil, err
		}
		if ok {
			items = append(items, item)
		}
	}
	return items, nil
}

// List is the items of a scope in key order.
func (s stateStore) List(ctx context.Context, scope string, o state.ListOptions) ([]state.Item, error) {
	if err := checkName("scope", scope, maxScope); err != nil {
		return nil, err
	}
	var list []found
	now := s.db.clock.Now().UnixMilli()
	err := s.db.view(ctx, "state.list", func(tx *bbolt.Tx) error {
		start := tuple(scope, o.Prefix)
		from := start
		if after := tuple(scope, o.After); o.After != "" && bytes.Compare(after, start) >= 0 {
			from = append(after, 0) // the first possible key behind it
		}
		c := tx.Bucket(stateBucket).Cursor()
		for k, v := c.Seek(from); k != nil && bytes.HasPrefix(k, start); k, v = c.Next() {
			r, err := decodeRecord(k, v)
			if err != nil {
				return &CorruptError{Path: s.db.path(), What: stateWhat(k), Err: err}
			}
			if r.expired(now) {
				continue
			}
			list = append(list, keep(k, r))
			if o.Limit > 0 && len(list) == o.Limit {
				break
			}
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	return s.items(ctx, list, now)
}

// Groups is every scope that holds an item.
func (s stateStore) Groups(ctx context.Context) ([]string, error) {
	groups := []string{}
	now := s.db.clock.Now().UnixMilli()
	err := s.db.view(ctx, "state.groups", func(tx *bbolt.Tx) error {
		c := tx.Bucket(stateBucket).Cursor()
		for k, v := c.First(); k != nil; {
			r, err := decodeRecord(k, v)
			scope, ok := firstPart(k)
			if err != nil || !ok {
				return &CorruptError{Path: s.db.path(), What: stateWhat(k), Err: errRecord}
			}
			if r.expired(now) {
				k, v = c.Next()
				continue
			}
			groups = append(groups, scope)
			k, v = c.Seek(behind(prefix(scope)))
		}
		return ctx.Err()
	})
	return groups, err
}

// Due is the items of a scope whose Due is not after t, oldest first; those of
// the same time in key order. Limit 0 means all.
func (s stateStore) Due(ctx context.Context, scope string, t time.Time, limit int) ([]state.Item, error) {
	if err := checkName("scope", scope, maxScope); err != nil {
		return nil, err
	}
	var list []found
	now := s.db.clock.Now().UnixMilli()
	until := t.UnixMilli()
	err := s.db.view(ctx, "state.due", func(tx *bbolt.Tx) error {
		start := prefix(scope)
		c := tx.Bucket(dueBucket).Cursor()
		for k, _ := c.Seek(start); k != nil && bytes.HasPrefix(k, start); k, _ = c.Next() {
			due, key, ok := takeTime(k[len(start):])
			if !ok {
				return &CorruptError{Path: s.db.path(), What: fmt.Sprintf("due index of %q", scope), Err: errRecord}
			}
			if due > until {
				break
			}
			item := tuple(scope, string(key))
			r, there, err := s.db.stateRecord(tx, item)
			if err != nil {
				return err
			}
			if !there || r.Due != due || r.expired(now) {
				continue
			}
			list = append(list, keep(item, r))
			if limit > 0 && len(list) == limit {
				break
			}
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	return s.items(ctx, list, now)
}

// Watch signals after changes of the key.
func (s stateStore) Watch(ctx context.Context, key state.Key) <-chan struct{} {
	return s.db.stateWatch.watch(ctx, string(tuple(key.Scope, key.Key)))
}

// Submit applies the writes all or none.
func (s stateStore) Submit(ctx context.Context, writes []state.Write, after ...commit.Ticket) *state.Pending {
	if err := ctx.Err(); err != nil {
		return commit.Resolved[[]state.Change](nil, err)
	}
	if err := checkWrites(writes); err != nil {
		return commit.Resolved[[]state.Change](nil, err)
	}
	t := &stateTx{db: s.db, writes: slices.Clone(writes)}
	if !t.large() {
		return submit(s.db, "state.submit", after, t.run)
	}
	return submitPrepared(s.db, "state.submit", after, t.prepare, t.undo, t.run)
}
