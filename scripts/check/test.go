package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/iii-aws/harness/scripts/internal/gopkg"
)

// test runs the tests of the packages that patterns match and counts them in t. With a profile it
// also records there which statements of the gated packages ran.
func (c *checker) test(ctx context.Context, t *tally, patterns []string, profile string) error {
	// The end-to-end suite runs once per mode; a loaded machine takes longer than
	// the ten minutes that go test gives a package.
	args := []string{"test", "-json", "-vet=off", "-shuffle=on", "-timeout=40m"}
	switch reason := c.raceOff(ctx); {
	case reason == "":
		args = append(args, "-race")
	case c.ci:
		return fmt.Errorf("race detector off: %s; under CI=true that is a failure", reason)
	default:
		fmt.Fprintf(c.out, "race detector off: %s\n", reason)
	}
	if profile != "" {
		coverArgs, err := c.coverArgs(ctx, profile)
		if err != nil {
			return err
		}
		args = append(args, coverArgs...)
	}
	cmd := c.command(ctx, append(args, patterns...)...)
	cmd.Stderr = c.errOut
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("go test: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("go test: %w", err)
	}
	failedBefore := t.failed
	readErr := newReport(c.out, t).read(stdout)
	if readErr != nil {
		// The rest is of no use, but go test must be able to write it and end.
		_, _ = io.Copy(io.Discard, stdout)
	}
	err = cmd.Wait()
	if readErr != nil {
		return readErr
	}
	if err != nil && t.failed == failedBefore {
		return fmt.Errorf("go test failed with no failed test: %w", err)
	}
	return nil
}

// coverArgs are the arguments that make go test record coverage of the gated packages in the file
// profile; none if the module has no such package. What an earlier run left in profile is removed.
func (c *checker) coverArgs(ctx context.Context, profile string) ([]string, error) {
	if err := os.Remove(filepath.Join(c.dir, profile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove the old coverage profile: %w", err)
	}
	packages, err := gopkg.List(ctx, c.dir, "./...")
	if err != nil {
		return nil, err
	}
	var gated []string
	for _, p := range packages {
		if gate(p.Rel()) > 0 {
			gated = append(gated, p.ImportPath)
		}
	}
	if len(gated) == 0 {
		return nil, nil
	}
	return []string{"-covermode=atomic", "-coverpkg=" + strings.Join(gated, ","), "-coverprofile=" + profile}, nil
}

// command is a go command in the module's folder that an interrupt ends gently.
func (c *checker) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.goCmd, args...)
	cmd.Dir = c.dir
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}
