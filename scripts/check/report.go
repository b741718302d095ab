package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// event is a line of `go test -json`.
type event struct {
	Action      string
	Package     string
	Test        string
	Output      string
	FailedBuild string
}

// report turns the events of `go test -json` into what a person wants to see of them: a line per
// package, failures in full, nothing of the tests that passed.
type report struct {
	out      io.Writer
	tally    *tally
	packages map[string]*packageReport
}

// packageReport is what is known of a package whose tests are running.
type packageReport struct {
	output  bytes.Buffer             // what belongs to no test
	running map[string]*bytes.Buffer // the output of each test that has not ended
	failed  bool                     // a test of it failed
}

func newReport(out io.Writer, t *tally) *report {
	return &report{out: out, tally: t, packages: map[string]*packageReport{}}
}

// read handles events up to the end of r. A line that is no event is passed on as it is.
func (r *report) read(events io.Reader) error {
	for lines := bufio.NewReader(events); ; {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) == nil && e.Action != "" {
				r.handle(e)
			} else {
				fmt.Fprintf(r.out, "%s\n", bytes.TrimRight(line, "\r\n"))
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the output of go test: %w", err)
		}
	}
}

func (r *report) handle(e event) {
	if e.Action == "build-output" {
		fmt.Fprint(r.out, e.Output)
		return
	}
	if e.Package == "" {
		return
	}
	p := r.packages[e.Package]
	if p == nil {
		p = &packageReport{running: map[string]*bytes.Buffer{}}
		r.packages[e.Package] = p
	}
	if e.Test != "" {
		r.handleTest(e, p)
	} else {
		r.handlePackage(e, p)
	}
}

func (r *report) handleTest(e event, p *packageReport) {
	output := p.running[e.Test]
	if output == nil {
		output = new(bytes.Buffer)
		p.running[e.Test] = output
	}
	switch e.Action {
	case "output":
		if !isProgress(e.Output) {
			output.WriteString(e.Output)
		}
		return
	case "pass":
		r.tally.passed++
	case "skip":
		r.tally.skipped = append(r.tally.skipped, skip{test: e.Package + "." + e.Test, reason: skipReason(output.String())})
	case "fail":
		r.tally.failed++
		p.failed = true
		fmt.Fprintf(r.out, "\n%s.%s:\n%s\n", e.Package, e.Test, output)
	default: // run, pause, cont and what later releases add
		return
	}
	delete(p.running, e.Test)
}

func (r *report) handlePackage(e event, p *packageReport) {
	switch e.Action {
	case "output":
		if !strings.HasPrefix(e.Output, "coverage: ") {
			p.output.WriteString(e.Output)
		}
		return
	case "pass":
		for line := range strings.Lines(p.output.String()) {
			if strings.HasPrefix(line, "ok  \t") {
				// The share of all gated packages that this one's tests run says nothing here.
				line, _, _ = strings.Cut(strings.TrimSuffix(line, "\n"), "\tcoverage: ")
				fmt.Fprintln(r.out, line)
			}
		}
	case "fail":
		// A panic or an exit ends the process without a word on the tests that were under way.
		for _, test := range slices.Sorted(maps.Keys(p.running)) {
			r.tally.failed++
			p.failed = true
			fmt.Fprintf(r.out, "\n%s.%s did not end:\n%s\n", e.Package, test, p.running[test])
		}
		if !p.failed {
			r.tally.failed++
		}
		fmt.Fprint(r.out, p.output.String())
	case "skip": // it has no test files
	default:
		return
	}
	delete(r.packages, e.Package)
}

// isProgress tells the lines by which a test binary marks whose output follows.
func isProgress(line string) bool {
	for _, mark := range []string{"=== RUN   ", "=== PAUSE ", "=== CONT  ", "=== NAME  "} {
		if strings.HasPrefix(line, mark) {
			return true
		}
	}
	return false
}

const noReason = "no reason given"

// skipReason is what a skipped test said, in one line.
func skipReason(output string) string {
	var words []string
	for line := range strings.Lines(output) {
		if !strings.HasPrefix(strings.TrimSpace(line), "--- SKIP: ") {
			words = append(words, strings.Fields(line)...)
		}
	}
	if len(words) == 0 {
		return noReason
	}
	return strings.Join(words, " ")
}
