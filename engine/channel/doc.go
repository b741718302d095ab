// Package channel is the port for data channels, and the broker that keeps them in one process.
//
// # Contract
//
// A channel carries messages from one writer to one reader. Both ends are named by a [Ref]: whoever holds one may open
// that end, once. [Local] is the broker; [Endpoints] serves engine::channels::create over any broker, and [Sockets] the
// ends as WebSockets.
//
// # Ordering and delivery
//
// Messages arrive in the order they were written, whole, text as text and binary as binary. The writer may end before
// the reader comes: what was written waits. A writer that was cut off looks like one that has finished, so protocols on
// top need a last message of their own.
//
// # Failure and retry
//
// Once the reader has left, the writer's next write fails with [ErrReaderGone]. A channel of which an end was never
// opened is removed after [OpenWithin]; its other end then ends as if its peer had left. There is no resuming.
//
// # Limits
//
// A buffer of 1 to [MaxBuffer] messages and of 4 MiB, but for one message; a writer waits while it is full. Messages of
// sockets have at most 16 MiB. Connections of one principal have at most [MaxOwned] channels open.
package channel
