package embedded

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/iii-aws/harness/engine/queue"
)

// The dedup ids of a minute lie together, so that they can be dropped together.
const (
	dedupSlot = int64(time.Minute / time.Millisecond)
	// dedupSweep is the most old ids that one send drops; more than it adds.
	dedupSweep = 8
)

// dedupKey is the key of a dedup id that was used in a minute.
func dedupKey(slot int64, name, id string) []byte {
	sum := sha256.Sum256([]byte(id))
	b := make([]byte, 0, 8+len(name)+1+16)
	b = binary.BigEndian.AppendUint64(b, uint64(slot))
	b = append(append(b, name...), separator)
	return append(b, sum[:16]...)
}

// duplicate is the id of the message that used a dedup id within the window, or
// "". A wall clock that was set back does not end the window.
func (q *Queue) duplicate(c *commitCtx, name, id string, nowMS int64) string {
	window := queue.DedupWindow.Milliseconds()
	b := c.bucket(dedupBucket)
	for slot := (nowMS - window) / dedupSlot; slot <= (nowMS+window)/dedupSlot; slot++ {
		key := dedupKey(slot, name, id)
		v := b.Get(key)
		if v == nil {
			continue
		}
		d, err := decodeDedup(key, v)
		if err != nil {
			// Delivery is at least once: better twice than not at all.
			q.db.logger.Error("damaged dedup id ignored", "alarm", "corrupt_dedup", "queue", name, "error", err)
			continue
		}
		if age := nowMS - d.SentAt; age < window && -age < window {
			return d.ID
		}
	}
	return ""
}

// remember stores the dedup id of a message, and drops some that are over.
func (q *Queue) remember(c *commitCtx, m *storedMessage, id string) error {
	cur := c.bucket(dedupBucket).Cursor()
	oldest := binary.BigEndian.AppendUint64(nil, uint64((m.SentAt-queue.DedupWindow.Milliseconds())/dedupSlot))
	var over [][]byte
	for k, _ := cur.First(); k != nil && len(over) < dedupSweep && bytes.Compare(k, oldest) < 0; k, _ = cur.Next() {
		over = append(over, bytes.Clone(k))
	}
	for _, k := range over {
		if err := c.delete(dedupBucket, k); err != nil {
			return err
		}
	}
	key := dedupKey(m.SentAt/dedupSlot, m.Queue, id)
	return c.put(dedupBucket, key, storedDedup{SentAt: m.SentAt, ID: m.ID}.encode(key))
}
