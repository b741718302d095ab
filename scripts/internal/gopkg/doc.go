// Package gopkg knows the packages of the module that the scripts work on: where they are, what they
// are called below the module path, and which test functions of a kind (Fuzz, Benchmark) they have.
//
// # Contract
//
// The list comes from `go list`, so that build constraints and patterns mean what they mean to the go
// command. Test functions are read from the source of the test files: a package need not be compiled,
// nor compile, for its functions to be found.
package gopkg
