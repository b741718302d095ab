// Package step holds the transitions of a turn as functions over its record.
//
// # Contract
//
// A [Record] is everything a turn is: which state it is in, what its calls
// have come to, and what it still owes to the world (its [Outbox]). A
// transition is a method that changes the record in memory and adds to the
// outbox; it does no work outside, reads no clock and knows no port. Whoever
// drives the turn does the outside work, applies the transition, and saves the
// record by one conditional write.
//
// Times are epoch milliseconds and always an argument.
//
// # Ordering and delivery
//
// [Record.Seal] puts what the transitions since the last write emitted behind
// what was owed before, in the order in which it must be delivered: transcript
// entries, rows and calls, events, wakes and timers. Every item has an id that
// is derived from its cause, so that delivering twice changes nothing.
// [Record.Delivered] takes out what was delivered; the next write makes that
// durable. Items do not carry messages: they point at the record's own copy,
// and the record keeps a copy aside when its own is replaced while an item
// still needs it.
//
// # Failure and retry
//
// Parsing is lenient: unknown members are kept, bad ones take their zero. Only
// a record written by newer code is refused, with a [*NewerError]; it must
// never be taken for a missing one.
//
// # Limits
//
// Values above [StoreLimit] are kept by reference; see [Value].
package step
