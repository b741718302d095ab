// Package functions holds the manifests of the built-in workers, one folder
// each. A manifest is the only place for the ids of a worker's functions and
// their metadata; the code of the functions is in internal.
//
// # Contract
//
// [Manifests] is all of them, read once; [Parse] reads one. A function id
// belongs to one worker. Mistakes are *strict.Error with file, line, field and
// what is allowed.
package functions
