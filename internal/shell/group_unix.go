//go:build unix

package shell

import (
	"os/exec"
	"syscall"
)

// ownGroup starts the command as the head of a process group and lets the
// context kill the whole of it.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

// killGroup ends what the command left running. ESRCH, the usual answer, means
// that nothing was.
func killGroup(cmd *exec.Cmd) {
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
}
