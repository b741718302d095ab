package embedded

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/iii-aws/harness/engine/commit"
	"github.com/iii-aws/harness/engine/state"
)

// bucketSize counts the keys of a bucket.
func bucketSize(t *testing.T, db *DB, bucket []byte) (n int) {
	t.Helper()
	err := db.view(t.Context(), "test", func(tx *bbolt.Tx) error {
		return tx.Bucket(bucket).ForEach(func(_, _ []byte) error {
			n++
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func wantSizes(t *testing.T, db *DB, want map[string]int) {
	t.Helper()
	for bucket, n := range want {
		if got := bucketSize(t, db, []byte(bucket)); got != n {
			t.Errorf("bucket %s: got %d keys, want %d", bucket, got, n)
		}
	}
}

func TestSweepRemovesWhatHasExpired(t *testing.T) {
	t.Parallel()
	c := fakeClock()
	db := openTest(t, Options{NoSync: true, Clock: c})
	const many = 2*sweepBatch + 10
	var tickets []commit.Ticket
	for i := range many {
		w := state.Set("s", fmt.Sprintf("%04d", i), json.RawMessage(`1`))
		w.Expires, w.Due = c.Now().Add(time.Second), c.Now()
		tickets = append(tickets, db.State().Submit(t.Context(), []state.Write{w}))
	}
	large := state.Set("s", "large", json.RawMessage(`"`+string(bytesOf('x', 300<<10))+`"`))
	large.Expires = c.Now().Add(time.Second)
	later := state.Set("s", "later", json.RawMessage(`1`))
	later.Expires = c.Now().Add(time.Hour)
	tickets = append(tickets, db.State().Submit(t.Context(), []state.Write{large, later, state.Set("s", "never", nil)}))
	if err := commit.Wait(within(t), tickets...); err != nil {
		t.Fatal(err)
	}
	gone, kept := putTest(t, db, "gone"), putTest(t, db, "kept")
	if err := db.Blobs().Expire(t.Context(), gone, c.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	if n, err := db.Sweep(t.Context()); n != 0 || err != nil {
		t.Errorf("got %d removed, error %v; want none yet", n, err)
	}
	c.Advance(time.Second)
	if n, err := db.Sweep(t.Context()); n != many+2 || err != nil {
		t.Errorf("got %d removed, error %v; want %d", n, err, many+2)
	}
	wantSizes(t, db, map[string]int{"state": 2, "state_due": 0, "expiry": 1, "value_file": 0, "blob": 1})
	if v, b := files(t, db, valuesDir), files(t, db, blobsDir); len(v) != 0 || len(b) != 1 {
		t.Errorf("got files %v and %v; want none and one", v, b)
	}
	if got := readTest(t, db, kept); got != "kept" {
		t.Errorf("got %q, want kept", got)
	}
	if n, err := db.Sweep(t.Context()); n != 0 || err != nil {
		t.Errorf("got %d removed, error %v; want nothing twice", n, err)
	}
}

func putTest(t *testing.T, db *DB, content string) string {
	t.Helper()
	info, err := db.Blobs().Put(t.Context(), "s", "", strings.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	return info.ID
}

func TestSweepRunsByItselfWhileSomethingIsWritten(t *testing.T) {
	t.Parallel()
	c := fakeClock()
	db := openTest(t, Options{NoSync: true, Clock: c})
	w := state.Set("s", "k", nil)
	w.Expires = c.Now().Add(time.Second)
	if _, err := state.Do(t.Context(), db.State(), w); err != nil {
		t.Fatal(err)
	}
	watch := db.State().Watch(within(t), state.Key{Scope: "s", Key: "k"})
	<-watch
	c.Advance(sweepEvery)
	// The sweep of the start may still run: then a later write begins the next.
	for bucketSize(t, db, []byte("expiry")) != 0 {
		setTest(t, db, "s", "other", `1`)
	}
	<-watch // the sweep changed the key
	wantSizes(t, db, map[string]int{"state": 1, "expiry": 0})
	if n := c.Waiting(); n != 0 {
		t.Errorf("got %d timers; an idle DB has none", n)
	}
}

func TestSweepSkipsADamagedRecord(t *testing.T) {
	t.Parallel()
	c := fakeClock()
	db := openTest(t, Options{NoSync: true, Clock: c})
	for _, key := range []string{"a", "b"} {
		w := state.Set("s", key, nil)
		w.Expires = c.Now().Add(time.Second)
		if _, err := state.Do(t.Context(), db.State(), w); err != nil {
			t.Fatal(err)
		}
	}
	damageRecord(t, db, stateBucket, tuple("s", "a"))
	c.Advance(time.Second)
	if n, err := db.Sweep(t.Context()); n != 1 || err != nil {
		t.Errorf("got %d removed, error %v; want 1", n, err)
	}
}

func TestReplacedLargeValuesLeaveNoFile(t *testing.T) {
	t.Parallel()
	db := openTest(t, Options{NoSync: true})
	large := `"` + string(bytesOf('x', 300<<10)) + `"`
	for range 3 {
		setTest(t, db, "s", "k", large)
		if got := files(t, db, valuesDir); len(got) != 1 {
			t.Errorf("got files %v, want one", got)
		}
	}
	_, err := state.Do(t.Context(), db.State(), state.Set("s", "k", json.RawMessage(large)).IfAbsent())
	if err == nil {
		t.Error("got no error")
	}
	if got := files(t, db, valuesDir); len(got) != 1 {
		t.Errorf("got files %v after a refused write, want one", got)
	}
	setTest(t, db, "s", "k", `1`)
	if got := files(t, db, valuesDir); len(got) != 0 {
		t.Errorf("got files %v, want none", got)
	}
	wantSizes(t, db, map[string]int{"value_file": 0})
}
