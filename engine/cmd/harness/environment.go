package main

import (
	"context"
	"io"
	"os"
	"os/signal"
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
	clock          clock.Clock
	ids            clock.IDs
	// terminal reports whether a person reads stdout and types on stdin.
	terminal bool
	// signals ends the returned context on SIGINT and SIGTERM.
	signals func(ctx context.Context) (context.Context, context.CancelFunc)
}

func system() environment {
	return environment{
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv, environ: os.Environ,
		clock: clock.System(), ids: clock.Random(),
		terminal: term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd())),
		signals: func(ctx context.Context) (context.Context, context.CancelFunc) {
			return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		},
	}
}
