package shell

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// grace is how long a killed command may take to die, and what it left behind
// to let go of its output.
const grace = 2 * time.Second

// process is a command that runs.
type process struct {
	cmd            *exec.Cmd
	stdout, stderr capture
	readers        [2]*os.File
	// read is closed when both outputs have ended, exited has the end of the
	// command itself.
	read   chan struct{}
	exited chan *os.ProcessState
}

// ending is how a command ended.
type ending struct {
	code     int
	timedOut bool
}

// start starts a command. Its outputs are pipes of our own: exec would wait for
// them as long as anything that the command started holds them open.
func (s *Shell) start(name string, args []string) (*process, error) {
	p := &process{cmd: exec.Command(name, args...), read: make(chan struct{}), exited: make(chan *os.ProcessState, 1)}
	p.cmd.Dir, p.cmd.Env = s.folder.path, s.environ()
	ownGroup(p.cmd)
	var writers [2]*os.File
	for i := range writers {
		var err error
		if p.readers[i], writers[i], err = os.Pipe(); err != nil {
			s.shutAll(name, append(p.readers[:], writers[:]...))
			return nil, &Error{Code: CodeIO, Type: "io", Message: "no pipe for the command's output", Err: err}
		}
	}
	p.cmd.Stdout, p.cmd.Stderr = writers[0], writers[1]
	err := p.cmd.Start()
	s.shutAll(name, writers[:]) // the command has its own
	if err != nil {
		s.shutAll(name, p.readers[:])
		return nil, &Error{Code: CodeStart, Type: "not_started", Message: fmt.Sprintf("%s could not be started: %v", clip(name), err), Err: err}
	}
	p.follow()
	return p, nil
}

func (s *Shell) shutAll(name string, files []*os.File) {
	for _, f := range files {
		if f != nil {
			s.shut(name, f)
		}
	}
}

// follow reads the outputs and waits for the command.
func (p *process) follow() {
	ends := make(chan struct{}, 2)
	copyTo := func(c *capture, r *os.File) {
		// What cannot be read any more has ended.
		_, _ = io.Copy(c, r)
		ends <- struct{}{}
	}
	go copyTo(&p.stdout, p.readers[0])
	go copyTo(&p.stderr, p.readers[1])
	go func() {
		<-ends
		<-ends
		close(p.read)
	}()
	go func() {
		// Its error is the exit code, which the state has too.
		_ = p.cmd.Wait()
		p.exited <- p.cmd.ProcessState
	}()
}

// await waits for a command, not longer than its limit and its caller.
func (s *Shell) await(ctx context.Context, p *process, limit time.Duration) (ending, error) {
	timer := s.deps.Clock.NewTimer(limit)
	defer timer.Stop()
	var end ending
	var state *os.ProcessState
	var gone error
	select {
	case state = <-p.exited:
	case <-timer.C():
		end.timedOut = true
	case <-ctx.Done():
		gone = stopped("the command was stopped, because its caller gave up", ctx.Err())
	case <-s.ctx.Done():
		gone = stopped("the command was stopped, because the harness is shutting down", s.ctx.Err())
	}
	killGroup(p.cmd) // also what a command that has ended left running
	patience := s.deps.Clock.NewTimer(grace)
	defer patience.Stop()
	// What is awaited now is the end of the command, unless it is stuck in the
	// kernel, and the rest of the outputs, unless something has left the group
	// and holds them open.
	for read, enough := p.read, false; !enough && (state == nil || read != nil); {
		select {
		case state = <-p.exited:
		case <-read:
			read = nil
		case <-patience.C():
			enough = true
		}
	}
	s.shutAll(p.cmd.Path, p.readers[:])
	<-p.read
	end.code = exitCode(state)
	// It may have ended by itself in the moment in which it was to be killed.
	end.timedOut = end.timedOut && !(state != nil && state.Exited())
	return end, gone
}
