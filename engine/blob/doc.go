// Package blob is the port for blobs, and the built-in functions that read and take them.
//
// # Contract
//
// A blob is a byte string that never changes. It belongs to a session, and its id is derived from session and content.
// Values carry a [Ref] to it. [Store] is the port; backends live in packages of their own. [Endpoints] serves
// blob::read over any store. [Uploads] serves blob::create_upload {size, mime, sha256?, session_id?}: an address that
// takes the bytes of a blob by PUT, for what does not fit a frame. The blob belongs to the session, if the caller names
// one of its own; else it is the caller's alone.
//
// # Failure and retry
//
// An address of an upload holds 256 random bits and is all that is needed: it is good for one blob of exactly the
// announced size, type and hash, for [UploadTTL]. What is not as announced is refused, stored nowhere, and may be sent
// again. Open uploads end with the process.
//
// Put is idempotent. A blob of a session that the caller may not see answers exactly like a missing one.
//
// # Limits
//
// Blobs up to [MaxSize]; one read gives at most [MaxRead] bytes, [DefaultRead] unless asked for more.
// [MaxUploads] open uploads. Blobs without a session are kept for a day.
package blob
