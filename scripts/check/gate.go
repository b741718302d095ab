package main

import (
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/iii-aws/harness/scripts/internal/gopkg"
)

// fullGates are the packages that must be covered whole: what they get wrong lets a call through, or
// loses a turn.
var fullGates = []string{"internal/policy", "internal/turn/step"}

const (
	fullGate   = 100 // percent of the statements of each of fullGates
	commonGate = 85  // percent of those of every other package below engine and internal

	// mainStatements is how many statements main.go of a main package may have and not be counted.
	mainStatements = 10
)

// gate is the share of its statements, in percent, that a package must have covered; 0 if it has no
// gate. rel is its path below the module's.
func gate(rel string) int {
	switch {
	case slices.Contains(fullGates, rel):
		return fullGate
	case below(rel, "engine/enginetest"), below(rel, "engine/sdk"):
		return 0
	case below(rel, "engine"), below(rel, "internal"):
		return commonGate
	}
	return 0
}

func below(rel, folder string) bool {
	return rel == folder || strings.HasPrefix(rel, folder+"/")
}

// coverage is how much of a gated package ran.
type coverage struct {
	rel             string
	gate            int
	statements, hit int
	missed          []string // where blocks start that did not run, file:line
}

// met tells whether the package is at its gate or above.
func (c coverage) met() bool { return c.hit*100 >= c.gate*c.statements }

// measure adds up the blocks of each gated package. A package with no statement has no entry.
func measure(packages []gopkg.Package, blocks []block) []coverage {
	perFile := map[string]int{}
	for _, b := range blocks {
		perFile[b.file] += b.statements
	}
	perPackage := map[string][]block{}
	for _, b := range blocks {
		dir := path.Dir(b.file)
		perPackage[dir] = append(perPackage[dir], b)
	}
	var all []coverage
	for _, p := range packages {
		c := coverage{rel: p.Rel(), gate: gate(p.Rel())}
		if c.gate == 0 {
			continue
		}
		for _, b := range perPackage[p.ImportPath] {
			name := path.Base(b.file)
			if p.Name == "main" && name == "main.go" && perFile[b.file] <= mainStatements {
				continue
			}
			c.statements += b.statements
			if b.hit {
				c.hit += b.statements
			} else {
				c.missed = append(c.missed, fmt.Sprintf("%s:%d", name, b.line))
			}
		}
		if c.statements > 0 {
			all = append(all, c)
		}
	}
	return all
}

// which says of which packages printCoverage prints the coverage.
type which bool

const (
	everyPackage which = true
	belowGate    which = false
)

// printCoverage prints a table of the packages and returns how many are below their gate. Of those it
// also says where the statements are that did not run.
func printCoverage(w io.Writer, all []coverage, show which) (failed int) {
	const places = 12 // enough to start with, and short enough to read
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, c := range all {
		note := ""
		if !c.met() {
			failed++
			note = "\tnot covered: " + strings.Join(c.missed[:min(places, len(c.missed))], ", ")
			if more := len(c.missed) - places; more > 0 {
				note += fmt.Sprintf(" and %d more", more)
			}
		} else if show == belowGate {
			continue
		}
		// Cut, not rounded: 99.96 % is not all.
		tenths := c.hit * 1000 / c.statements
		fmt.Fprintf(table, "coverage\t%s\t%d.%d %%\tof %d %%%s\n", c.rel, tenths/10, tenths%10, c.gate, note)
	}
	if err := table.Flush(); err != nil {
		fmt.Fprintf(w, "coverage table: %v\n", err)
	}
	return failed
}
