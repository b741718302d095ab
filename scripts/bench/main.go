package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, ".", os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// options are the command line's.
type options struct {
	dir       string   // the module's folder
	packages  []string // patterns; ./... if none is given
	bench     string   // regular expression of the benchmarks to run
	benchtime string
	count     int
	sdk       bool // measure with the stock SDK instead
	scale     float64
}

// measurement is one kind of measurement. It prints its figures to out and what went wrong to errOut;
// its error is printed by run.
type measurement func(ctx context.Context, opts options, out, errOut io.Writer) error

// run carries out a command line and returns the exit code.
func run(ctx context.Context, dir string, args []string, out, errOut io.Writer) int {
	opts := options{dir: dir}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(errOut)
	flags.StringVar(&opts.bench, "bench", ".", "`regexp` of the benchmarks to run")
	flags.StringVar(&opts.benchtime, "benchtime", "1s", "how long each runs: a duration, or a number of runs such as 100x")
	flags.IntVar(&opts.count, "count", 1, "how often each runs")
	flags.BoolVar(&opts.sdk, "sdk", false, "no Go benchmarks: dev with two processes on the stock Node SDK, beside the figures of the iii engine")
	flags.Float64Var(&opts.scale, "scale", 1, "with -sdk: how much to measure, 0.01 for a quick look")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if opts.packages = flags.Args(); len(opts.packages) == 0 {
		opts.packages = []string{"./..."}
	}
	measure := measurement(goBenchmarks)
	if opts.sdk {
		measure = sdkFigures
	}
	if err := measure(ctx, opts, out, errOut); err != nil {
		fmt.Fprintf(errOut, "bench: %v\n", err)
		return 1
	}
	return 0
}
