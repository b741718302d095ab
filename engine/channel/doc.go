// Package channel is the port for data channels, and the broker that keeps them in one process.
//
// # Contract
//
// A channel carries messages from one writer to one reader. Both ends are named by a [Ref]: whoever holds one may open
// that end, once. [Local] is the broker; [Endpoints] serves engine::channels::create over any broker.
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
// A buffer of 1 to [MaxBuffer] messages; a writer waits while it is full.
package channel
