package embedded

import "sync/atomic"

// Stats counts what a DB wrote since it was opened.
type Stats struct {
	// Commits is the number of synced transactions.
	Commits int64
	// Ops is the number of operations that were applied.
	Ops int64
	// Bytes is the size of the keys and values that were put.
	Bytes int64
	// PageBytes is the size of the pages that commits wrote for them.
	PageBytes int64
}

type counters struct{ commits, ops, bytes, pageBytes atomic.Int64 }

// Stats is a snapshot of the counters.
func (db *DB) Stats() Stats {
	c := &db.counters
	return Stats{
		Commits:   c.commits.Load(),
		Ops:       c.ops.Load(),
		Bytes:     c.bytes.Load(),
		PageBytes: c.pageBytes.Load(),
	}
}
