// Package session keeps the transcript of every session as a tree of entries,
// and the inboxes by which a running turn is steered.
//
// # Contract
//
// A session belongs to the principal that made it; to everybody else who may
// not see it, it does not exist. The tree is the only transcript. An entry
// hangs on its parent; the active path leads from the newest entry that is
// nobody's parent to the root.
//
// A head row per session holds leaf, open calls and counts. It is written in
// the transaction of each append, so that appending to the leaf reads one row
// and never the tree.
//
// # Ordering and delivery
//
// Appends of one session are serialised by the head row. They are idempotent
// by entry id, whole and in part: what is already there is left as it is.
// While a turn runs only the turn appends; others get session_busy. An inbox
// keeps the order of its pushes.
//
// # Failure and retry
//
// A transcript is legal at every instant: a result without its open call is
// refused (orphan_result), and so is a call id that the path already has
// (duplicate_call). Lost races are tried again a bounded number of times.
//
// # Limits
//
// 97 messages a batch, 1,000 items an inbox, ids of 1 to 128 printable
// characters without a slash.
package session
