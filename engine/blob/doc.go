// Package blob is the port for blobs, and the built-in function that reads them.
//
// # Contract
//
// A blob is a byte string that never changes. It belongs to a session, and its id is derived from session and content.
// Values carry a [Ref] to it. [Store] is the port; backends live in packages of their own. [Endpoints] serves
// blob::read over any store.
//
// # Failure and retry
//
// Put is idempotent. A blob of a session that the caller may not see answers exactly like a missing one.
//
// # Limits
//
// Blobs up to [MaxSize]; one read gives at most [MaxRead] bytes, [DefaultRead] unless asked for more.
package blob
