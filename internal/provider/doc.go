// Package provider is what the provider workers share: their request, and how
// a stream of events becomes the two functions that a provider serves.
//
// # Contract
//
// provider::<name>::stream writes one JSON text per event into the channel it
// was given, ends with done or error, and closes the channel, whatever
// happens. It answers {"ok":true} also when the model failed: that is told by
// the error event. provider::<name>::complete runs the same stream and answers
// with the final message.
//
// A [Streamer] is the part that differs: it calls one model.
//
// # Ordering and delivery
//
// Events arrive in the order they were emitted, each once. A stream waits while
// its reader is slow, and ends when the reader has left.
//
// # Failure and retry
//
// Only what fails before the first event is an invocation error: a bad
// request, or a missing credential. What fails later ends the stream with an
// error event of kind transient that holds the message so far. Nothing is
// retried here. Texts of failures carry no known secret.
package provider
