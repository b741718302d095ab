package sdk

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
)

// Log keeps what a process wrote to standard error, for messages. It is safe
// for several goroutines.
type Log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write keeps p.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Process is a program that talks in lines.
type Process struct {
	Log   *Log
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines *bufio.Reader
	end   sync.Once
	err   error
}

// StartProcess runs a command line in dir with variables added to those of
// this process.
func StartProcess(dir string, argv []string, env ...string) (*Process, error) {
	p := &Process{Log: &Log{}, cmd: exec.Command(argv[0], argv[1:]...)}
	p.cmd.Dir, p.cmd.Stderr = dir, p.Log
	p.cmd.Env = append(os.Environ(), env...)
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.lines = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("sdk: %w", err)
	}
	return p, nil
}

// PID is the process's id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Line is the next line of standard output; io.EOF when it has ended. One
// goroutine reads.
func (p *Process) Line() ([]byte, error) { return p.lines.ReadBytes('\n') }

// Signal sends a signal.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// Wait waits for the end, once what it wrote was read. It may be called often.
func (p *Process) Wait() error {
	p.end.Do(func() { p.err = p.cmd.Wait() })
	return p.err
}

// Kill ends the process at once (SIGKILL) and waits for it.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	_ = p.Wait()             // "signal: killed"
}
