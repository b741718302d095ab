// Package client is a worker or a caller over a WebSocket.
//
// # Contract
//
// Dial connects and keeps connected: after a loss it comes back with growing
// pauses (1 s doubled up to 30 s, 30 % jitter), presents its reattach token and
// registers its functions again. A Client is a bus.Invoker.
//
// # Ordering and delivery
//
// Frames go out in the order of the calls that made them. A handler runs on a
// goroutine of its own. A repeated invocation id is run again: the bus is what
// removes duplicates.
//
// # Failure and retry
//
// A call that was sent when the connection was lost ends with *LostError, whose
// Sent is true: nobody knows whether it ran. A call made while there is no
// connection waits for one until its timeout. A panic in a handler is its
// error.
package client
