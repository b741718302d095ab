// Bench runs the benchmarks of the module and prints their result lines and nothing else, in the
// format that benchstat reads. It needs the go command and nothing else.
//
//	bench [-bench REGEXP] [-benchtime D] [-count N] [packages]
//
// # Contract
//
// The exit code is 0 if every benchmark ran, 1 if one failed (all that go test said of it is then on
// standard error) and 2 if the command line is wrong. Packages without benchmarks are not built.
//
// What is worth measuring and is no Go benchmark has its place in the list of measurements in main.go.
package main
