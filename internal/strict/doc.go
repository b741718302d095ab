// Package strict reads YAML files whose every mistake must be told: unknown
// and repeated keys, wrong types and values out of range.
//
// # Contract
//
// [Decode] fills a struct by its yaml tags; keys without a value leave what is
// there. Fields may be texts, bools, int, int64, float64, durations, pointers,
// structs, lists, maps with text keys, json.RawMessage for a free value, and
// yaml.Node. An error is an [*Error] with file, line, the path of the field and
// what is allowed there, in one line. Types that implement [NodeDecoder] read
// themselves; values that implement [Checker] check themselves after they were
// filled.
//
// A value has the type it has in YAML: 1.5 is no whole number, yes is no bool,
// and a text that looks like a number is put in quotes.
//
// # Limits
//
// A file has at most 1 MiB and one document; a free value nests at most 100
// deep. Anchors, aliases, merge keys and tags of one's own are refused, so that
// a line says what it means.
package strict
