package main

import (
	"fmt"
	"io"
	"regexp"
)

// tally is what a run of checks came to.
type tally struct {
	passed, failed int
	skipped        []skip
	problems       problems
}

// skip is a test that did not run, and why.
type skip struct {
	test   string // package and name
	reason string
}

// problems are what failed beside the tests, a line each.
type problems []string

// problem notes that something other than a test failed.
func (t *tally) problem(format string, args ...any) {
	t.problems = append(t.problems, fmt.Sprintf(format, args...))
}

// print writes a line for each problem and returns the exit code they stand for.
func (p problems) print(w io.Writer) int {
	for _, text := range p {
		fmt.Fprintf(w, "check: %s\n", text)
	}
	if len(p) > 0 {
		return exitFailed
	}
	return exitOK
}

// finish writes the closing lines and returns the exit code.
func (t *tally) finish(w io.Writer, ci bool) int {
	printSkipped(w, t.skipped)
	if ci && len(t.skipped) > 0 {
		t.problem("skipped tests are failures under CI=true")
	}
	if t.passed+t.failed+len(t.skipped)+len(t.problems) == 0 {
		t.problem("nothing ran")
	}
	code := t.problems.print(w)
	if t.failed > 0 {
		code = exitFailed
	}
	fmt.Fprintf(w, "%d passed, %d failed, %d skipped\n", t.passed, t.failed, len(t.skipped))
	return code
}

// place is where in the source a test said something.
var place = regexp.MustCompile(`^[^ ]+_test\.go:[0-9]+: `)

// printSkipped writes a line for each skipped test. Those that miss the same
// thing share one.
func printSkipped(w io.Writer, skipped []skip) {
	more := map[string]int{}
	for _, s := range skipped {
		more[place.ReplaceAllString(s.reason, "")]++
	}
	for _, s := range skipped {
		reason := place.ReplaceAllString(s.reason, "")
		switch n := more[reason]; {
		case n == 1 || reason == noReason:
			fmt.Fprintf(w, "skipped: %s: %s\n", s.test, s.reason)
		case n > 1:
			fmt.Fprintf(w, "skipped: %s and %d more: %s\n", s.test, n-1, reason)
			more[reason] = 0
		}
	}
}
