// Package scripted is a model without a model: it answers by a short file of
// rules, the same way every time, so that demos and tests need no key.
//
// # Contract
//
// Every rule whose pattern matches the last user message takes part: their
// calls go out together, in the order of the rules, and once the results are
// there the answer quotes them. A prompt that no rule knows is quoted back.
// Rules can also stream slowly, think, and fail in the ways real models do.
//
// # Limits
//
// A rules file has at most 64 KiB. A quoted result is cut at 4,000 runes.
package scripted
