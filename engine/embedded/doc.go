// Package embedded implements the storage ports in one process on one bbolt
// file.
//
// # Contract
//
// [Open] takes a data folder for itself and gives a [DB], from which the ports
// are made. The folder holds harness.db (everything but large bytes), values/
// (values above state.InlineLimit), blobs/ and harness.pid (who has it open).
//
// A write is acknowledged, its ticket ends without an error, only after it was
// synced to the disk. A process that is killed at any moment loses nothing
// that was acknowledged, and keeps all of a transaction or nothing of it.
//
// # Ordering and delivery
//
// One goroutine, the committer, takes all waiting writes, applies them in the
// order in which they were submitted to one bbolt transaction, syncs once and
// ends all their tickets together. A write that comes after another (see
// package commit) therefore shares its commit. Only a write that comes after a
// ticket from elsewhere, or has a value above state.InlineLimit, waits outside
// of the line first.
//
// Reads see every commit whose tickets have ended, and none by halves.
//
// [Queue] keeps in memory which messages are visible and which are out, and in
// the file the messages, their ended receives and the dead letters: a first
// receive writes nothing. [Timer] moves a message to its queue in the commit
// that forgets the timer.
//
// # Failure and retry
//
// A write that fails a condition leaves nothing behind and does not disturb
// its neighbours. One that panics is rolled back with its batch, whose writes
// are then tried one at a time. If the disk refuses a commit, its writes fail
// with a *state.StorageError; if it is not known whether the commit reached
// the disk (the sync of its last page failed) they are Ambiguous and the DB
// refuses further writes, because what the kernel did with the page is
// unknown: open it again.
//
// bbolt has no checksums of its own. The page structure, the names of the
// buckets and every record are checked when the file is opened, and each record
// again whenever it is read: a damaged one is a *CorruptError and is never served. A file with one damaged
// meta page is refused too, although bbolt could go on with the other: the last
// acknowledged commit might be missing.
//
// # Limits
//
// Scopes 512 bytes, keys 1024 bytes, valid UTF-8 without NUL. Values
// state.MaxValue. Stored times have a resolution of a millisecond. An event
// log holds 100,000,000 events.
package embedded
