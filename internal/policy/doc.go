// Package policy decides whether an agent's call may run: allow, deny, or ask
// a person.
//
// # Contract
//
// Order: kernel denies, then the rules of the file from top to bottom, the
// first that matches function and all constraints winning, then kernel allows,
// then needs_approval. The decision is a value with its reasons; an error only
// says that the question was malformed.
//
// A constraint looks at one top-level argument. Decoders differ about letter
// case in names, so an allow must hold for every field that a function may
// take for that argument, and a denial applies if one of them calls for it. An
// allow with a constraint on command never covers a compound command, nor one
// with args unless it has a constraint on args as well.
//
// # Failure and retry
//
// A file that cannot be read or has any mistake is rejected as a whole. At
// start there are then no rules and no kernel allows; later the last good
// rules stay, also when the file is gone. Either way an alarm is raised. What
// is odd but no mistake, such as a repeated rule id, is a warning.
//
// # Limits
//
// Patterns are RE2 (https://github.com/google/re2/wiki/Syntax): no lookaround
// and no backreferences. Searches are not anchored. 100 rules decide in
// microseconds.
package policy
