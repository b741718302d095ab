// Package queue is the port for queues of function calls, with the consumer
// that serves them and the functions that the bus shows over them.
//
// # Contract
//
// A queue holds calls: a function id and its data. A standard queue has no
// order. A FIFO queue keeps the order within a group and lets one message of a
// group out at a time. [Queue] is what a backend implements; [Consumer] runs
// handlers on it and [Endpoints] serves queue::define and its siblings.
//
// # Ordering and delivery
//
// Delivery is at least once. A received message is hidden for the queue's
// visibility and comes back when that ends, unless it was acknowledged or its
// visibility was extended. Each receive gives a new receipt; an older receipt
// changes nothing, it gets [ErrStale]. In a FIFO queue a message that waits,
// hidden or backing off, blocks its group. A dedup id is remembered for
// [DedupWindow], also when the message is long gone.
//
// # Failure and retry
//
// A failed receive is followed by a pause of Config.Backoff, doubled each time.
// A message that was received Config.MaxReceives times and not acknowledged,
// whether its handler failed or its visibility ended, becomes a dead letter
// with the text of the error, kept until it is redriven or discarded. Redrive
// starts its receives again and puts it at the back.
//
// A handler may return an error with a method RetryAfter to choose the pause
// ([Delayed]), or [ErrNoTarget] to wait without spending a receive.
//
// What is stored of an error is "code: message" without secrets, at most 4 KB;
// see [ErrorText].
//
// # Limits
//
// Data has at most state.MaxValue bytes; above that, Submit fails with a
// *TooLargeError. Backends may keep large data elsewhere, unseen by callers, as
// long as the message or its dead letter lives.
//
// A backend may hand out at most ten messages in one Receive. A visibility is
// at most [MaxVisibility], a group or a dedup id has at most 128 bytes on
// backends that store it as it is; [Group] and [DedupKey] hash what is longer.
package queue
