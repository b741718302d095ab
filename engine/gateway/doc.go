// Package gateway is the socket side of the bus on one machine.
//
// # Contract
//
// One WebSocket endpoint, path "/". Who may connect: a peer on the loopback
// interface that sends no Origin, or one of the server's own pages, may do so
// without a token unless tokens are required; everybody else needs one, in the
// Authorization header or the query parameter token. A refused peer gets 401,
// a page of a foreign origin 403, before the upgrade.
//
// # Ordering and delivery
//
// Frames of one connection are read in order. Frames to one connection go out
// in the order in which they were sent, through a queue of 64; a full queue
// holds its senders back.
//
// # Failure and retry
//
// A frame that cannot be read is logged and dropped; the connection stays. A
// peer that takes no bytes for 30 s is cut. On shutdown sockets close with 1001.
//
// # Limits
//
// 10 s for the upgrade request, 5 s for the announce that fixes the namespace,
// 64 MiB a message (close code 1009 above).
package gateway
