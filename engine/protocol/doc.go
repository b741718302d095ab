// Package protocol holds the frames of the bus: their Go types, a strict codec, the error bodies they carry, the size
// limits of the wire, and the few edits the bus makes to payloads it otherwise does not look into.
//
// # Contract
//
// One JSON object is one frame; its member "type" names the [Frame]. [Decode] turns the text into a struct and [Encode]
// turns it back. The wire is compatible with the iii engine (https://github.com/iii-hq/iii): member order, omission and
// escaping of encoded frames follow what that engine sends.
//
// Decoding is strict about what a frame must have and lenient about what it may have besides: types and required
// members are checked, unknown members are ignored, a null optional member counts as absent. Member names match exactly,
// after unescaping. A member of the frame that occurs twice makes the frame invalid, so that two readers can never
// disagree about it. Text that is not UTF-8 is refused: forwarded in a text message it would cost the receiver its
// connection. Failures are [DecodeError] values with a stable kind and never quote the payload.
//
// Payloads (data, result, metadata, config, schemas) are opaque: they stay the JSON text they came in, so that key order,
// number spelling and integers of any size survive.
//
// # Aliasing
//
// Opaque members of a decoded frame are slices of the input, not copies; strings are copies. The input must not be
// changed while the frame is in use, and it stays in memory as long as any of its members does. [Append] and [Encode]
// copy, and so do the edits ([SetMembers] and its kin): they return new text and never change their input.
//
// # Ordering and delivery
//
// The package keeps no state and promises no order, with one exception: an [Assembler] puts the pieces of a message
// together in their numbered order, whatever order they arrive in.
//
// # Failure and retry
//
// A result whose invocation_id is readable always decodes, because a dropped result leaves its caller waiting: what is
// wrong with the rest becomes an [Error] with code invocation_failed. Everything else that is malformed is an error and
// meant to be logged and dropped. Decoding and encoding errors are permanent; [Error.Retryable] and
// [ChunkError.Retryable] say which of the others may go away.
//
// # Limits
//
// See the constants: nesting [MaxDepth], frames [MaxFrame] and [MaxMessage] on the local server, [GatewayMaxFrame] and
// [GatewayMaxMessage] on API Gateway, and the bounds of chunked messages. Decode itself does not bound the size; the
// connection that reads a message does.
package protocol
