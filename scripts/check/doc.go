// Check runs what `make check` runs beyond single go commands: the tests, the coverage gates and the
// fuzz targets. It needs the go command and nothing else.
//
//	check gofmt                       list the files that gofmt would change
//	check test [packages]             run the tests
//	check cover [-profile FILE]       run all tests, print the coverage of every package, judge the gates
//	check fuzz [-time D] [packages]   run every fuzz target
//	check all [-fuzztime D]           run all tests, judge the gates, then run every fuzz target
//
// # Contract
//
// The exit code is 0 if all is well, 1 if a check failed and 2 if the command line is wrong. The last
// line is "N passed, N failed, N skipped": tests with their subtests, and runs of fuzz targets; a
// package that does not build counts as one failure. Before it stand one line for each skipped test
// with its reason, tests that miss the same thing in one line together, and one line for each thing other than a test that failed.
//
// With the environment variable CI set to "true", a skipped test is a failure, and so is a machine on
// which the race detector cannot run.
//
// # Coverage
//
// The tests run once, with the race detector and with coverage of all gated packages in every test
// binary, so that a package is also covered by the tests of its users. The gate is 100 % of the
// statements of internal/policy and internal/turn/step, and 85 % of those of each other package below
// engine/ and internal/. Three things are not counted:
//
//   - engine/enginetest and what is below it: suites are test code, and most of their statements run
//     only when the backend under test is broken;
//   - engine/sdk: it runs the stock SDKs for tests, and without Node and Python none of it runs;
//   - the file main.go of a main package as long as it has at most ten statements: enough to wire a
//     program up, not to hold logic. What a program does belongs into its other files, which count.
//
// Only code that runs in the test binary counts, not what a test starts as a process of its own.
//
// # Fuzzing
//
// Fuzz targets are found in the source, so that finding them builds nothing. As many run at a time as
// there are processors, each with one worker. New inputs go to the build cache. An input that fails is
// written to testdata/fuzz of the package, as go test does it, to be committed with the fix.
package main
