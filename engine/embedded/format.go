package embedded

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime/debug"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// formatVersion is the layout of the buckets that this version writes. Format 1
// had its counters in bbolt's sequences and no checksums in the index of timers.
const formatVersion = 2

var (
	// formatKey -> formatVersion, counterKey -> counter
	metaBucket = []byte("meta")
	formatKey  = []byte("format")
	// timerDueBucket1 is timerDueBucket in format 1.
	timerDueBucket1 = []byte("timer_due")
)

// format makes the buckets of a new file, brings one of an older format up to
// date, or refuses a file whose layout is not known.
func (db *DB) format() (err error) {
	defer db.contain("open", &err)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	return db.bolt.Update(func(tx *bbolt.Tx) error {
		found, err := db.foundFormat(tx)
		if err == nil && found == 1 {
			err = db.upgrade(tx)
		}
		if err == nil {
			err = db.knownBuckets(tx)
		}
		if err != nil {
			return err
		}
		for _, name := range buckets {
			_, err := tx.CreateBucketIfNotExists(name)
			if errors.Is(err, berrors.ErrIncompatibleValue) {
				return &CorruptError{Path: db.path(), What: "bucket " + string(name), Err: err}
			}
			if err != nil {
				return err
			}
		}
		if found == formatVersion {
			return nil
		}
		return tx.Bucket(metaBucket).Put(formatKey, binary.BigEndian.AppendUint32(nil, formatVersion))
	})
}

// foundFormat is the format of a file, 0 for a new one.
func (db *DB) foundFormat(tx *bbolt.Tx) (int, error) {
	meta := tx.Bucket(metaBucket)
	if meta == nil {
		if name, _ := tx.Cursor().First(); name != nil {
			return 0, &CorruptError{Path: db.path(), Err: errors.New("a bbolt file of another program")}
		}
		return 0, nil
	}
	v := meta.Get(formatKey)
	if len(v) != 4 {
		return 0, &CorruptError{Path: db.path(), What: "format version", Err: errors.New("missing")}
	}
	found := int(binary.BigEndian.Uint32(v))
	if found > formatVersion {
		return 0, &FormatError{Path: db.path(), Found: found, Known: formatVersion}
	}
	if found < 1 {
		return 0, &CorruptError{Path: db.path(), What: "format version", Err: fmt.Errorf("there is no %d", found)}
	}
	return found, nil
}

// knownBuckets refuses a bucket that this format does not have: the names of
// buckets have no checksum, and a changed one would make its bucket anew, empty.
func (db *DB) knownBuckets(tx *bbolt.Tx) error {
	return tx.ForEach(func(name []byte, _ *bbolt.Bucket) error {
		if _, ok := sealed[string(name)]; !ok {
			return &CorruptError{Path: db.path(), What: fmt.Sprintf("bucket %q", name), Err: errors.New("of no known name")}
		}
		return nil
	})
}

// upgrade brings a file of format 1 up to date. What is done already stays.
func (db *DB) upgrade(tx *bbolt.Tx) error {
	meta := tx.Bucket(metaBucket)
	for _, name := range counted {
		b, key := tx.Bucket(name), counterKey(name)
		if b == nil || b.Sequence() == 0 || meta.Get(key) != nil {
			continue
		}
		if err := meta.Put(key, encodeCounter(key, b.Sequence())); err != nil {
			return err
		}
	}
	if tx.Bucket(timerDueBucket1) == nil {
		return nil
	}
	due, err := tx.CreateBucketIfNotExists(timerDueBucket)
	if err != nil {
		return err
	}
	// The timers have checksums, and the old index has none.
	if timers := tx.Bucket(timerBucket); timers != nil {
		err = timers.ForEach(func(k, v []byte) error {
			s, err := decodeTimer(k, v)
			if err != nil {
				return &CorruptError{Path: db.path(), What: fmt.Sprintf("timer %q", k), Err: err}
			}
			return due.Put(s.dueKey(), seal(s.dueKey(), nil))
		})
	}
	if err != nil {
		return err
	}
	return tx.DeleteBucket(timerDueBucket1)
}
