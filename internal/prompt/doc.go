// Package prompt builds the system prompt of a turn and the schema of the one
// tool that a model has.
//
// # Contract
//
// [Build] is a pure function of what provisioning has found: a caller's own
// prompt is used as it is; otherwise the mode, the identity and the skills are
// joined by blank lines. What could not be loaded becomes a notice that says
// how to load it.
package prompt
