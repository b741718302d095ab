// Package agent holds the wire types that the jobs of the harness share:
// messages and their blocks, what a provider streams, the events of a session
// and the rows that one job writes and another reads.
//
// # Contract
//
// A [Message] is written with the members of its role and no others, in one
// fixed order, so that equal messages are equal bytes. It is read leniently
// where clients and models differ: content may be a plain text, a timestamp any
// number, unknown members are ignored, and a block of an unknown type is kept
// as it came. What cannot be read is a [*MessageError] that names the member
// and what is allowed there. What is written is valid UTF-8 even if what was
// read was not.
//
// An [Accumulator] turns the events of a provider's stream into the message so
// far. Inside the harness events carry no copy of it.
//
// # Limits
//
// Blocks nest at most [MaxNesting] deep. Reading and accumulating cost time and
// memory in proportion to what comes in, however small its pieces.
package agent
