package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/iii-aws/harness/scripts/internal/gopkg"
)

// goBenchmarks runs the Go benchmarks of the packages that have some.
func goBenchmarks(ctx context.Context, opts options, out, errOut io.Writer) error {
	packages, err := gopkg.List(ctx, opts.dir, opts.packages...)
	if err != nil {
		return err
	}
	args := []string{"test", "-vet=off", "-run=^$", "-bench=" + opts.bench, "-benchmem", "-benchtime=" + opts.benchtime, fmt.Sprintf("-count=%d", opts.count)}
	flags := len(args)
	for _, p := range packages {
		names, err := p.TestFuncs(gopkg.Benchmark)
		if err != nil {
			return err
		}
		if len(names) > 0 {
			args = append(args, p.ImportPath)
		}
	}
	if len(args) == flags {
		return errors.New("no package has a benchmark")
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = opts.dir
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	cmd.Stderr = errOut
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("go test: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("go test: %w", err)
	}
	rest, readErr := benchmarkLines(stdout, out)
	if readErr != nil {
		// The rest is of no use, but go test must be able to write it and end.
		_, _ = io.Copy(io.Discard, stdout)
	}
	if err := cmd.Wait(); err != nil {
		fmt.Fprint(errOut, rest)
		return fmt.Errorf("go test: %w", err)
	}
	return readErr
}

// benchmarkLines copies the lines of the benchmark format from r to out: results, the package they are
// of, and once what machine they are from. It returns all other lines.
func benchmarkLines(r io.Reader, out io.Writer) (rest string, err error) {
	var other strings.Builder
	machine := map[string]bool{}
	for lines := bufio.NewReader(r); ; {
		line, err := lines.ReadString('\n')
		key, _, _ := strings.Cut(line, ":")
		switch {
		case strings.HasPrefix(line, "Benchmark") && strings.Contains(line, "/op"), key == "pkg":
			fmt.Fprint(out, line)
		case key == "goos", key == "goarch", key == "cpu":
			if !machine[line] {
				machine[line] = true
				fmt.Fprint(out, line)
			}
		default:
			other.WriteString(line)
		}
		if errors.Is(err, io.EOF) {
			return other.String(), nil
		}
		if err != nil {
			return other.String(), fmt.Errorf("read the output of go test: %w", err)
		}
	}
}
