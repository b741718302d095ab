package embedded

import (
	"encoding/binary"
	"fmt"
)

// A counter gives the numbers in the keys of a bucket, and never one twice. It is
// a record of metaBucket: bbolt's own sequences have no checksum, and one that
// went back would have new rows replace older ones.

// counted are the buckets with a counter. That of queueBucket counts how often
// the queues were opened.
var counted = [][]byte{feedBucket, queueBucket, messageBucket, deadBucket}

func counterKey(bucket []byte) []byte { return append([]byte("counter/"), bucket...) }

func encodeCounter(key []byte, n uint64) []byte {
	return seal(key, binary.BigEndian.AppendUint64(make([]byte, 0, 12), n))
}

// decodeCounter is the inverse of encodeCounter; it is 0 if there is none.
func decodeCounter(key, data []byte) (uint64, error) {
	if data == nil {
		return 0, nil
	}
	body, err := unseal(key, data)
	if err != nil {
		return 0, err
	}
	if len(body) != 8 {
		return 0, errRecord
	}
	return binary.BigEndian.Uint64(body), nil
}

// next is the next number of a bucket's counter.
func (c *commitCtx) next(bucket []byte) (uint64, error) {
	key := counterKey(bucket)
	n, err := decodeCounter(key, c.bucket(metaBucket).Get(key))
	if err != nil {
		return 0, &CorruptError{Path: c.db.path(), What: metaWhat(key), Err: err}
	}
	return n + 1, c.put(metaBucket, key, encodeCounter(key, n+1))
}

func metaWhat(key []byte) string { return fmt.Sprintf("counter %q", key) }
