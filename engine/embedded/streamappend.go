package embedded

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/commit"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/engine/stream"
)

// maxEventID bounds event ids in bytes.
const maxEventID = 1024

// SubmitAppend appends to a log.
func (s streamStore) SubmitAppend(ctx context.Context, a stream.Append, after ...commit.Ticket) *commit.Promise[stream.Appended] {
	if err := ctx.Err(); err != nil {
		return commit.Resolved(stream.Appended{}, err)
	}
	if err := checkAppend(a); err != nil {
		return commit.Resolved(stream.Appended{}, err)
	}
	a.Events = slices.Clone(a.Events)
	t := &appendTx{db: s.db, a: a}
	if !t.large() {
		return submit(s.db, "stream.append", after, t.run)
	}
	return submitPrepared(s.db, "stream.append", after, t.prepare, t.undo, t.run)
}

func checkAppend(a stream.Append) error {
	// The item ids add nine bytes to the group.
	if err := checkGroup(a.Stream, a.Group); err != nil {
		return err
	}
	if len(a.By) > maxEventID {
		return &state.InvalidKeyError{Field: "by", Allowed: fmt.Sprintf("at most %d bytes", maxEventID)}
	}
	for i := range a.Events {
		e := &a.Events[i]
		if err := checkName("event id", e.ID, maxEventID); err != nil {
			return err
		}
		if err := checkValue(state.Key{Scope: a.Stream, Key: a.Group + "/" + e.ID}, e.Data); err != nil {
			return err
		}
		if e.CopyTo == "" {
			continue
		}
		if err := checkName("copy_to", e.CopyTo, maxScope); err != nil {
			return err
		}
		if e.CopyTo == a.Stream {
			return &state.InvalidKeyError{Field: "copy_to", Allowed: "another stream"}
		}
	}
	return nil
}

// appendTx is a submitted append.
type appendTx struct {
	db *DB
	a  stream.Append
	// files has the records of values that were moved out beforehand, one per
	// place they are stored at.
	files map[place]record
}

// place is one of the two items that an event may become.
type place struct {
	event int
	copy  bool
}

// logWrite is one item to be written.
type logWrite struct {
	key   []byte
	item  stream.Key
	next  record
	old   *record
	event stream.EventKind
	data  json.RawMessage
}

func (t *appendTx) large() bool {
	return slices.ContainsFunc(t.a.Events, func(e stream.LogEvent) bool { return len(e.Data) > state.InlineLimit })
}

func (t *appendTx) prepare() error {
	t.files = make(map[place]record)
	for i := range t.a.Events {
		e := &t.a.Events[i]
		if len(e.Data) <= state.InlineLimit {
			continue
		}
		for _, isCopy := range []bool{false, true} {
			if isCopy && e.CopyTo == "" {
				continue
			}
			r := record{Value: e.Data}
			if err := t.db.writeValue(&r); err != nil {
				return err
			}
			t.files[place{i, isCopy}] = r
		}
	}
	return nil
}

func (t *appendTx) undo() {
	for _, r := range t.files {
		t.db.removeValue(r.File)
	}
}

func (t *appendTx) run(tx *bbolt.Tx, c *commitCtx) (stream.Appended, error) {
	a := &t.a
	l, err := t.db.openLog(tx, a.Stream, a.Group)
	if err != nil {
		return stream.Appended{}, err
	}
	known, err := t.known(tx, &l)
	if err != nil {
		return stream.Appended{}, err
	}
	res := stream.Appended{Seqs: make([]int64, len(a.Events)), Epoch: l.head.epoch}
	var writes []logWrite
	used := make(map[place]bool, len(t.files))
	for i := range a.Events {
		e := &a.Events[i]
		if seq, ok := known[e.ID]; ok {
			res.Seqs[i] = seq
			continue
		}
		l.tail++
		if l.tail >= maxLog {
			return stream.Appended{}, &state.InvalidKeyError{Field: "events", Allowed: fmt.Sprintf("%d in one log", maxLog)}
		}
		res.Seqs[i], known[e.ID] = l.tail, l.tail
		if writes, err = t.plan(tx, c, i, l.tail, writes); err != nil {
			return stream.Appended{}, err
		}
		used[place{i, false}], used[place{i, true}] = true, true
	}
	rows, err := t.feedRows(c, writes)
	if err != nil {
		return stream.Appended{}, err
	}
	for p, r := range t.files {
		if !used[p] {
			c.afterCommit(func() { t.db.removeValue(r.File) })
		}
	}
	if len(writes) == 0 {
		return res, nil
	}
	if !l.there {
		l.head = logHead{epoch: t.db.ids.UUID(), floor: -1}
		res.Epoch = l.head.epoch
		if err := c.put(logBucket, l.key, l.head.encode(l.key)); err != nil {
			return stream.Appended{}, err
		}
	}
	for i := range writes {
		w := &writes[i]
		if err := c.putRecord(streamBucket, w.key, &w.next, w.old); err != nil {
			return stream.Appended{}, err
		}
		t.db.notifyStream(c, w.item.Stream, w.item.Group)
	}
	return res, c.putFeed(rows)
}

// known is the numbers of the events that are in the log already.
func (t *appendTx) known(tx *bbolt.Tx, l *log) (map[string]int64, error) {
	known := make(map[string]int64, len(t.a.Events))
	if len(t.a.Events) == 0 || t.a.Base >= l.tail {
		return known, nil
	}
	wanted := make(map[string]bool, len(t.a.Events))
	for i := range t.a.Events {
		wanted[t.a.Events[i].ID] = true
	}
	err := l.each(tx, t.a.Base+1, func(seq int64, k, v []byte) (bool, error) {
		r, err := decodeRecord(k, v)
		if err != nil {
			return false, &CorruptError{Path: t.db.path(), What: streamWhat(k), Err: err}
		}
		if _, twice := known[r.EventID]; wanted[r.EventID] && !twice {
			known[r.EventID] = seq
		}
		return len(known) < len(wanted), nil
	})
	return known, err
}

// plan adds the item of an event, and its copy.
func (t *appendTx) plan(tx *bbolt.Tx, c *commitCtx, i int, seq int64, writes []logWrite) ([]logWrite, error) {
	a, e := &t.a, &t.a.Events[i]
	at := millis(c.now())
	for _, isCopy := range []bool{false, true} {
		if isCopy && e.CopyTo == "" {
			continue
		}
		w := logWrite{
			item:  stream.Key{Stream: a.Stream, Group: a.Group, Item: logItem(a.Group, seq)},
			event: stream.Create,
			data:  orNull(e.Data),
		}
		if isCopy {
			w.item.Stream = e.CopyTo
		}
		w.key = tuple(w.item.Stream, w.item.Group, w.item.Item)
		version := int64(1)
		// Only a copy may find its place taken.
		if r, there, err := t.db.streamRecord(tx, w.key); err != nil {
			return nil, err
		} else if there {
			w.old, w.event = &r, stream.Change
			version = r.Version + 1
		}
		next, moved := t.files[place{i, isCopy}]
		if !moved {
			next.Value = w.data
		}
		next.Version, next.At, next.EventID, next.By = version, at, e.ID, a.By
		w.next = next
		if err := c.spill(&w.next); err != nil {
			return nil, err
		}
		writes = append(writes, w)
	}
	return writes, nil
}

func (t *appendTx) feedRows(c *commitCtx, writes []logWrite) ([]feedEntry, error) {
	var rows []feedEntry
	var err error
	for i := range writes {
		w := &writes[i]
		rows, err = c.planStreamEvent(rows, stream.Event{
			Key: w.item, Kind: w.event, Data: w.data, At: clock.FromMillis(w.next.At), By: t.a.By, Origin: t.a.Origin,
		})
		if err != nil {
			return nil, err
		}
	}
	return rows, nil
}
