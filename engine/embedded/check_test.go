package embedded

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"
)

// TestCheckTakesWhatIsWritten: no order of puts, deletes, rollbacks and open
// readers makes a file that the check refuses.
func TestCheckTakesWhatIsWritten(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := randomWrites{T: t, r: rand.New(rand.NewPCG(seed, 1)), path: filepath.Join(t.TempDir(), dataFile)}
			w.run(40)
		})
	}
}

type randomWrites struct {
	*testing.T
	r    *rand.Rand
	path string
	// readers are open, so that pages are kept from being free.
	readers []*bbolt.Tx
}

func (w *randomWrites) run(commits int) {
	db, err := bbolt.Open(w.path, fileMode, &bbolt.Options{
		PageSize: minPageSize << w.r.IntN(3), NoSync: true, FreelistType: bbolt.FreelistMapType, InitialMmapSize: 64 << 20,
	})
	if err != nil {
		w.Fatal(err)
	}
	db.AllocSize = growStep
	defer func() {
		for _, tx := range w.readers {
			err = errors.Join(err, tx.Rollback())
		}
		if err := errors.Join(err, db.Close()); err != nil {
			w.Error(err)
		}
	}()
	for n := range commits {
		if err := w.commit(db); err != nil {
			w.Fatal(err)
		}
		if err := w.check(); err != nil {
			w.Fatalf("commit %d: %v", n, err)
		}
	}
}

func (w *randomWrites) check() error {
	f, err := os.Open(w.path)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil {
		err = checkFile(f, uint64(info.Size()), checkRecord)
	}
	return errors.Join(err, f.Close())
}

// commit makes some changes, or takes them back.
func (w *randomWrites) commit(db *bbolt.DB) error {
	switch {
	case w.r.IntN(8) == 0 && len(w.readers) < 4:
		tx, err := db.Begin(false)
		if err != nil {
			return err
		}
		w.readers = append(w.readers, tx)
	case w.r.IntN(8) == 0 && len(w.readers) > 0:
		if err := w.readers[0].Rollback(); err != nil {
			return err
		}
		w.readers = w.readers[1:]
	}
	tx, err := db.Begin(true)
	if err != nil {
		return err
	}
	for range 1 + w.r.IntN(3) {
		if err := w.change(tx); err != nil {
			return errors.Join(err, tx.Rollback())
		}
	}
	if w.r.IntN(8) == 0 {
		return tx.Rollback()
	}
	return tx.Commit()
}

// change puts or deletes a run of neighbours or a few here and there.
func (w *randomWrites) change(tx *bbolt.Tx) error {
	names := [][]byte{stateBucket, messageBucket, feedBucket}
	b, err := tx.CreateBucketIfNotExists(names[w.r.IntN(len(names))])
	if err != nil {
		return err
	}
	b.FillPercent = fillPercent
	run, at := w.r.IntN(2) == 0, w.r.IntN(400)
	put := w.r.IntN(2) == 0
	for range 1 + w.r.IntN(120) {
		at++
		if !run {
			at = w.r.IntN(400)
		}
		key := fmt.Appendf(nil, "%04d", at)
		if at%7 == 0 { // so few fit on a page that branches have branches
			key = append(key, bytesOf('k', maxKey-len(key))...)
		}
		if !put {
			err = b.Delete(key)
		} else if size := w.r.IntN(60); w.r.IntN(20) == 0 {
			err = b.Put(key, seal(key, bytesOf('v', 100*size)))
		} else {
			err = b.Put(key, seal(key, bytesOf('v', size)))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
