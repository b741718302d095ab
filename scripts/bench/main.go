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
}

// measurements are what bench makes, in this order. Each prints benchmark lines to out and what went
// wrong to errOut; its error is printed by run. A new kind of measurement is added here.
var measurements = []func(ctx context.Context, opts options, out, errOut io.Writer) error{
	goBenchmarks,
}

// run carries out a command line and returns the exit code.
func run(ctx context.Context, dir string, args []string, out, errOut io.Writer) int {
	opts := options{dir: dir}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(errOut)
	flags.StringVar(&opts.bench, "bench", ".", "`regexp` of the benchmarks to run")
	flags.StringVar(&opts.benchtime, "benchtime", "1s", "how long each runs: a duration, or a number of runs such as 100x")
	flags.IntVar(&opts.count, "count", 1, "how often each runs")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if opts.packages = flags.Args(); len(opts.packages) == 0 {
		opts.packages = []string{"./..."}
	}
	code := 0
	for _, measure := range measurements {
		if err := measure(ctx, opts, out, errOut); err != nil {
			fmt.Fprintf(errOut, "bench: %v\n", err)
			code = 1
		}
	}
	return code
}
