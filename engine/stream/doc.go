// Package stream is the port for streams, and the built-in functions over it.
//
// # Contract
//
// A stream has groups, a group has items, an item has an id and JSON data. A group is either a plain one, whose items
// are set, updated and deleted, or a log, whose items are appended under a sequence without a gap. [Store] is the port;
// backends live in packages of their own. [Endpoints] serves stream::* over any store, in the shapes and with the error
// texts of the iii engine; a function such as stream::get(chat) stands in for the store of one stream.
//
// # Ordering and delivery
//
// A log is read in the order of its sequence, and never with a gap. Changes reach the triggers of their stream at least
// once, in order per group. Events that are only sent are not stored and may be lost with the process.
//
// # Failure and retry
//
// An append is idempotent by the ids of its events, so it can be repeated whenever its outcome is not known. The errors
// of writes are those of package state.
//
// # Limits
//
// As for values of package state.
package stream
