// Package session keeps the transcript of every session as a tree of entries,
// and the inboxes by which a running turn is steered.
//
// # Contract
//
// A session belongs to the principal that made it; an approver may read what
// its globs name, an operator everything. To everybody else it does not exist.
// The tree is the only transcript. An entry hangs on its parent; the active
// path leads from the newest entry that is nobody's parent to the root.
//
// A head row per session holds leaf, open calls and counts, and a mark per call
// id says that the tree has it somewhere. Both are written in the transaction
// of each append, so that appending to the leaf reads one row and never the
// tree. The tree is read when an append starts a new branch, when a call id has
// a mark already, and when the head row is missing.
//
// A copy (fork, clone) belongs to the caller. Its session row is written last,
// so that half a copy is never seen; entries of a copy that was cut off stay
// behind unseen.
//
// # Ordering and delivery
//
// Appends of one session are serialised by the head row. They are idempotent by
// entry id, whole and in part: what is stored is left as it is, the rest hangs
// on it. A batch that does not fit into one transaction is stored in several,
// in order. While a turn runs only the turn and the compaction it waits for
// change the tree; others get session_busy, also when the turn starts between
// their check and their write.
//
// An inbox keeps the order of its pushes. A push is idempotent by item id, also
// when the turn has taken the item meanwhile; an id is used once in a session,
// whatever the inbox.
//
// # Failure and retry
//
// A transcript is legal at every instant: a result without its open call is
// refused (orphan_result), and so is a call id that the path already has
// (duplicate_call). A write whose answer was lost is looked up. Lost races are
// run again, 32 times at most; then the error is storage, which may be retried.
// A value that the store will never take is VALUE_TOO_LARGE.
//
// # Limits
//
// 1,000 messages or parts a batch, 10,000 messages a snapshot, paths of 4,000
// entries in the nested form, 1,000 items an inbox, ids of 1 to 128 bytes of
// printable characters without a slash. An inbox remembers the last 100 ids
// that callers gave to items which were taken.
package session
