package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	c := &checker{dir: ".", goCmd: "go", ci: os.Getenv("CI") == "true", out: os.Stdout, errOut: os.Stderr}
	code := c.run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// checker runs checks in one module.
type checker struct {
	dir    string    // the module's folder
	goCmd  string    // the go command
	ci     bool      // a skip is a failure, and so is a missing race detector
	out    io.Writer // results
	errOut io.Writer // what the go command says beside its results, and wrong usage
}

// run carries out one command line and returns the exit code.
func (c *checker) run(ctx context.Context, args []string) int {
	const commands = "gofmt, test, cover, fuzz, all"
	if len(args) == 0 {
		fmt.Fprintln(c.errOut, "check: which check? One of: "+commands)
		return exitUsage
	}
	flags := flag.NewFlagSet("check "+args[0], flag.ContinueOnError)
	flags.SetOutput(c.errOut)
	var (
		t       tally
		profile = "cover.out"
		fuzzing = fuzzOptions{time: "10s", jobs: runtime.GOMAXPROCS(0)}
		check   func(patterns []string) error
	)
	switch args[0] {
	case "gofmt":
		check = func([]string) error { return c.gofmt(&t) }
	case "test":
		check = func(patterns []string) error { return c.test(ctx, &t, patterns, "") }
	case "cover":
		flags.StringVar(&profile, "profile", profile, "`file` to leave the coverage profile in")
		check = func([]string) error { return c.cover(ctx, &t, profile, everyPackage) }
	case "fuzz":
		flags.StringVar(&fuzzing.time, "time", fuzzing.time, "how long each target runs: a duration, or a number of runs such as 1000x")
		check = func(patterns []string) error { return c.fuzz(ctx, &t, patterns, fuzzing) }
	case "all":
		flags.StringVar(&profile, "profile", profile, "`file` to leave the coverage profile in")
		flags.StringVar(&fuzzing.time, "fuzztime", fuzzing.time, "how long each fuzz target runs: a duration, or a number of runs such as 1000x")
		check = func([]string) error { return c.all(ctx, &t, profile, fuzzing) }
	default:
		fmt.Fprintf(c.errOut, "check: no check is called %q; there are: %s\n", args[0], commands)
		return exitUsage
	}
	if err := flags.Parse(args[1:]); err != nil {
		return exitUsage
	}
	patterns := flags.Args()
	if len(patterns) == 0 {
		patterns = []string{"./..."}
	} else if args[0] != "test" && args[0] != "fuzz" {
		fmt.Fprintf(c.errOut, "check %s: takes no packages, it always checks all; got %q\n", args[0], patterns)
		return exitUsage
	}
	if err := check(patterns); err != nil {
		t.problem("%v", err)
	}
	if ctx.Err() != nil {
		t.problem("interrupted")
	}
	if args[0] == "gofmt" {
		return t.problems.print(c.out)
	}
	return t.finish(c.out, c.ci)
}

// all runs the tests, judges the gates and runs the fuzz targets; the latter only if no test failed,
// for a target whose seeds fail would only say the same again.
func (c *checker) all(ctx context.Context, t *tally, profile string, fuzzing fuzzOptions) error {
	if err := c.cover(ctx, t, profile, belowGate); err != nil {
		return err
	}
	if t.failed > 0 || ctx.Err() != nil {
		fmt.Fprintln(c.out, "fuzz targets not run: tests failed")
		return nil
	}
	return c.fuzz(ctx, t, []string{"./..."}, fuzzing)
}
