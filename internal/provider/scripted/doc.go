// Package scripted is a model without a model: it answers by a short file of
// rules, the same way every time, so that demos and tests need no key.
//
// # Contract
//
// Every rule whose pattern matches the last user message takes part: their
// calls go out together, in the order of the rules, and once the results are
// there the answer quotes them, each rule its own. A prompt that no rule knows
// is quoted back. Rules can also call in several rounds, stream slowly, think,
// and fail in the ways real models do.
//
// What a rule says and calls are templates: $1 or ${name} is a group of its
// pattern, $$ a dollar sign; {result}, in say alone, is what its calls gave.
// What is put in is never read as a template again.
//
// The same messages give the same events. The one thing remembered is how often
// a failure with times has happened to a request; it happens so often, then not
// once, then again.
//
// # Failure and retry
//
// The kinds of [Fail] are those of a real provider's errors, and
//
//	cut            the channel closes without a final event
//	silence        nothing more comes until the caller gives up
//	garbage        an event that nobody knows, then the stream goes on
//	length         the answer stops at its length limit
//	refused        the call fails before the first event
//	no_credential  so it does for want of a key
//	duplicate      the final event comes twice
//
// # Limits
//
// A rules file has at most 64 KiB. A quoted result is cut at 4,000 runes.
package scripted
