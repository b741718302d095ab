package embedded

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"

	"github.com/iii-aws/harness/engine/clock"
)

// The files of a data folder.
const (
	dataFile   = "harness.db"
	pidFile    = "harness.pid"
	valuesDir  = "values"
	blobsDir   = "blobs"
	folderMode = fs.FileMode(0o700)
	fileMode   = fs.FileMode(0o600)
)

// lockWait is how long Open waits for a process that is just ending.
const lockWait = 500 * time.Millisecond

// Options configure a DB.
type Options struct {
	// Dir is the data folder; it is made if it does not exist.
	Dir string
	// Clock is the machine's if nil.
	Clock clock.Clock
	// IDs is the machine's random source if nil.
	IDs clock.IDs
	// Logger discards if nil.
	Logger *slog.Logger
	// NoSync leaves out every sync: quick, and a crash of the machine (not of
	// the process) may lose or damage everything. For tests.
	NoSync bool
	// Fault is called around operations; nil for none.
	Fault FaultHook
	// Strict panics, on the committer's goroutine, when an operation fails
	// after it has changed something. For tests of this package.
	Strict bool
}

// DB is an open data folder. It is safe for concurrent use.
type DB struct {
	dir    string
	clock  clock.Clock
	ids    clock.IDs
	logger *slog.Logger
	fault  FaultHook
	strict bool
	noSync bool

	bolt *bbolt.DB
	// commitBolt is bbolt's commit; tests put a failing one in its place.
	commitBolt func(*bbolt.Tx) error

	counters counters
	line     line
	values   fileStore
	blobs    fileStore

	// closing is closed first; background is what Close then waits for.
	closing    chan struct{}
	background sync.WaitGroup
	stopMu     sync.Mutex
	stopped    bool
	closed     sync.Once
	closeErr   error

	// broken is why no further write is taken, see storageBroken.
	broken atomic.Pointer[brokenError]

	stateWatch  hub
	streamWatch hub
	stateFeed   *Feed
	streamFeed  *Feed
	triggered   atomic.Pointer[triggered]
	sweeper     sweeper
	blobLocks   [64]sync.Mutex
}

// Open opens the data folder and makes it if it does not exist. Errors:
// *LockedError, *FolderError, *CorruptError, *FormatError.
func Open(ctx context.Context, o Options) (*DB, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	db, err := newDB(o)
	if err != nil {
		return nil, err
	}
	if err := db.openFile(ctx); err != nil {
		return nil, err
	}
	if err := db.start(); err != nil {
		return nil, errors.Join(err, db.bolt.Close())
	}
	return db, nil
}

func newDB(o Options) (*DB, error) {
	dir, err := filepath.Abs(o.Dir)
	if err == nil {
		err = os.MkdirAll(dir, folderMode)
	}
	if err != nil {
		return nil, &FolderError{Dir: o.Dir, Err: err}
	}
	db := &DB{
		dir:        dir,
		clock:      o.Clock,
		ids:        o.IDs,
		logger:     o.Logger,
		fault:      o.Fault,
		strict:     o.Strict,
		noSync:     o.NoSync,
		values:     fileStore{dir: filepath.Join(dir, valuesDir), noSync: o.NoSync},
		blobs:      fileStore{dir: filepath.Join(dir, blobsDir), noSync: o.NoSync},
		closing:    make(chan struct{}),
		commitBolt: (*bbolt.Tx).Commit,
	}
	if db.clock == nil {
		db.clock = clock.System()
	}
	if db.ids == nil {
		db.ids = clock.Random()
	}
	if db.logger == nil {
		db.logger = slog.New(slog.DiscardHandler)
	}
	db.line.init()
	return db, nil
}

// start readies the opened file and starts the committer.
func (db *DB) start() error {
	if err := db.format(); err != nil {
		return err
	}
	db.stateFeed, db.streamFeed = newFeed(db, FeedState), newFeed(db, FeedStream)
	if err := db.loadFeeds(); err != nil {
		return err
	}
	if err := db.removeOrphans(); err != nil {
		return err
	}
	pid := strconv.Itoa(os.Getpid()) + "\n"
	if err := os.WriteFile(filepath.Join(db.dir, pidFile), []byte(pid), fileMode); err != nil {
		return &FolderError{Dir: db.dir, Err: err}
	}
	go db.commitAll()
	db.sweepLater()
	return nil
}

// Dir is the data folder.
func (db *DB) Dir() string { return db.dir }

// path is the data file.
func (db *DB) path() string { return filepath.Join(db.dir, dataFile) }

// Close takes no further writes, commits those that wait and closes the file.
// Writes that wait for a ticket from elsewhere end with ErrClosed.
func (db *DB) Close() error {
	db.closed.Do(func() {
		db.stopMu.Lock()
		db.stopped = true
		db.stopMu.Unlock()
		close(db.closing)
		db.line.close()
		<-db.line.done
		db.background.Wait()
		if err := os.Remove(filepath.Join(db.dir, pidFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			db.closeErr = err
		}
		db.closeErr = errors.Join(db.closeErr, db.bolt.Close())
	})
	return db.closeErr
}

// spawn runs fn on a goroutine that Close waits for; false if it is too late.
func (db *DB) spawn(fn func()) bool {
	db.stopMu.Lock()
	defer db.stopMu.Unlock()
	if db.stopped {
		return false
	}
	db.background.Go(fn)
	return true
}

// otherPID reads who has the folder open, 0 if it cannot be told.
func otherPID(dir string) int {
	b, err := os.ReadFile(filepath.Join(dir, pidFile))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0
	}
	return pid
}

// mapSize reserves address space, so that a growing file seldom needs a new
// map, which has to wait for all readers. Only Unix reserves without using.
func mapSize() int {
	if runtime.GOOS == "windows" || strconv.IntSize < 64 {
		return 0
	}
	return 1 << 30
}
