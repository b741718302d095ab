package embedded

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/engine/stream"
)

// feedEntry is a row that is ready to be written.
type feedEntry struct {
	feed *Feed
	lane string
	rec  record
}

// planFeed makes the entry of a row. It belongs to the checks of an operation.
func (c *commitCtx) planFeed(row FeedRow) (feedEntry, error) {
	payload, err := encodeFeedRow(row)
	if err != nil {
		return feedEntry{}, &state.StorageError{Op: "feed", Err: err}
	}
	e := feedEntry{feed: c.db.Feed(row.Kind), lane: row.lane(), rec: record{Version: 1, Value: payload}}
	return e, c.spill(&e.rec)
}

// putFeed writes entries and hands them to their feeds after the commit.
func (c *commitCtx) putFeed(rows []feedEntry) error {
	for i := range rows {
		e := &rows[i]
		id, err := c.next(feedBucket)
		if err != nil {
			return err
		}
		if err := c.putRecord(feedBucket, feedKey(id), &e.rec, nil); err != nil {
			return err
		}
		c.afterCommit(func() { e.feed.push(e.lane, laneRow{id: id}) })
	}
	return nil
}

// dropFeed removes a row.
func (c *commitCtx) dropFeed(tx *bbolt.Tx, id uint64) error {
	key := feedKey(id)
	v := tx.Bucket(feedBucket).Get(key)
	if v == nil {
		return nil
	}
	r, err := decodeRecord(key, v)
	if err != nil {
		r = record{} // a damaged row is removed as well
	}
	return c.dropRecord(feedBucket, key, &r)
}

func feedWhat(key []byte) string { return fmt.Sprintf("change feed row %x", key) }

// feedRow reads a stored row.
func (db *DB) feedRow(ctx context.Context, id uint64) (FeedRow, error) {
	key := feedKey(id)
	var f found
	err := db.view(ctx, "feed.read", func(tx *bbolt.Tx) error {
		r, err := decodeRecord(key, tx.Bucket(feedBucket).Get(key))
		if err != nil {
			return &CorruptError{Path: db.path(), What: feedWhat(key), Err: err}
		}
		f = keep(key, r)
		return nil
	})
	if err != nil {
		return FeedRow{}, err
	}
	f, ok, err := db.fetch(ctx, "feed.read", feedBucket, f, feedWhat)
	if err == nil && !ok {
		err = &CorruptError{Path: db.path(), What: feedWhat(key), Err: errRecord}
	}
	if err != nil {
		return FeedRow{}, err
	}
	row, err := decodeFeedRow(f.Value)
	if err != nil {
		return FeedRow{}, &CorruptError{Path: db.path(), What: feedWhat(key), Err: err}
	}
	row.ID = id
	return row, nil
}

// loadFeeds queues the rows that were not done when the file was closed.
func (db *DB) loadFeeds() error {
	var ids []uint64
	err := db.view(context.Background(), "feed.load", func(tx *bbolt.Tx) error {
		return tx.Bucket(feedBucket).ForEach(func(k, _ []byte) error {
			if len(k) != 8 {
				return &CorruptError{Path: db.path(), What: feedWhat(k), Err: errRecord}
			}
			ids = append(ids, binary.BigEndian.Uint64(k))
			return nil
		})
	})
	if err != nil {
		return err
	}
	for _, id := range ids {
		row, err := db.feedRow(context.Background(), id)
		if err != nil {
			return err
		}
		db.Feed(row.Kind).push(row.lane(), laneRow{id: id})
	}
	return nil
}

// lane is within what a row keeps its order.
func (r FeedRow) lane() string {
	if r.Kind == FeedState {
		return string(tuple(r.Change.Scope, r.Change.Key.Key))
	}
	return string(tuple(r.Event.Stream, r.Event.Group))
}

// encodeFeedRow gives the stored form. Values are kept to the byte.
func encodeFeedRow(row FeedRow) ([]byte, error) {
	var b []byte
	var origin state.Origin
	switch row.Kind {
	case FeedState:
		ch := row.Change
		opErrors, err := json.Marshal(ch.OpErrors)
		if err != nil {
			return nil, err
		}
		origin = ch.Origin
		b = append(b, 's')
		b = appendText(b, string(ch.Type))
		b = appendText(b, ch.Scope)
		b = appendText(b, ch.Key.Key)
		b = binary.AppendVarint(b, ch.Version)
		b = appendValue(b, ch.Old)
		b = appendValue(b, ch.New)
		b = appendValue(b, opErrors)
	case FeedStream:
		e := row.Event
		origin = e.Origin
		b = append(b, 'e')
		b = appendText(b, string(e.Kind))
		b = appendText(b, e.Stream)
		b = appendText(b, e.Group)
		b = appendText(b, e.Item)
		b = binary.AppendVarint(b, millis(e.At))
		b = appendText(b, e.By)
		b = appendValue(b, e.Data)
	}
	text, err := json.Marshal(origin)
	return appendValue(b, text), err
}

// decodeFeedRow is the inverse of encodeFeedRow. Values point into b.
func decodeFeedRow(b []byte) (FeedRow, error) {
	if len(b) == 0 {
		return FeedRow{}, errRecord
	}
	in := reader{b: b[1:]}
	var row FeedRow
	var origin *state.Origin
	switch b[0] {
	case 's':
		ch := &state.Change{Type: state.EventType(in.text()), Key: state.Key{Scope: in.text(), Key: in.text()}}
		ch.Version = in.varint()
		ch.Old, ch.New = in.value(), in.value()
		if err := json.Unmarshal(orNull(in.value()), &ch.OpErrors); err != nil {
			return FeedRow{}, errRecord
		}
		row, origin = FeedRow{Kind: FeedState, Change: ch}, &ch.Origin
	case 'e':
		e := &stream.Event{Kind: stream.EventKind(in.text()), Key: stream.Key{Stream: in.text(), Group: in.text(), Item: in.text()}}
		e.At = clock.FromMillis(in.varint())
		e.By = in.text()
		e.Data = in.value()
		row, origin = FeedRow{Kind: FeedStream, Event: e}, &e.Origin
	default:
		return FeedRow{}, errRecord
	}
	if err := json.Unmarshal(orNull(in.value()), origin); err != nil || in.bad {
		return FeedRow{}, errRecord
	}
	return row, nil
}

// appendValue appends a value that may be absent.
func appendValue(b []byte, v []byte) []byte {
	if v == nil {
		return append(b, 0)
	}
	b = append(b, 1)
	return append(binary.AppendUvarint(b, uint64(len(v))), v...)
}

// value is the inverse of appendValue.
func (r *reader) value() json.RawMessage {
	if len(r.b) == 0 {
		r.fail()
		return nil
	}
	there := r.b[0] != 0
	r.b = r.b[1:]
	if !there {
		return nil
	}
	return json.RawMessage(r.bytes())
}
