// Bench runs the benchmarks of the module and prints their result lines and nothing else, in the
// format that benchstat reads. It needs the go command and nothing else.
//
//	bench [-bench REGEXP] [-benchtime D] [-count N] [packages]
//	bench -sdk [-scale F]
//
// With -sdk it starts the program and two processes on the stock Node SDK (which `make sdks` installs),
// and prints latencies, rates, start and memory beside the figures of the public iii engine.
//
// # Contract
//
// The exit code is 0 if every benchmark ran, 1 if one failed (all that go test said of it is then on
// standard error) and 2 if the command line is wrong. Packages without benchmarks are not built.
package main
