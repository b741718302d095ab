// Package pattern matches function ids, scopes and names against globs.
//
// # Contract
//
// The star is the only wildcard: it stands for any run of characters, also
// none, and also across "::". Everything else is literal, letter case
// included. A pattern without a star matches one text, itself. A pattern with
// one never matches a text that holds a newline, so that an id cannot smuggle
// a second line past a rule that its author read as one line.
//
// # Failure and retry
//
// Compile refuses a pattern that could never mean what its author wrote, with
// an *Error that says why. Matching cannot fail.
//
// # Limits
//
// Matching a pattern of p bytes against a text of n takes time in the order of
// p+n for the patterns people write and p*n at worst; there is no
// backtracking over stars. Values are immutable and safe for concurrent use.
package pattern
