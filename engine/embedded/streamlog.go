package embedded

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"go.etcd.io/bbolt"

	"github.com/iii-aws/harness/engine/stream"
)

// maxLog is how many events a log holds: as many as its item ids can count and
// still sort.
const maxLog = 100_000_000

// logItem is the item id of an event.
func logItem(group string, seq int64) string { return fmt.Sprintf("%s-%08d", group, seq) }

// logSeq is the inverse of logItem.
func logSeq(group, item string) (int64, bool) {
	digits, ok := strings.CutPrefix(item, group+"-")
	if !ok || len(digits) != 8 {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 32)
	return int64(n), err == nil
}

// logHead is the stored part of a log's head. The tail is that of the items;
// floor is below it unless the last items were deleted one by one, whose
// numbers must not come again.
type logHead struct {
	epoch string
	floor int64
}

func (h logHead) encode(key []byte) []byte {
	b := binary.AppendVarint(nil, h.floor)
	rec := record{Version: 1, Value: append(b, h.epoch...)}
	return rec.encode(key)
}

func decodeLogHead(key, data []byte) (logHead, error) {
	rec, err := decodeRecord(key, data)
	if err != nil {
		return logHead{}, err
	}
	in := reader{b: rec.Value}
	h := logHead{floor: in.varint(), epoch: string(in.b)}
	if in.bad || h.epoch == "" {
		return logHead{}, errRecord
	}
	return h, nil
}

// log is a log inside of a transaction.
type log struct {
	key   []byte
	group string
	items []byte // what the keys of its items start with
	head  logHead
	there bool
	// tail is the last sequence number that was given, -1 if none was.
	tail int64
}

func (db *DB) openLog(tx *bbolt.Tx, name, group string) (log, error) {
	l := log{key: tuple(name, group), group: group, items: prefix(name, group), tail: -1}
	if v := tx.Bucket(logBucket).Get(l.key); v != nil {
		head, err := decodeLogHead(l.key, v)
		if err != nil {
			return log{}, &CorruptError{Path: db.path(), What: fmt.Sprintf("event log %q/%q", name, group), Err: err}
		}
		l.head, l.there = head, true
		l.tail = head.floor
	}
	if last, ok := l.last(tx); ok {
		l.tail = max(l.tail, last)
	}
	return l, nil
}

// item is the key of an event.
func (l *log) item(seq int64) []byte {
	return append(bytes.Clone(l.items), logItem(l.group, seq)...)
}

// seq is the sequence number of the item with that key.
func (l *log) seq(key []byte) (int64, bool) {
	item, ok := bytes.CutPrefix(key, l.items)
	if !ok {
		return 0, false
	}
	return logSeq(l.group, string(item))
}

// last finds the item with the highest number.
func (l *log) last(tx *bbolt.Tx) (int64, bool) {
	c := tx.Bucket(streamBucket).Cursor()
	end := l.item(maxLog - 1)
	k, _ := c.Seek(end)
	switch {
	case k == nil:
		k, _ = c.Last()
	case !bytes.Equal(k, end):
		k, _ = c.Prev()
	}
	for ; k != nil && bytes.HasPrefix(k, l.items); k, _ = c.Prev() {
		if n, ok := l.seq(k); ok {
			return n, true
		}
	}
	return 0, false
}

// each calls fn for the events from a number on.
func (l *log) each(tx *bbolt.Tx, from int64, fn func(seq int64, k, v []byte) (more bool, err error)) error {
	if from >= maxLog {
		return nil
	}
	c := tx.Bucket(streamBucket).Cursor()
	for k, v := c.Seek(l.item(max(from, 0))); k != nil && bytes.HasPrefix(k, l.items); k, v = c.Next() {
		n, ok := l.seq(k)
		if !ok {
			continue
		}
		if more, err := fn(n, k, v); err != nil || !more {
			return err
		}
	}
	return nil
}

// Head describes a log.
func (s streamStore) Head(ctx context.Context, name, group string) (stream.Head, error) {
	if err := checkGroup(name, group); err != nil {
		return stream.Head{}, err
	}
	head := stream.Head{Tail: -1}
	err := s.db.view(ctx, "stream.head", func(tx *bbolt.Tx) error {
		l, err := s.db.openLog(tx, name, group)
		if err == nil && l.there {
			head = stream.Head{Tail: l.tail, Epoch: l.head.epoch}
		}
		return err
	})
	return head, err
}

// Read is the items of a log from a number on. Limit and maxBytes 0 mean no
// bound.
func (s streamStore) Read(ctx context.Context, name, group string, from int64, limit, maxBytes int) ([]stream.Item, error) {
	if err := checkGroup(name, group); err != nil {
		return nil, err
	}
	var list []found
	err := s.db.view(ctx, "stream.read", func(tx *bbolt.Tx) error {
		l := log{group: group, items: prefix(name, group)}
		size := int64(0)
		return l.each(tx, from, func(_ int64, k, v []byte) (bool, error) {
			r, err := decodeRecord(k, v)
			if err != nil {
				return false, &CorruptError{Path: s.db.path(), What: streamWhat(k), Err: err}
			}
			size += r.size()
			if maxBytes > 0 && size > int64(maxBytes) && len(list) > 0 {
				return false, nil
			}
			list = append(list, keep(k, r))
			return limit <= 0 || len(list) < limit, ctx.Err()
		})
	})
	if err != nil {
		return nil, err
	}
	return s.items(ctx, name, group, list)
}
