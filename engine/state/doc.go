// Package state is the port for state, its update operations, and the built-in functions over it.
//
// # Contract
//
// A value is JSON under a scope and a key, with a version that counts its writes. [Store] is the port; backends live in
// packages of their own. [Apply] is what an update does to a value, the same for every backend. [Endpoints] serves
// state::* over any store, in the shapes and with the error texts of the iii engine, plus conditions (expect) and
// versions (with_version).
//
// # Ordering and delivery
//
// Writes of one key are applied one after the other; a transaction is applied whole or not at all. Writes reach the
// triggers of their scope at least once, in order per key, after the write.
//
// # Failure and retry
//
// A condition that does not hold is a [ConflictError]: read again and decide again. A [TooLargeError] and an
// [InvalidKeyError] are permanent. A [StorageError] says whether a retry helps, and whether the write may have been
// applied. An operation of an update that fails is skipped and reported; the others apply.
//
// # Limits
//
// Values up to [MaxValue]; above [InlineLimit] they are stored as blobs, which callers do not notice. Transactions up to
// [MaxTx] writes. Paths up to [MaxPathDepth] segments of [MaxPathSegment] bytes.
package state
