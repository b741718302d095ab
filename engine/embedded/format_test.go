package embedded

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/iii-aws/harness/engine/queue"
)

// downgrade makes a file of format 1 of one of today's.
func downgrade(t *testing.T, dir string) {
	t.Helper()
	editFile(t, dir, func(tx *bbolt.Tx) error {
		meta := tx.Bucket(metaBucket)
		for _, name := range counted {
			key := counterKey(name)
			n, err := decodeCounter(key, meta.Get(key))
			if err == nil {
				err = errors.Join(tx.Bucket(name).SetSequence(n), meta.Delete(key))
			}
			if err != nil || n == 0 {
				return fmt.Errorf("%s counts to %d, error %w", name, n, err)
			}
		}
		old, err := tx.CreateBucket(timerDueBucket1)
		if err != nil {
			return err
		}
		err = tx.Bucket(timerDueBucket).ForEach(func(k, _ []byte) error { return old.Put(k, []byte{}) })
		return errors.Join(err, tx.DeleteBucket(timerDueBucket),
			meta.Put(formatKey, binary.BigEndian.AppendUint32(nil, 1)))
	})
}

// TestOpenUpgradesAFile: numbers go on where they were, and timers fire.
func TestOpenUpgradesAFile(t *testing.T) {
	t.Parallel()
	dir, _ := makeFile(t)
	numbers := func() map[string]uint64 {
		got := map[string]uint64{}
		editFile(t, dir, func(tx *bbolt.Tx) error {
			for _, name := range counted {
				key := counterKey(name)
				n, err := decodeCounter(key, tx.Bucket(metaBucket).Get(key))
				if err != nil {
					return err
				}
				got[string(name)] = n
			}
			return nil
		})
		return got
	}
	want := numbers()
	downgrade(t, dir)
	fake := fakeClock()
	for n := range uint64(2) { // the second time there is nothing to do
		db := openTest(t, Options{Dir: dir, NoSync: true, Clock: fake})
		q, err := OpenQueue(t.Context(), db)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := q.Submit(t.Context(), queue.Message{Queue: "q", Group: "g", FunctionID: "f"}).Wait(within(t)); err != nil {
			t.Fatal(err)
		}
		closeTest(t, db)
		got := numbers()
		for _, name := range [][]byte{feedBucket, deadBucket} {
			if got[string(name)] != want[string(name)] {
				t.Errorf("%s: got %d, want %d", name, got[string(name)], want[string(name)])
			}
		}
		for _, name := range [][]byte{queueBucket, messageBucket} {
			if got[string(name)] != want[string(name)]+n+1 {
				t.Errorf("%s: got %d, want %d", name, got[string(name)], want[string(name)]+n+1)
			}
		}
	}
	db := openTest(t, Options{Dir: dir, NoSync: true, Clock: fake})
	q, err := OpenQueue(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	fired := func() int {
		s, err := q.Stats(within(t), queue.DefaultQueue)
		if err != nil {
			t.Fatal(err)
		}
		return s.Depth
	}
	before := fired()
	fake.Advance(2 * time.Hour)
	timers := &Timer{db: db, q: q, changed: make(chan struct{}, 1)}
	if next, err := timers.fireDue(); err != nil || next != noTimer {
		t.Errorf("fire: next at %d, error %v; want none", next, err)
	}
	if got := fired() - before; got != 2 {
		t.Errorf("%d timers fired, want 2", got)
	}
}

func TestUnknownBucketsAreRefused(t *testing.T) {
	t.Parallel()
	dir, _ := makeFile(t)
	editFile(t, dir, func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucket([]byte("stat_due"))
		return err
	})
	_, err := Open(t.Context(), Options{Dir: dir})
	wantCorrupt(t, "open", err, `"stat_due"`)
}

func TestFormatZeroIsRefused(t *testing.T) {
	t.Parallel()
	dir, _ := makeFile(t)
	editFile(t, dir, func(tx *bbolt.Tx) error { return tx.Bucket(metaBucket).Put(formatKey, make([]byte, 4)) })
	_, err := Open(t.Context(), Options{Dir: dir})
	wantCorrupt(t, "open", err, "format version")
}

// TestDamagedCounter: no number is given when it is not known which came last.
func TestDamagedCounter(t *testing.T) {
	t.Parallel()
	d := newDamaged(t)
	key := counterKey(messageBucket)
	damageRecord(t, d.db, metaBucket, key)
	_, err := d.q.Submit(t.Context(), queue.Message{Queue: "q", Group: "g", FunctionID: "f"}).Wait(within(t))
	wantCorrupt(t, "send", err, `counter "counter/queue_message"`)
	setTest(t, d.db, "s", "k", `1`)
	path := d.db.Dir()
	closeTest(t, d.db)
	_, err = Open(t.Context(), Options{Dir: path})
	wantCorrupt(t, "open", err, `counter "counter/queue_message"`)
}
