// Package client is a worker or a caller over a WebSocket.
//
// # Contract
//
// Dial connects and keeps connected: after a loss it comes back with growing
// pauses (1 s doubled up to 30 s, 30 % jitter), presents its reattach token and
// registers its functions again. A Client is a bus.Invoker. It asks for chunk
// frames, so that large values pass where a message holds 128 KB.
//
// # Ordering and delivery
//
// Frames go out in the order of the calls that made them; the bus need not
// handle them in that order. A handler runs on a goroutine of its own. A call
// that is delivered again within a minute does not run again: it is answered as
// before.
//
// # Failure and retry
//
// A call that was sent when the connection was lost goes on: its result may come
// over the next one, until its timeout. Where there is no connection by then it
// ends with *LostError, whose Sent says whether it may have run. A call made
// while there is no connection waits for one until its timeout. Handlers go on
// without a connection; their results are sent when there is one again. A panic
// in a handler is its error.
//
// # Limits
//
// 20 MB a frame. 64 frames and 64 MiB wait for the connection; who sends more
// waits. Of answered calls 4,096 are remembered for a minute, with 8 MiB of
// results.
package client
