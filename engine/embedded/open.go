package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// pageSize is that of a new file. Larger pages waste less of themselves on
// values of some KB; smaller ones cost less in a commit that changes little.
const pageSize = 8 << 10

// growStep is by how much the file grows when it must.
const growStep = 1 << 20

// openFile locks, checks and opens the bbolt file.
func (db *DB) openFile(ctx context.Context) (err error) {
	var file *os.File
	var size int64
	defer func() {
		if r := recover(); r != nil {
			err = &CorruptError{Path: db.path(), Err: fmt.Errorf("%v", r)}
		}
		if err != nil && file != nil {
			// bbolt does not close it when it panics; a second close is harmless.
			_ = file.Close()
		}
	}()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	open := func(path string, flag int, mode os.FileMode) (*os.File, error) {
		var openErr error
		if file, openErr = os.OpenFile(path, flag, mode); openErr != nil {
			return nil, &FolderError{Dir: db.dir, Err: openErr}
		}
		if openErr = db.lockAndCheck(ctx, file); openErr != nil {
			return nil, errors.Join(openErr, file.Close())
		}
		info, openErr := file.Stat()
		if openErr == nil {
			size = info.Size()
		}
		return file, openErr
	}
	db.bolt, err = bbolt.Open(db.path(), fileMode, &bbolt.Options{
		Timeout:         lockWait,
		NoSync:          db.noSync,
		FreelistType:    bbolt.FreelistMapType,
		InitialMmapSize: mapSize(),
		NoStatistics:    true,
		PageSize:        pageSize,
		OpenFile:        open,
	})
	if err == nil {
		db.bolt.AllocSize = growStep
	}
	switch {
	case err == nil && size == 0:
		return syncDir(db.dir, db.noSync)
	case err == nil:
		return nil
	case errors.Is(err, berrors.ErrTimeout):
		return &LockedError{Dir: db.dir, PID: otherPID(db.dir)}
	case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrChecksum), errors.Is(err, berrors.ErrVersionMismatch):
		return &CorruptError{Path: db.path(), Err: err}
	}
	var coded interface{ ErrorCode() string }
	if errors.As(err, &coded) || ctx.Err() != nil {
		return err
	}
	return &FolderError{Dir: db.dir, Err: err}
}

// lockAndCheck takes the lock of the data file and checks its content.
func (db *DB) lockAndCheck(ctx context.Context, f *os.File) error {
	const pause = 25 * time.Millisecond
	for waited := time.Duration(0); ; waited += pause {
		ok, err := tryLock(f)
		if err != nil {
			return &FolderError{Dir: db.dir, Err: err}
		}
		if ok {
			break
		}
		if waited >= lockWait {
			return &LockedError{Dir: db.dir, PID: otherPID(db.dir)}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
	info, err := f.Stat()
	if err != nil {
		return &FolderError{Dir: db.dir, Err: err}
	}
	if err := checkFile(f, uint64(info.Size()), checkRecord); err != nil {
		return &CorruptError{Path: db.path(), Err: err}
	}
	return nil
}
