package embedded

import (
	"encoding/binary"
	"time"
)

// The top-level buckets and the form of their keys; see key.go for tuples.
var (
	// (scope, key) -> record
	stateBucket = []byte("state")
	// (scope) time (key) -> nothing: the index of state.Store.Due
	dueBucket = []byte("state_due")
	// (stream, group, item) -> record
	streamBucket = []byte("stream")
	// (stream, group) -> logHead
	logBucket = []byte("stream_log")
	// time kind key -> nothing: what ends when
	expiryBucket = []byte("expiry")
	// file id -> nothing: the files that a record refers to
	valueBucket = []byte("value_file")
	// blob id -> blobRow
	blobBucket = []byte("blob")
	// number -> feedRow
	feedBucket = []byte("feed")
)

// buckets are made when a file is made.
var buckets = [][]byte{
	metaBucket, stateBucket, dueBucket, streamBucket, logBucket, expiryBucket, valueBucket, blobBucket, feedBucket,
}

// appendTime appends epoch milliseconds so that bytes sort as times do.
func appendTime(b []byte, ms int64) []byte {
	return binary.BigEndian.AppendUint64(b, uint64(ms)^1<<63)
}

// takeTime is the inverse of appendTime.
func takeTime(b []byte) (ms int64, rest []byte, ok bool) {
	if len(b) < 8 {
		return 0, nil, false
	}
	return int64(binary.BigEndian.Uint64(b) ^ 1<<63), b[8:], true
}

// millis is t as it is stored; 0 for the zero time. A real time of 0 would
// read as none, so it is stored a millisecond off.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	if ms := t.UnixMilli(); ms != 0 {
		return ms
	}
	return 1
}
