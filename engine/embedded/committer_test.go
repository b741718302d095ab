package embedded

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/iii-aws/harness/engine/commit"
	"github.com/iii-aws/harness/engine/state"
)

func TestWaitingOperationsShareACommit(t *testing.T) {
	t.Parallel()
	db := openTest(t, Options{NoSync: true})
	before := db.Stats()
	g := holdCommitter(t, db)
	var tickets []commit.Ticket
	var last commit.Ticket
	for i := range 50 {
		last = put(db, fmt.Sprintf("%02d", i), last)
		tickets = append(tickets, last)
	}
	g.release()
	if err := commit.Wait(within(t), tickets...); err != nil {
		t.Fatal(err)
	}
	after := db.Stats()
	if n := after.Commits - before.Commits; n != 1 {
		t.Errorf("got %d commits for a chain of 50, want 1", n)
	}
	if n := after.Ops - before.Ops; n != 50 {
		t.Errorf("got %d operations, want 50", n)
	}
	if n := after.Bytes - before.Bytes; n != 50*3 || after.PageBytes <= before.PageBytes {
		t.Errorf("got %d bytes, %d page bytes; want 150 and some", n, after.PageBytes-before.PageBytes)
	}
}

func TestBatchesAreBounded(t *testing.T) {
	t.Parallel()
	db := openTest(t, Options{NoSync: true})
	before := db.Stats().Commits
	g := holdCommitter(t, db)
	tickets := make([]commit.Ticket, 2*maxBatch+1)
	for i := range tickets {
		tickets[i] = put(db, fmt.Sprint(i))
	}
	g.release()
	if err := commit.Wait(within(t), tickets...); err != nil {
		t.Fatal(err)
	}
	if n := db.Stats().Commits - before; n != 3 {
		t.Errorf("got %d commits, want 3", n)
	}
}

func TestOperationsRunInSubmitOrder(t *testing.T) {
	t.Parallel()
	db := openTest(t, Options{NoSync: true})
	g := holdCommitter(t, db)
	var ran []int
	var tickets []commit.Ticket
	for i := range 100 {
		tickets = append(tickets, submit(db, "test.order", nil, func(*bbolt.Tx, *commitCtx) (int, error) {
			ran = append(ran, i)
			return i, nil
		}))
	}
	g.release()
	if err := commit.Wait(within(t), tickets...); err != nil {
		t.Fatal(err)
	}
	if !slices.IsSorted(ran) || len(ran) != 100 {
		t.Errorf("ran in the order %v", ran)
	}
}

func TestNothingToWriteIsNoCommit(t *testing.T) {
	t.Parallel()
	db := openTest(t, Options{NoSync: true})
	before := db.Stats().Commits
	hook := make(chan struct{})
	_, err := submit(db, "test.read", nil, func(_ *bbolt.Tx, c *commitCtx) (int, error) {
		c.afterCommit(func() { close(hook) })
		return 1, nil
	}).Wait(within(t))
	if err != nil {
		t.Fatal(err)
	}
	<-hook
	if n := db.Stats().Commits - before; n != 0 {
		t.Errorf("got %d commits, want none", n)
	}
}

// batch puts three operations into one batch, of which the second is bad.
func batch(t *testing.T, db *DB, bad func(*bbolt.Tx, *commitCtx) (struct{}, error)) (first, second, third, chained *commit.Promise[struct{}]) {
	t.Helper()
	g := holdCommitter(t, db)
	first = put(db, "first")
	second = submit(db, "test.bad", nil, bad)
	third = put(db, "third")
	chained = put(db, "chained", second)
	g.release()
	for _, p := range []*commit.Promise[struct{}]{first, second, third, chained} {
		select {
		case <-p.Done():
		case <-within(t).Done():
			t.Fatal("a ticket does not end")
		}
	}
	return first, second, third, chained
}

func TestAnErrorLeavesTheBatchAlone(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		bad     func(*bbolt.Tx, *commitCtx) (struct{}, error)
		want    error
		commits int64
	}{
		{"error before a change", func(*bbolt.Tx, *commitCtx) (struct{}, error) { return struct{}{}, errTest }, errTest, 1},
		{"error after a change", func(_ *bbolt.Tx, c *commitCtx) (struct{}, error) {
			return struct{}{}, errors.Join(c.put(testBucket, []byte("bad"), nil), errTest)
		}, errTest, 2},
		{"panic", func(_ *bbolt.Tx, c *commitCtx) (struct{}, error) {
			if err := c.put(testBucket, []byte("bad"), nil); err != nil {
				return struct{}{}, err
			}
			panic(errTest)
		}, errTest, 2},
		{"runtime panic", func(*bbolt.Tx, *commitCtx) (struct{}, error) {
			var none []string
			return struct{}{}, errors.New(none[len(none)])
		}, nil, 2},
		{"bbolt refuses", func(_ *bbolt.Tx, c *commitCtx) (struct{}, error) {
			return struct{}{}, c.put(testBucket, nil, nil)
		}, berrors.ErrKeyRequired, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			db := openTest(t, Options{NoSync: true})
			before := db.Stats().Commits
			first, second, third, chained := batch(t, db, tt.bad)
			if first.Err() != nil || third.Err() != nil {
				t.Errorf("got errors %v and %v of the neighbours", first.Err(), third.Err())
			}
			if err := second.Err(); err == nil || tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("got error %v, want %v", err, tt.want)
			}
			if !errors.Is(chained.Err(), commit.ErrSkipped) {
				t.Errorf("got error %v behind it, want commit.ErrSkipped", chained.Err())
			}
			if diff := cmp.Diff([]string{"first", "third"}, stored(t, db)); diff != "" {
				t.Errorf("stored (-want +got):\n%s", diff)
			}
			if n := db.Stats().Commits - before; n != tt.commits {
				t.Errorf("got %d commits, want %d", n, tt.commits)
			}
		})
	}
}

func TestAPanicIsTyped(t *testing.T) {
	t.Parallel()
	log := &testLog{}
	db := openTest(t, Options{NoSync: true, Logger: log.logger()})
	p := submit(db, "test.bad", nil, func(*bbolt.Tx, *commitCtx) (int, error) { panic(errTest) })
	_, err := p.Wait(within(t))
	var s *state.StorageError
	if !errors.As(err, &s) || s.Op != "test.bad" || s.Ambiguous || s.Retryable() || s.ErrorCode() != "STORAGE_ERROR" {
		t.Errorf("got error %#v, want a *state.StorageError of test.bad", err)
	}
	p = submit(db, "test.page", nil, func(*bbolt.Tx, *commitCtx) (int, error) { panic("assertion failed: page 7") })
	_, err = p.Wait(within(t))
	var c *CorruptError
	if !errors.As(err, &c) || c.Path != db.path() || !strings.Contains(err.Error(), "page 7") {
		t.Errorf("got error %v, want a *CorruptError of page 7", err)
	}
	if !strings.Contains(log.String(), "alarm=storage_panic") {
		t.Errorf("the log has no alarm: %s", log)
	}
}

func TestStrictPanicsOnAnErrorAfterAChange(t *testing.T) {
	t.Parallel()
	db := openTest(t, Options{NoSync: true})
	db.strict = true
	defer func() {
		if r := recover(); r == nil || !strings.Contains(r.(string), "failed after it changed something") {
			t.Errorf("got panic %v", r)
		}
	}()
	o := &op{name: "test.bad", run: func(_ *bbolt.Tx, c *commitCtx) error {
		c.dirty = true
		return errTest
	}}
	err := db.apply(nil, o, &commitCtx{})
	t.Errorf("got error %v, want a panic", err)
}

func TestALazyOperationGoesWithTheNext(t *testing.T) {
	t.Parallel()
	db := openTest(t, Options{NoSync: true})
	before := db.Stats().Commits
	g := holdCommitter(t, db)
	lazy := submitLazy(db, "test.lazy", nil, func(_ *bbolt.Tx, c *commitCtx) (struct{}, error) {
		return struct{}{}, c.put(testBucket, []byte("lazy"), nil)
	})
	next := put(db, "next")
	g.release()
	if err := commit.Wait(within(t), next, lazy); err != nil {
		t.Fatal(err)
	}
	if n := db.Stats().Commits - before; n != 1 {
		t.Errorf("got %d commits, want 1", n)
	}
	alone := submitLazy(db, "test.lazy", nil, func(_ *bbolt.Tx, c *commitCtx) (struct{}, error) {
		return struct{}{}, c.put(testBucket, []byte("alone"), nil)
	})
	if err := commit.Wait(within(t), alone); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"alone", "lazy", "next"}, stored(t, db)); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
}

func TestCloseCommitsWhatWaits(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db := openTest(t, Options{Dir: dir})
	g := holdCommitter(t, db)
	tickets := []commit.Ticket{put(db, "a"), put(db, "b")}
	lazy := submitLazy(db, "test.lazy", nil, func(_ *bbolt.Tx, c *commitCtx) (struct{}, error) {
		return struct{}{}, c.put(testBucket, []byte("lazy"), nil)
	})
	outside := put(db, "outside", commit.NewPromise[int]())
	closed := make(chan error)
	go func() { closed <- db.Close() }()
	<-db.closing
	g.release()
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	if err := commit.Wait(within(t), append(tickets, lazy)...); err != nil {
		t.Errorf("got error %v of a write that waited", err)
	}
	if err := commit.Wait(within(t), outside); !errors.Is(err, ErrClosed) {
		t.Errorf("got error %v of a write that waits for something else, want ErrClosed", err)
	}
	if err := commit.Wait(within(t), put(db, "late")); !errors.Is(err, ErrClosed) {
		t.Errorf("got error %v of a later write, want ErrClosed", err)
	}
	if _, _, err := db.State().Get(t.Context(), state.Key{Scope: "s", Key: "k"}); !errors.Is(err, ErrClosed) {
		t.Errorf("got error %v of a later read, want ErrClosed", err)
	}
	if _, err := db.Feed(FeedState).Next(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("got error %v of a later Next, want ErrClosed", err)
	}
	if err := db.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
	// Open would refuse the bucket of the test.
	editFile(t, dir, func(tx *bbolt.Tx) error {
		if diff := cmp.Diff([]string{"a", "b", "lazy"}, keys(t, tx)); diff != "" {
			t.Errorf("stored (-want +got):\n%s", diff)
		}
		return nil
	})
}

func TestAHookRunsBeforeItsTicketEnds(t *testing.T) {
	t.Parallel()
	db := openTest(t, Options{NoSync: true})
	var p *commit.Promise[struct{}]
	var early, seen atomic.Bool
	g := holdCommitter(t, db)
	p = submit(db, "test.hook", nil, func(_ *bbolt.Tx, c *commitCtx) (struct{}, error) {
		c.afterCommit(func() {
			select {
			case <-p.Done():
			default:
				early.Store(true)
			}
			seen.Store(len(stored(t, db)) == 1)
		})
		return struct{}{}, c.put(testBucket, []byte("k"), nil)
	})
	g.release()
	if err := commit.Wait(within(t), p); err != nil {
		t.Fatal(err)
	}
	if !early.Load() || !seen.Load() {
		t.Errorf("ran before the ticket ended: %v; saw the commit: %v; want both", early.Load(), seen.Load())
	}
}

func TestALateWriteThatWouldHaveToWait(t *testing.T) {
	t.Parallel()
	db := openTest(t, Options{NoSync: true})
	closeTest(t, db)
	if err := commit.Wait(within(t), put(db, "k", commit.NewPromise[int]())); !errors.Is(err, ErrClosed) {
		t.Errorf("got error %v, want ErrClosed", err)
	}
}

func TestATicketThatIsNoPointer(t *testing.T) {
	t.Parallel()
	db := openTest(t, Options{NoSync: true})
	done := make(chan struct{})
	close(done)
	if err := commit.Wait(within(t), put(db, "k", oddTicket{done, []int{1}})); err != nil {
		t.Error(err)
	}
}

// oddTicket cannot be the key of a map.
type oddTicket struct {
	done chan struct{}
	_    []int
}

func (o oddTicket) Done() <-chan struct{} { return o.done }
func (oddTicket) Err() error              { return nil }

func TestACommitThatFails(t *testing.T) {
	t.Parallel()
	t.Run("before the disk has it", func(t *testing.T) {
		t.Parallel()
		db := openTest(t, Options{NoSync: true})
		setTest(t, db, "s", "k", `1`)
		db.bolt.MaxSize = 1
		g := holdCommitter(t, db)
		large := submit(db, "test.large", nil, func(_ *bbolt.Tx, c *commitCtx) (struct{}, error) {
			return struct{}{}, c.put(testBucket, []byte("large"), make([]byte, 1<<20))
		})
		lost := submit(db, "test.conflict", nil, func(*bbolt.Tx, *commitCtx) (struct{}, error) { return struct{}{}, errTest })
		skipped := put(db, "skipped", lost)
		g.release()
		for _, p := range []*commit.Promise[struct{}]{large, lost} {
			var s *state.StorageError
			if err := commit.Wait(within(t), p); !errors.As(err, &s) || s.Ambiguous {
				t.Errorf("got error %v, want a *state.StorageError that is not ambiguous", err)
			}
		}
		if err := commit.Wait(within(t), skipped); !errors.Is(err, commit.ErrSkipped) {
			t.Errorf("got error %v, want commit.ErrSkipped", err)
		}
		db.bolt.MaxSize = 0
		setTest(t, db, "s", "k", `2`)
		wantStored(t, db, "s", "k", `2`)
		if keys := stored(t, db); len(keys) != 0 {
			t.Errorf("got %v, want nothing of the failed commit", keys)
		}
	})
	t.Run("and nobody knows whether the disk has it", func(t *testing.T) {
		t.Parallel()
		log := &testLog{}
		db := openTest(t, Options{NoSync: true, Logger: log.logger()})
		g := holdCommitter(t, db)
		db.commitBolt = func(tx *bbolt.Tx) error { return errors.Join(tx.Commit(), io.ErrShortWrite) }
		p := put(db, "k")
		lost := submit(db, "test.conflict", nil, func(*bbolt.Tx, *commitCtx) (struct{}, error) { return struct{}{}, errTest })
		g.release()
		var s *state.StorageError
		if err := commit.Wait(within(t), p); !errors.As(err, &s) || !s.Ambiguous || !errors.Is(err, io.ErrShortWrite) {
			t.Errorf("got error %v, want an ambiguous *state.StorageError", err)
		}
		if err := commit.Wait(within(t), lost); !errors.As(err, &s) || s.Ambiguous {
			t.Errorf("got error %v of an operation that was not applied, want one that is not ambiguous", err)
		}
		if err := commit.Wait(within(t), put(db, "next")); !errors.As(err, &s) || s.Ambiguous || s.Retry {
			t.Errorf("got error %v of the next write, want a refusal", err)
		}
		if !strings.Contains(log.String(), "alarm=storage_broken") {
			t.Errorf("the log has no alarm: %s", log)
		}
	})
	t.Run("by a panic of one operation", func(t *testing.T) {
		t.Parallel()
		db := openTest(t, Options{NoSync: true})
		g := holdCommitter(t, db)
		db.commitBolt = func(tx *bbolt.Tx) error {
			if tx.Bucket(testBucket).Get([]byte("bad")) != nil {
				panic("page 3: multiple references")
			}
			return tx.Commit()
		}
		good, bad := put(db, "good"), put(db, "bad")
		g.release()
		if err := commit.Wait(within(t), good); err != nil {
			t.Errorf("got error %v of the neighbour", err)
		}
		var c *CorruptError
		if err := commit.Wait(within(t), bad); !errors.As(err, &c) {
			t.Errorf("got error %v, want a *CorruptError", err)
		}
		if diff := cmp.Diff([]string{"good"}, stored(t, db)); diff != "" {
			t.Errorf("stored (-want +got):\n%s", diff)
		}
	})
}
