// Package functions holds the manifests of the built-in workers, one folder
// each. A manifest is the only place for the ids of a worker's functions and
// their metadata; the code of the functions is in internal.
package functions
