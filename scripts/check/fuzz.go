package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/iii-aws/harness/scripts/internal/gopkg"
)

// fuzzOptions say how fuzz targets run.
type fuzzOptions struct {
	time string // go test's -fuzztime, for each target
	jobs int    // targets at a time
}

// target is one fuzz function.
type target struct {
	pkg  gopkg.Package
	name string
}

// fuzz runs every fuzz target of the packages that patterns match. Each counts in t as a test.
func (c *checker) fuzz(ctx context.Context, t *tally, patterns []string, opts fuzzOptions) error {
	packages, err := gopkg.List(ctx, c.dir, patterns...)
	if err != nil {
		return err
	}
	var targets []target
	for _, p := range packages {
		names, err := p.TestFuncs(gopkg.Fuzz)
		if err != nil {
			return err
		}
		for _, name := range names {
			targets = append(targets, target{pkg: p, name: name})
		}
	}
	fmt.Fprintf(c.out, "fuzz targets: %d, %s each, %d at a time\n", len(targets), opts.time, opts.jobs)

	queue := make(chan target)
	var workers sync.WaitGroup
	var mu sync.Mutex // guards t and c.out
	for range opts.jobs {
		workers.Go(func() {
			for next := range queue {
				ok, text := c.fuzzOne(ctx, next, opts.time)
				mu.Lock()
				fmt.Fprint(c.out, text)
				if ok {
					t.passed++
				} else {
					t.failed++
				}
				mu.Unlock()
			}
		})
	}
	for _, next := range targets {
		if ctx.Err() != nil {
			break
		}
		queue <- next
	}
	close(queue)
	workers.Wait()
	return nil
}

// fuzzOne runs one target and returns whether it passed, and the text to print: a line if it did, all
// that go test said if not. One worker per target: the targets share the processors among them.
func (c *checker) fuzzOne(ctx context.Context, tg target, fuzztime string) (ok bool, text string) {
	start := time.Now()
	out, err := c.command(ctx, "test", "-vet=off", "-run=^$", "-fuzz=^"+tg.name+"$", "-fuzztime="+fuzztime, "-fuzzminimizetime=1s", "-parallel=1", tg.pkg.ImportPath).CombinedOutput()
	took := time.Since(start).Round(100 * time.Millisecond)
	name := tg.pkg.Rel() + " " + tg.name
	switch {
	case err == nil:
		return true, fmt.Sprintf("fuzz: ok    %s  %s  %s\n", name, took, lastProgress(string(out)))
	case endedByDeadline(string(out), tg.name):
		return true, fmt.Sprintf("fuzz: ok    %s  %s  %s (end of time reported as a failure: go.dev/issue/75804)\n", name, took, lastProgress(string(out)))
	}
	return false, fmt.Sprintf("\nfuzz: FAIL  %s  %s  %v\n%s\n", name, took, err, out)
}

// lastProgress is what the fuzzer last said of its work, such as
// "execs: 1234 (100/sec), new interesting: 3 (total: 9)".
func lastProgress(out string) string {
	progress := ""
	for line := range strings.Lines(out) {
		if _, rest, ok := strings.Cut(line, "execs: "); ok && strings.HasPrefix(line, "fuzz: elapsed: ") {
			progress = "execs: " + strings.TrimSpace(rest)
		}
	}
	return progress
}

// endedByDeadline tells a run that only used up its time from a failure. Up to Go 1.26 the end of
// -fuzztime can come out as the target's failure (go.dev/issue/75804): its whole text is then the
// error of the context, and no input is named.
func endedByDeadline(out, name string) bool {
	if strings.Contains(out, "ailing input") || strings.Count(out, "--- FAIL: ") != 1 {
		return false
	}
	_, rest, _ := strings.Cut(out, "--- FAIL: "+name+" (")
	lines := strings.Split(rest, "\n")
	return len(lines) > 2 && strings.TrimSpace(lines[1]) == "context deadline exceeded" && lines[2] == "FAIL"
}
