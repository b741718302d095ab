// Package strict reads YAML files whose every mistake must be told: unknown
// and repeated keys, wrong types and values out of range.
//
// # Contract
//
// Decode fills a struct by its yaml tags. An error is an *Error with file,
// line, the path of the field and what is allowed there, in one line. Values
// that implement Checker check themselves after they were filled.
//
// # Limits
//
// A file has at most 1 MiB and one document. Anchors and merge keys are
// refused, so that a line says what it means.
package strict
