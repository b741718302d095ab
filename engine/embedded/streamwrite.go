package embedded

import (
	"context"
	"encoding/json"

	"go.etcd.io/bbolt"

	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/commit"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/engine/stream"
)

// Submit makes a plain write. In the group of a log, an item named like an
// event must exist or be the next one: then it counts as appended.
func (s streamStore) Submit(ctx context.Context, w stream.Write, after ...commit.Ticket) *commit.Promise[stream.Result] {
	if err := ctx.Err(); err != nil {
		return commit.Resolved(stream.Result{}, err)
	}
	if err := checkStreamWrite(w); err != nil {
		return commit.Resolved(stream.Result{}, err)
	}
	t := &streamTx{db: s.db, w: w, key: tuple(w.Stream, w.Group, w.Item)}
	if w.Kind != state.KindSet || len(w.Data) <= state.InlineLimit {
		return submit(s.db, "stream.submit", after, t.run)
	}
	return submitPrepared(s.db, "stream.submit", after, t.prepare, t.undo, t.run)
}

func checkStreamWrite(w stream.Write) error {
	if err := checkItem(w.Key); err != nil {
		return err
	}
	if err := checkExpect(w.Expect); err != nil {
		return err
	}
	sw := state.Write{Key: streamStateKey(w.Key), Kind: w.Kind, Value: w.Data}
	return checkKind(&sw)
}

// streamStateKey is how errors of package state name an item.
func streamStateKey(k stream.Key) state.Key {
	return state.Key{Scope: k.Stream, Key: k.Group + "/" + k.Item}
}

// streamTx is a submitted plain write.
type streamTx struct {
	db   *DB
	w    stream.Write
	key  []byte
	file record // the value, if it was moved out beforehand
}

func (t *streamTx) prepare() error {
	r := record{Value: t.w.Data}
	if err := t.db.writeValue(&r); err != nil {
		return err
	}
	t.file = r
	return nil
}

func (t *streamTx) undo() {
	if t.file.File != "" {
		t.db.removeValue(t.file.File)
	}
}

func (t *streamTx) run(tx *bbolt.Tx, c *commitCtx) (stream.Result, error) {
	w := &t.w
	r, exists, err := t.db.streamRecord(tx, t.key)
	if err != nil && (w.Kind != state.KindDelete || !w.Expect.IsZero()) {
		return stream.Result{}, err
	}
	var res stream.Result
	if exists && err == nil {
		if res.Old, err = c.load(streamWhat(t.key), r); err != nil {
			return stream.Result{}, err
		}
	}
	if w.Expect.Absent && exists || w.Expect.Version != 0 && w.Expect.Version != r.Version {
		e := &state.ConflictError{Key: streamStateKey(w.Key)}
		if exists {
			item := stateItem(e.Key, r, res.Old)
			e.Current = &item
		}
		return stream.Result{}, e
	}
	switch {
	case w.Kind == state.KindCheck:
		res.New = res.Old
		return res, nil
	case w.Kind == state.KindDelete && !exists:
		return res, nil
	case w.Kind == state.KindDelete:
		return res, t.remove(tx, c, &r, res.Old)
	}
	old := &r
	if !exists {
		old = nil
	}
	return t.put(tx, c, old, res)
}

// put stores the new value in place of old, nil if there is none.
func (t *streamTx) put(tx *bbolt.Tx, c *commitCtx, old *record, res stream.Result) (stream.Result, error) {
	w := &t.w
	res.New = orNull(w.Data)
	next := t.file
	if w.Kind == state.KindUpdate {
		res.New, res.OpErrors = state.Apply(res.Old, old != nil, w.Ops)
		res.New = orNull(res.New)
		if len(res.New) > state.MaxValue {
			return stream.Result{}, &state.TooLargeError{Key: streamStateKey(w.Key), Size: len(res.New)}
		}
	}
	if next.File == "" {
		next.Value = res.New
	}
	kind := stream.Create
	if old != nil {
		kind = stream.Change
		next.Version = old.Version
	}
	next.Version++
	next.At = millis(c.now())
	l, starts, err := t.place(tx, old)
	if err != nil {
		return stream.Result{}, err
	}
	if err := c.spill(&next); err != nil {
		return stream.Result{}, err
	}
	rows, err := c.planStreamEvent(nil, stream.Event{Key: w.Key, Kind: kind, Data: res.New, At: clock.FromMillis(next.At), Origin: w.Origin})
	if err != nil {
		return stream.Result{}, err
	}
	if starts {
		if err := c.putLog(l); err != nil {
			return stream.Result{}, err
		}
	}
	if err := c.putRecord(streamBucket, t.key, &next, old); err != nil {
		return stream.Result{}, err
	}
	t.db.notifyStream(c, w.Stream, w.Group)
	return res, c.putFeed(rows)
}

// place checks that a new item leaves no hole in a log, and tells whether it
// is the first event of one.
func (t *streamTx) place(tx *bbolt.Tx, old *record) (_ log, starts bool, err error) {
	seq, event := logSeq(t.w.Group, t.w.Item)
	if !event || old != nil {
		return log{}, false, nil
	}
	l, err := t.db.openLog(tx, t.w.Stream, t.w.Group)
	if err != nil {
		return log{}, false, err
	}
	if l.there && seq > l.tail+1 {
		return log{}, false, &state.InvalidKeyError{Field: "item_id", Allowed: "that of an event of the log, or the next one"}
	}
	return l, !l.there && seq == 0 && l.tail < 0, nil
}

// remove deletes the item. The numbers of a log's deleted events do not come
// again, unless it was the last one: then the log is gone.
func (t *streamTx) remove(tx *bbolt.Tx, c *commitCtx, old *record, value json.RawMessage) error {
	w := &t.w
	_, event := logSeq(w.Group, w.Item)
	var l log
	if event {
		var err error
		if l, err = t.db.openLog(tx, w.Stream, w.Group); err != nil {
			return err
		}
	}
	rows, err := c.planStreamEvent(nil, stream.Event{Key: w.Key, Kind: stream.Remove, Data: value, At: clock.FromMillis(millis(c.now())), Origin: w.Origin})
	if err != nil {
		return err
	}
	if err := c.dropRecord(streamBucket, t.key, old); err != nil {
		return err
	}
	if l.there {
		if err := c.shrinkLog(tx, l); err != nil {
			return err
		}
	}
	t.db.notifyStream(c, w.Stream, w.Group)
	return c.putFeed(rows)
}

// shrinkLog keeps the tail of a log that lost an event.
func (c *commitCtx) shrinkLog(tx *bbolt.Tx, l log) error {
	last, any := l.last(tx)
	switch {
	case !any:
		return c.delete(logBucket, l.key)
	case last == l.tail || l.head.floor == l.tail:
		return nil
	}
	l.head.floor = l.tail
	return c.put(logBucket, l.key, l.head.encode(l.key))
}

// putLog starts a log.
func (c *commitCtx) putLog(l log) error {
	l.head = logHead{epoch: c.db.ids.UUID(), floor: -1}
	return c.put(logBucket, l.key, l.head.encode(l.key))
}

// planStreamEvent adds the feed entry of an event, if its group is triggered.
func (c *commitCtx) planStreamEvent(rows []feedEntry, e stream.Event) ([]feedEntry, error) {
	if !c.db.streamTriggered(e.Stream, e.Group) {
		return rows, nil
	}
	row, err := c.planFeed(FeedRow{Kind: FeedStream, Event: &e})
	if err != nil {
		return nil, err
	}
	return append(rows, row), nil
}

func (db *DB) notifyStream(c *commitCtx, name, group string) {
	c.afterCommit(func() { db.streamWatch.notify(tuple(name, group)) })
}
