package embedded

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/engine/stream"
)

// streamStore implements stream.Store.
type streamStore struct{ db *DB }

// Streams is the port for streams.
func (db *DB) Streams() stream.Store { return streamStore{db} }

func streamWhat(key []byte) string {
	if p, ok := split(key, 3); ok {
		return fmt.Sprintf("stream item %q/%q/%q", p[0], p[1], p[2])
	}
	return fmt.Sprintf("stream item %q", key)
}

func checkGroup(name, group string) error {
	if err := checkName("stream_name", name, maxScope); err != nil {
		return err
	}
	return checkName("group_id", group, maxScope)
}

func checkItem(k stream.Key) error {
	if err := checkGroup(k.Stream, k.Group); err != nil {
		return err
	}
	return checkName("item_id", k.Item, maxKey)
}

// streamRecord reads a record inside of a transaction.
func (db *DB) streamRecord(tx *bbolt.Tx, key []byte) (record, bool, error) {
	v := tx.Bucket(streamBucket).Get(key)
	if v == nil {
		return record{}, false, nil
	}
	r, err := decodeRecord(key, v)
	if err != nil {
		return record{}, true, &CorruptError{Path: db.path(), What: streamWhat(key), Err: err}
	}
	return r, true, nil
}

// Get reads one item.
func (s streamStore) Get(ctx context.Context, k stream.Key) (stream.Item, bool, error) {
	if err := checkItem(k); err != nil {
		return stream.Item{}, false, err
	}
	var f found
	ok := false
	key := tuple(k.Stream, k.Group, k.Item)
	err := s.db.view(ctx, "stream.get", func(tx *bbolt.Tx) error {
		r, there, err := s.db.streamRecord(tx, key)
		if err == nil && there {
			f, ok = keep(key, r), true
		}
		return err
	})
	if err != nil || !ok {
		return stream.Item{}, false, err
	}
	return s.item(ctx, k, f)
}

func (s streamStore) item(ctx context.Context, k stream.Key, f found) (stream.Item, bool, error) {
	f, ok, err := s.db.fetch(ctx, "stream.get", streamBucket, f, streamWhat)
	if err != nil || !ok {
		return stream.Item{}, false, err
	}
	return stream.Item{Key: k, Data: json.RawMessage(f.Value), EventID: f.EventID, By: f.By, At: clock.FromMillis(f.At)}, true, nil
}

// items makes the items of records of one group, in their order.
func (s streamStore) items(ctx context.Context, name, group string, list []found) ([]stream.Item, error) {
	items := make([]stream.Item, 0, len(list))
	start := len(prefix(name, group))
	for _, f := range list {
		item, ok, err := s.item(ctx, stream.Key{Stream: name, Group: group, Item: string(f.key[start:])}, f)
		if err != nil {
			return nil, err
		}
		if ok {
			items = append(items, item)
		}
	}
	return items, nil
}

// List is all items of a group in id order.
func (s streamStore) List(ctx context.Context, name, group string) ([]stream.Item, error) {
	if err := checkGroup(name, group); err != nil {
		return nil, err
	}
	var list []found
	err := s.db.view(ctx, "stream.list", func(tx *bbolt.Tx) error {
		start := prefix(name, group)
		c := tx.Bucket(streamBucket).Cursor()
		for k, v := c.Seek(start); k != nil && bytes.HasPrefix(k, start); k, v = c.Next() {
			r, err := decodeRecord(k, v)
			if err != nil {
				return &CorruptError{Path: s.db.path(), What: streamWhat(k), Err: err}
			}
			list = append(list, keep(k, r))
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	return s.items(ctx, name, group, list)
}

// Groups is the groups of a stream.
func (s streamStore) Groups(ctx context.Context, name string) ([]string, error) {
	if err := checkName("stream_name", name, maxScope); err != nil {
		return nil, err
	}
	return s.names(ctx, "stream.groups", prefix(name))
}

// Streams is every stream that holds an item.
func (s streamStore) Streams(ctx context.Context) ([]string, error) {
	return s.names(ctx, "stream.streams", nil)
}

// names is the different names that follow start in the keys.
func (s streamStore) names(ctx context.Context, op string, start []byte) ([]string, error) {
	names := []string{}
	err := s.db.view(ctx, op, func(tx *bbolt.Tx) error {
		c := tx.Bucket(streamBucket).Cursor()
		for k, _ := c.Seek(start); k != nil && bytes.HasPrefix(k, start); {
			name, ok := firstPart(k[len(start):])
			if !ok {
				return &CorruptError{Path: s.db.path(), What: streamWhat(k), Err: errRecord}
			}
			names = append(names, name)
			next := append(bytes.Clone(start), name...)
			k, _ = c.Seek(append(next, separator+1))
		}
		return ctx.Err()
	})
	return names, err
}

// Watch signals after writes to the group.
func (s streamStore) Watch(ctx context.Context, name, group string) <-chan struct{} {
	return s.db.streamWatch.watch(ctx, string(tuple(name, group)))
}

// Send fires an event that is not stored: if something is triggered by the
// group it waits in memory for its feed, else it is forgotten. Errors: a
// retryable *state.StorageError if too many wait.
func (s streamStore) Send(ctx context.Context, e stream.Event) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := checkGroup(e.Stream, e.Group); err != nil {
		return err
	}
	if err := checkValue(state.Key{Scope: e.Stream, Key: e.Group}, e.Data); err != nil {
		return err
	}
	if !s.db.streamTriggered(e.Stream, e.Group) {
		return nil
	}
	e.Kind = stream.Ephemeral
	if e.At.IsZero() {
		e.At = s.db.clock.Now()
	}
	e.At = e.At.UTC().Truncate(time.Millisecond)
	if !s.db.streamFeed.pushEphemeral(&e) {
		return &state.StorageError{Op: "stream.send", Retry: true, Err: errBacklog}
	}
	return nil
}
