package main

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// raceOff says in a few words why the race detector cannot run on this machine; "" if it can. It tries
// the one thing the detector needs beyond Go, a build of the C half of the runtime, which stays in the
// build cache for the tests.
func (c *checker) raceOff(ctx context.Context) string {
	out, err := c.command(ctx, "build", "-race", "runtime/cgo").CombinedOutput()
	if err == nil {
		return ""
	}
	if cc, err := c.command(ctx, "env", "CC").Output(); err == nil {
		if compiler := strings.Fields(string(cc)); len(compiler) > 0 {
			if _, err := exec.LookPath(compiler[0]); err != nil {
				return fmt.Sprintf("no C compiler (%s is not on PATH; install one, or name yours in CC)", compiler[0])
			}
		}
	}
	for line := range strings.Lines(string(out)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			return strings.TrimPrefix(line, "go: ")
		}
	}
	return err.Error()
}
