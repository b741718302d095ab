//go:build !unix

package shell

import (
	"os"
	"os/exec"
)

const doNotWait = 0

// ownGroup leaves the command as it is: there are no process groups here, so
// only the command itself is killed at its limit.
func ownGroup(*exec.Cmd) {}

func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }

func exitCode(state *os.ProcessState) int {
	if state == nil {
		return 1
	}
	return state.ExitCode()
}
