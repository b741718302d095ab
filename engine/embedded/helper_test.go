package embedded

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/commit"
	"github.com/iii-aws/harness/engine/state"
)

// openTest opens a folder and closes it with the test.
func openTest(t *testing.T, o Options) *DB {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	db, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeTest(t, db) })
	return db
}

func closeTest(t *testing.T, db *DB) {
	t.Helper()
	if err := db.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

// within bounds a wait at the edge of the process.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func setTest(t *testing.T, db *DB, scope, key, value string) {
	t.Helper()
	if _, err := state.Do(within(t), db.State(), state.Set(scope, key, json.RawMessage(value))); err != nil {
		t.Fatalf("set %s/%s: %v", scope, key, err)
	}
}

func getTest(t *testing.T, db *DB, scope, key string) (string, bool) {
	t.Helper()
	item, ok, err := db.State().Get(t.Context(), state.Key{Scope: scope, Key: key})
	if err != nil {
		t.Fatalf("get %s/%s: %v", scope, key, err)
	}
	return string(item.Value), ok
}

func wantStored(t *testing.T, db *DB, scope, key, want string) {
	t.Helper()
	if got, ok := getTest(t, db, scope, key); !ok || got != want {
		t.Errorf("%s/%s: got %q, ok %v; want %q", scope, key, got, ok, want)
	}
}

func wantNone(t *testing.T, db *DB, scope, key string) {
	t.Helper()
	if got, ok := getTest(t, db, scope, key); ok {
		t.Errorf("%s/%s: got %q, want none", scope, key, got)
	}
}

// files lists what lies below a folder of the data folder.
func files(t *testing.T, db *DB, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(db.Dir(), dir, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	loose, err := filepath.Glob(filepath.Join(db.Dir(), dir, tempPrefix+"*"))
	if err != nil {
		t.Fatal(err)
	}
	return append(names, loose...)
}

// gate holds the committer inside of an operation, so that a test can queue
// others behind it.
type gate struct{ entered, leave chan struct{} }

func holdCommitter(t *testing.T, db *DB) *gate {
	t.Helper()
	g := &gate{make(chan struct{}), make(chan struct{})}
	submit(db, "test.hold", nil, func(*bbolt.Tx, *commitCtx) (struct{}, error) {
		close(g.entered)
		<-g.leave
		return struct{}{}, nil
	})
	<-g.entered
	return g
}

func (g *gate) release() { close(g.leave) }

// put submits an operation that stores one key in the state bucket.
func put(db *DB, key string, after ...commit.Ticket) *commit.Promise[struct{}] {
	return submit(db, "test.put", after, func(_ *bbolt.Tx, c *commitCtx) (struct{}, error) {
		return struct{}{}, c.put(testBucket, []byte(key), []byte("x"))
	})
}

var (
	testBucket = []byte("test")
	errTest    = errors.New("test error")
)

// stored reports which keys the test bucket has.
func stored(t *testing.T, db *DB) []string {
	t.Helper()
	var found []string
	err := db.view(t.Context(), "test", func(tx *bbolt.Tx) error {
		found = keys(t, tx)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func keys(t *testing.T, tx *bbolt.Tx) []string {
	t.Helper()
	found := []string{}
	b := tx.Bucket(testBucket)
	if b == nil {
		return found
	}
	err := b.ForEach(func(k, _ []byte) error {
		found = append(found, string(k))
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return found
}

// testLog is a logger whose lines can be read.
type testLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *testLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *testLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *testLog) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func fakeClock() *clock.Fake { return clock.NewFake(time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC)) }
