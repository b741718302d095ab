//go:build unix

package shell

import (
	"os"
	"os/exec"
	"syscall"
)

// doNotWait makes the open of a pipe return at once.
const doNotWait = syscall.O_NONBLOCK | syscall.O_NOCTTY

// ownGroup starts the command as the head of a session, and so of a process
// group, of its own. It has no terminal that it could ask or stop at.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// killGroup ends all that runs in the command's group. That nothing does any
// more is the usual answer after its end.
func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// exitCode is the exit code as a shell has it: 128 and the signal's number for
// a command that a signal ended; that of SIGKILL for one that did not die.
func exitCode(state *os.ProcessState) int {
	if state == nil {
		return 128 + int(syscall.SIGKILL)
	}
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return state.ExitCode()
}
