// Package gateway is the socket side of the bus on one machine.
//
// # Contract
//
// One WebSocket endpoint, path "/". Who may connect: a peer on the loopback
// interface that sends no Origin, or one of the server's own pages, may do so
// without a token unless tokens are required; everybody else needs one, in the
// Authorization header or the query parameter token, or a ticket made with one,
// in the subprotocol harness.ticket.<ticket> or the query parameter ticket. A
// refused peer gets 401, a page of a foreign origin 403, before the upgrade.
//
// With Config.Strict the server behaves as API Gateway does: the path is that
// of the stage and every other one is answered with 403, a token is always
// needed, its limits of size and time hold, binary closes with 1003, nothing is
// sent before the peer's first frame, and there is no order among frames.
//
// A peer that connects with the query chunks=1 gets frames above 32 KB in
// chunks and may send its own so.
//
// # Ordering and delivery
//
// Frames of one connection are read in order; on a strict server they are
// handled beside and before each other, in an order that the seed repeats.
// Frames to one connection go out in the order in which they were sent, through
// a queue of 64 and 64 MiB; a full queue holds its senders back. Those that are
// ready together leave in one write.
//
// # Failure and retry
//
// A frame that cannot be read is logged and dropped; the connection stays. A
// peer that takes no bytes for 30 s is cut. A token that is revoked or runs out
// ends its connections with 1008: from then on nothing is taken from them. On
// shutdown sockets close with 1001.
//
// # Limits
//
// 10 s for the upgrade request, 5 s for the announce that fixes the namespace,
// 10,000 registrations that wait for it, 16 MiB a frame and 64 MiB a message;
// strict: 32 KB and 128 KB, ten minutes without a message, two hours in all
// (1001). What is larger closes with 1009, before any of it is kept. Chunked: 20
// MB a message, 8 unfinished ones, for 60 s. An answer that does not fit is
// bus.ErrTooLarge to its sender, which answers with an error.
package gateway
