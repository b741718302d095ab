package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/term"

	"github.com/iii-aws/harness/engine/clock"
)

// environment is what a command touches outside itself.
type environment struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         func(string) string
	environ        func() []string
	// program is how the program was called.
	program string
	clock   clock.Clock
	ids     clock.IDs
	// terminal reports whether a person reads stdout and types on stdin.
	terminal bool
	// signals ends the returned context on SIGINT and SIGTERM.
	signals func(ctx context.Context) (context.Context, context.CancelFunc)
}

func system() environment {
	return environment{
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv, environ: os.Environ,
		program: os.Args[0], clock: clock.System(), ids: clock.Random(),
		terminal: term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd())),
		signals: func(ctx context.Context) (context.Context, context.CancelFunc) {
			return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		},
	}
}

// name is the program in a line to copy: as it was called by a relative path,
// else its plain name.
func (e environment) name() string {
	if e.program == "" || filepath.IsAbs(e.program) || strings.ContainsAny(e.program, " '\"\\$") {
		return "harness"
	}
	return e.program
}
