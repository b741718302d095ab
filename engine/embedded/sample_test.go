package embedded

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/commit"
	"github.com/iii-aws/harness/engine/queue"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/engine/stream"
	"github.com/iii-aws/harness/engine/timer"
)

// fillTest writes enough state and events for branch pages, overflow pages and
// free pages.
func fillTest(t *testing.T, db *DB) {
	t.Helper()
	db.SetTriggered(func(scope, _ string) bool { return scope == "t" }, nil)
	var tickets []commit.Ticket
	for i := range 120 {
		w := state.Set("s", fmt.Sprintf("%03d", i), json.RawMessage(`"`+strings.Repeat("v", 10*i)+`"`))
		w.Due, w.Expires = time.UnixMilli(int64(i+1)), db.clock.Now().Add(time.Hour)
		tickets = append(tickets, db.State().Submit(t.Context(), []state.Write{w}))
		tickets = append(tickets, db.Streams().SubmitAppend(t.Context(), stream.Append{
			Stream: "log", Group: "g", Base: -1, Events: []stream.LogEvent{{ID: fmt.Sprint(i), Data: json.RawMessage(fmt.Sprint(i))}},
		}))
	}
	if err := commit.Wait(within(t), tickets...); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < 120; i += 3 {
		if _, err := state.Do(within(t), db.State(), state.Delete("s", fmt.Sprintf("%03d", i))); err != nil {
			t.Fatal(err)
		}
	}
	setTest(t, db, "s", "long", `"`+strings.Repeat("w", 20<<10)+`"`)
	setTest(t, db, "t", "triggered", `"canary-record"`)
}

// fillQueues puts something into every bucket that fillTest leaves empty.
func fillQueues(t *testing.T, db *DB) {
	t.Helper()
	ctx := within(t)
	q, err := OpenQueue(ctx, db)
	if err != nil {
		t.Fatal(err)
	}
	timers, err := OpenTimer(ctx, db, q)
	if err != nil {
		t.Fatal(err)
	}
	_, err = q.Define(ctx, queue.Config{Name: "q", Type: queue.FIFO, MaxReceives: 1})
	for i := range 4 {
		id := fmt.Sprint(i)
		m := queue.Message{Queue: []string{"q", queue.DefaultQueue}[i%2], Group: id, FunctionID: "f", DedupID: id, Data: json.RawMessage(id)}
		_, sendErr := q.Submit(ctx, m).Wait(ctx)
		_, timerErr := timers.Submit(ctx, timer.Timer{ID: id, At: db.clock.Now().Add(time.Hour), Message: m}).Wait(ctx)
		err = errors.Join(err, sendErr, timerErr)
	}
	if err != nil {
		t.Fatal(err)
	}
	// The message of one queue is dead then, that of the other waits.
	for _, name := range []string{"q", queue.DefaultQueue} {
		ds, err := q.Receive(ctx, name, 1)
		if err != nil {
			t.Fatal(err)
		}
		if dead, err := q.Fail(ctx, name, ds[0].Receipt, errTest); err != nil || dead != (name == "q") {
			t.Fatalf("fail in %s: got %v, error %v", name, dead, err)
		}
	}
	if _, err := q.Stats(ctx, "q"); err != nil { // what has ended is stored
		t.Fatal(err)
	}
	if _, err := db.Blobs().Put(ctx, "s", "text/plain", strings.NewReader("blob")); err != nil {
		t.Fatal(err)
	}
	setTest(t, db, "s", "file", `"`+strings.Repeat("x", state.InlineLimit)+`"`)
}

// makeFile gives a closed data file with something in every bucket and a page of
// every kind. It is the same to the byte each time, so that a byte that a test
// names can be found again.
func makeFile(t *testing.T) (dir string, content []byte) {
	t.Helper()
	dir = t.TempDir()
	db := openTest(t, Options{Dir: dir, NoSync: true, Clock: fakeClock(), IDs: clock.Sequence(1)})
	fillQueues(t, db)
	fillTest(t, db)
	closeTest(t, db)
	layOut(t, db.path())
	content, err := os.ReadFile(db.path())
	if err != nil {
		t.Fatal(err)
	}
	meta, err := readMeta(bytes.NewReader(content), uint64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	return dir, content[:meta.pages*meta.pageSize] // the rest was never used
}

// layOut writes a data file anew, one record in a commit. Where pages end up
// depends otherwise on which writes have shared a commit, and within one on the
// order of Go's maps: bbolt writes the buckets of a commit, and picks free pages,
// in such an order.
func layOut(t *testing.T, path string) {
	t.Helper()
	next := path + ".new"
	from, err := bbolt.Open(path, fileMode, &bbolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	to, err := bbolt.Open(next, fileMode, &bbolt.Options{PageSize: pageSize, NoSync: true, FreelistType: bbolt.FreelistArrayType})
	if err != nil {
		t.Fatal(errors.Join(err, from.Close()))
	}
	err = bbolt.Compact(to, from, 1)
	if err := errors.Join(err, from.Close(), to.Close(), os.Rename(next, path)); err != nil {
		t.Fatal(err)
	}
}

func TestSampleFileIsTheSameEachTime(t *testing.T) {
	t.Parallel()
	_, first := makeFile(t)
	_, second := makeFile(t)
	if !bytes.Equal(first, second) {
		at := 0
		for at < min(len(first), len(second)) && first[at] == second[at] {
			at++
		}
		t.Errorf("files of %d and %d bytes differ from byte %d of page %d on", len(first), len(second), at%pageSize, at/pageSize)
	}
}
