//go:build race

package sdk

// The program runs with the race detector too.
var buildFlags = []string{"-race"}
