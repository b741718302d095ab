package main

import (
	"fmt"
	"io"
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
	for _, s := range t.skipped {
		fmt.Fprintf(w, "skipped: %s: %s\n", s.test, s.reason)
	}
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
