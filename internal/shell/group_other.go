//go:build !unix

package shell

import "os/exec"

// ownGroup leaves the command as it is: there are no process groups here, so
// only the command itself is killed at its limit.
func ownGroup(*exec.Cmd) {}

func killGroup(*exec.Cmd) {}
