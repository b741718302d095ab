// Package provider is what the provider workers share: their request, and how
// a stream of events becomes the two functions that a provider serves.
//
// # Contract
//
// provider::<name>::stream writes one JSON text per event into the channel it
// was given, ends with done or error, and closes the channel. It answers
// {"ok":true} also when the model failed: that is told by the error event.
// provider::<name>::complete runs the same stream and answers with the final
// message.
//
// # Failure and retry
//
// Only what fails before the first event is an invocation error: a bad
// request, or a missing credential.
package provider
