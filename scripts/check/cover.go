package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/iii-aws/harness/scripts/internal/gopkg"
)

// cover runs all tests with coverage, prints the table of it and judges the gates. If a test failed,
// what it would have covered is missing: then only the table of every package is still worth printing.
func (c *checker) cover(ctx context.Context, t *tally, profile string, show which) error {
	if err := c.test(ctx, t, []string{"./..."}, profile); err != nil {
		return err
	}
	if t.failed > 0 || ctx.Err() != nil {
		fmt.Fprintln(c.out, "coverage is incomplete: tests failed")
		if show == belowGate || ctx.Err() != nil {
			return nil
		}
	}
	return c.judge(ctx, t, profile, show)
}

// judge compares a coverage profile with the gates.
func (c *checker) judge(ctx context.Context, t *tally, profile string, show which) error {
	packages, err := gopkg.List(ctx, c.dir, "./...")
	if err != nil {
		return err
	}
	for _, rel := range fullGates {
		if !slices.ContainsFunc(packages, func(p gopkg.Package) bool { return p.Rel() == rel }) {
			fmt.Fprintf(c.out, "coverage: there is no package %s, so its gate of %d %% judged nothing\n", rel, fullGate)
		}
	}
	if !slices.ContainsFunc(packages, func(p gopkg.Package) bool { return gate(p.Rel()) > 0 }) {
		return nil
	}
	file, err := os.Open(filepath.Join(c.dir, profile))
	if err != nil {
		return fmt.Errorf("coverage: go test left no profile: %w", err)
	}
	blocks, err := readProfile(file)
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	all := measure(packages, blocks)
	if failed := printCoverage(c.out, all, show); failed > 0 {
		t.problem("coverage: %d of %d packages are below their gate", failed, len(all))
	} else {
		fmt.Fprintf(c.out, "coverage: packages at their gates or above: %d, all of them\n", len(all))
	}
	return nil
}
