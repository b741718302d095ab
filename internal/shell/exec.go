package shell

import (
	"context"
	"time"

	"github.com/iii-aws/harness/engine/blob"
	"github.com/iii-aws/harness/engine/bus"
)

// DefaultTimeout is how long a command may run, and the most that may be asked
// for.
const DefaultTimeout = 30 * time.Second

// ExecRequest is a command. Without args it is run by /bin/sh -c.
type ExecRequest struct {
	Command string   `json:"command"`
	Args    []string `json:"args,omitempty"`
	Target  *Target  `json:"target,omitempty"`
	// TimeoutMS is 1 to the longest limit; 0 is the longest.
	TimeoutMS int64 `json:"timeout_ms,omitempty"`
}

// Target is where the command runs; only the host serves here.
type Target struct {
	Kind      string `json:"kind"`
	SandboxID string `json:"sandbox_id,omitempty"`
}

// ExecResponse is what the command did.
type ExecResponse struct {
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
	// ExitCode is 128 and the number of the signal for a command that a signal
	// ended, as a shell has it.
	ExitCode int `json:"exit_code"`
	// TimedOut: it was killed at its time limit.
	TimedOut   bool  `json:"timed_out"`
	DurationMS int64 `json:"duration_ms"`
	// Success: it ended by itself with exit code 0.
	Success bool `json:"success"`
	// Truncated: an output is longer than MaxOutput. Its blob has the first
	// 16 MiB of it, if the call belongs to a session.
	Truncated  bool      `json:"truncated,omitempty"`
	StdoutBlob *blob.Ref `json:"stdout_blob,omitempty"`
	StderrBlob *blob.Ref `json:"stderr_blob,omitempty"`
}

// exec runs a command to its end.
func (s *Shell) exec(ctx context.Context, call *bus.Call, r ExecRequest) (ExecResponse, error) {
	limit, err := s.admit(r)
	if err != nil {
		return ExecResponse{}, err
	}
	if err := s.begin(); err != nil {
		return ExecResponse{}, err
	}
	defer s.wg.Done()
	if err := s.folder.here(); err != nil {
		return ExecResponse{}, err
	}
	name, args := r.Command, r.Args
	if args == nil {
		name, args = "/bin/sh", []string{"-c", r.Command}
	}
	start := s.deps.Clock.Monotonic()
	p, err := s.start(name, args)
	if err != nil {
		return ExecResponse{}, err
	}
	end, err := s.await(ctx, p, limit)
	if err != nil {
		return ExecResponse{}, err
	}
	out := ExecResponse{
		ExitCode: end.code, TimedOut: end.timedOut, Success: end.code == 0 && !end.timedOut,
		DurationMS: (s.deps.Clock.Monotonic() - start).Milliseconds(),
	}
	session := ""
	if call.Reply != nil {
		session = call.Reply.SessionID
	}
	out.Stdout, out.StdoutBlob = s.keep(session, &p.stdout)
	out.Stderr, out.StderrBlob = s.keep(session, &p.stderr)
	out.Truncated = p.stdout.total > MaxOutput || p.stderr.total > MaxOutput
	return out, nil
}
