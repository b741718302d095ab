package embedded

import (
	"encoding/json"

	"go.etcd.io/bbolt"

	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/state"
)

// stateTx is a submitted transaction on state.
type stateTx struct {
	db     *DB
	writes []state.Write
	// files has the record of each value that was moved out beforehand.
	files map[int]record
}

// planned is one write whose condition held, ready to be made.
type planned struct {
	key    []byte
	old    *record // as it is stored, even if it has expired
	next   *record // nil if nothing is to be stored
	change state.Change
}

func (t *stateTx) large() bool {
	for i := range t.writes {
		if len(t.writes[i].Value) > state.InlineLimit {
			return true
		}
	}
	return false
}

// prepare moves large values into files, outside of the committer.
func (t *stateTx) prepare() error {
	t.files = make(map[int]record)
	for i := range t.writes {
		w := &t.writes[i]
		if w.Kind != state.KindSet || len(w.Value) <= state.InlineLimit {
			continue
		}
		r := record{Value: w.Value}
		if err := t.db.writeValue(&r); err != nil {
			return err
		}
		t.files[i] = r
	}
	return nil
}

func (t *stateTx) undo() {
	for _, r := range t.files {
		t.db.removeValue(r.File)
	}
}

// run plans all writes, then makes them.
func (t *stateTx) run(tx *bbolt.Tx, c *commitCtx) ([]state.Change, error) {
	plan := make([]planned, len(t.writes))
	now := c.now().UnixMilli()
	for i := range t.writes {
		if err := t.plan(tx, c, i, now, &plan[i]); err != nil {
			return nil, err
		}
	}
	rows, err := t.feedRows(c, plan)
	if err != nil {
		return nil, err
	}
	changes := make([]state.Change, len(plan))
	for i := range plan {
		if err := t.apply(c, &t.writes[i], &plan[i]); err != nil {
			return nil, err
		}
		changes[i] = plan[i].change
	}
	return changes, c.putFeed(rows)
}

// plan checks one write and works out what it will do.
func (t *stateTx) plan(tx *bbolt.Tx, c *commitCtx, i int, now int64, p *planned) error {
	w := &t.writes[i]
	p.key = tuple(w.Scope, w.Key.Key)
	r, there, err := t.db.stateRecord(tx, p.key)
	if err != nil {
		if w.Kind != state.KindDelete || !w.Expect.IsZero() {
			return err
		}
		r = record{} // deleting is how to get rid of a damaged record
	}
	if there {
		p.old = &r
	}
	exists := there && err == nil && !r.expired(now)
	p.change = state.Change{Key: w.Key, Origin: w.Origin}
	if exists {
		if p.change.Old, err = c.load(stateWhat(p.key), r); err != nil {
			return err
		}
	} else {
		r.Version = 0
	}
	if w.Expect.Absent && exists || w.Expect.Version != 0 && w.Expect.Version != r.Version {
		return conflict(w.Key, i, p, r, exists)
	}
	return t.planKind(c, i, exists, r.Version, p)
}

func conflict(k state.Key, i int, p *planned, r record, exists bool) error {
	e := &state.ConflictError{Key: k, Index: i}
	if exists {
		item := stateItem(k, r, p.change.Old)
		e.Current = &item
	}
	return e
}

func (t *stateTx) planKind(c *commitCtx, i int, exists bool, version int64, p *planned) error {
	w := &t.writes[i]
	value := orNull(w.Value)
	switch w.Kind {
	case state.KindCheck:
		p.change.New, p.change.Version = p.change.Old, version
		return nil
	case state.KindDelete:
		p.change.Type = state.Deleted
		return nil
	case state.KindUpdate:
		value, p.change.OpErrors = state.Apply(p.change.Old, exists, w.Ops)
		value = orNull(value)
		if len(value) > state.MaxValue {
			return &state.TooLargeError{Key: w.Key, Size: len(value)}
		}
	}
	p.change.Type = state.Created
	if exists {
		p.change.Type = state.Updated
	}
	p.change.New, p.change.Version = value, version+1
	next, moved := t.files[i]
	if !moved {
		next.Value = value
	}
	next.Version, next.Due, next.Expires = version+1, millis(w.Due), millis(w.Expires)
	p.next = &next
	return c.spill(p.next)
}

// apply makes one planned write.
func (t *stateTx) apply(c *commitCtx, w *state.Write, p *planned) error {
	if w.Kind == state.KindCheck {
		return nil
	}
	if err := c.unindexState(w.Key, p.old); err != nil {
		return err
	}
	c.afterCommit(func() { t.db.stateWatch.notify(p.key) })
	if p.next == nil {
		if p.old == nil {
			return nil
		}
		return c.dropRecord(stateBucket, p.key, p.old)
	}
	if err := c.indexState(w.Key, p.next); err != nil {
		return err
	}
	return c.putRecord(stateBucket, p.key, p.next, p.old)
}

// feedRows are the rows for the triggers of the planned changes.
func (t *stateTx) feedRows(c *commitCtx, plan []planned) ([]feedEntry, error) {
	var rows []feedEntry
	for i := range plan {
		p := &plan[i]
		if t.writes[i].Kind == state.KindCheck || !t.db.stateTriggered(p.change.Key) {
			continue
		}
		row, err := c.planFeed(FeedRow{Kind: FeedState, Change: &p.change})
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func dueKey(k state.Key, due int64) []byte {
	return append(appendTime(prefix(k.Scope), due), k.Key...)
}

func expiryKey(kind byte, key []byte, expires int64) []byte {
	return append(append(appendTime(nil, expires), kind), key...)
}

func (c *commitCtx) indexState(k state.Key, r *record) error {
	if r.Due != 0 {
		if err := c.putIndex(dueBucket, dueKey(k, r.Due)); err != nil {
			return err
		}
	}
	if r.Expires == 0 {
		return nil
	}
	return c.putIndex(expiryBucket, expiryKey(expiryState, tuple(k.Scope, k.Key), r.Expires))
}

func (c *commitCtx) unindexState(k state.Key, r *record) error {
	if r == nil {
		return nil
	}
	if r.Due != 0 {
		if err := c.delete(dueBucket, dueKey(k, r.Due)); err != nil {
			return err
		}
	}
	if r.Expires == 0 {
		return nil
	}
	return c.delete(expiryBucket, expiryKey(expiryState, tuple(k.Scope, k.Key), r.Expires))
}

// stateItem is the item of a record.
func stateItem(k state.Key, r record, value json.RawMessage) state.Item {
	return state.Item{Key: k, Value: value, Version: r.Version, Due: clock.FromMillis(r.Due), Expires: clock.FromMillis(r.Expires)}
}
