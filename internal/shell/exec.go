package shell

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/iii-aws/harness/engine/blob"
	"github.com/iii-aws/harness/engine/bus"
)

// Limits of a command.
const (
	DefaultTimeout = 30 * time.Second
	MaxOutput      = 1 << 20
	maxKept        = 16 << 20
	drainAfterKill = 2 * time.Second
)

// ExecRequest is a command. Without args it is run by /bin/sh -c.
type ExecRequest struct {
	Command   string   `json:"command"`
	Args      []string `json:"args,omitempty"`
	Target    *Target  `json:"target,omitempty"`
	TimeoutMS int64    `json:"timeout_ms,omitempty"`
}

// Target is where the command runs; only the host serves here.
type Target struct {
	Kind      string `json:"kind"`
	SandboxID string `json:"sandbox_id,omitempty"`
}

// ExecResponse is what the command did. Where an output is longer than
// MaxOutput the whole of it is in the blob.
type ExecResponse struct {
	Stdout     string    `json:"stdout"`
	Stderr     string    `json:"stderr"`
	ExitCode   int       `json:"exit_code"`
	TimedOut   bool      `json:"timed_out"`
	DurationMS int64     `json:"duration_ms"`
	Success    bool      `json:"success"`
	StdoutBlob *blob.Ref `json:"stdout_blob,omitempty"`
	StderrBlob *blob.Ref `json:"stderr_blob,omitempty"`
}

func (s *Shell) exec(ctx context.Context, call *bus.Call, r ExecRequest) (ExecResponse, error) {
	limit, err := s.admit(r)
	if err != nil {
		return ExecResponse{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	name, args := r.Command, r.Args
	if args == nil {
		name, args = "/bin/sh", []string{"-c", r.Command}
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = s.folder.path
	cmd.Env = s.environ()
	cmd.WaitDelay = drainAfterKill
	ownGroup(cmd)
	var stdout, stderr capture
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	start := s.deps.Clock.Monotonic()
	if err := cmd.Start(); err != nil {
		return ExecResponse{}, &Error{Code: CodeStart, Type: "not_started", Message: fmt.Sprintf("%s could not be started: %v", name, err), Err: err}
	}
	err = cmd.Wait()
	killGroup(cmd) // what the command left running belongs to the call
	out := ExecResponse{DurationMS: (s.deps.Clock.Monotonic() - start).Milliseconds(), ExitCode: cmd.ProcessState.ExitCode(), TimedOut: ctx.Err() != nil}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) && ctx.Err() == nil {
		return ExecResponse{}, &Error{Code: CodeIO, Type: "io", Message: "the command's output could not be read", Err: err}
	}
	out.Success = out.ExitCode == 0 && !out.TimedOut
	if out.Stdout, out.StdoutBlob, err = s.keep(call, &stdout); err != nil {
		return ExecResponse{}, err
	}
	if out.Stderr, out.StderrBlob, err = s.keep(call, &stderr); err != nil {
		return ExecResponse{}, err
	}
	return out, nil
}

// admit checks a request and gives its time limit.
func (s *Shell) admit(r ExecRequest) (time.Duration, error) {
	if strings.TrimSpace(r.Command) == "" {
		return 0, bus.Missing("command")
	}
	if strings.ContainsRune(r.Command, 0) {
		return 0, invalid("command holds a NUL byte", "")
	}
	if t := r.Target; t != nil && t.Kind != "host" {
		return 0, &Error{Code: CodeTarget, Type: "target", Message: fmt.Sprintf("target kind %q does not serve here", t.Kind), Fix: `leave target out, or use {"kind":"host"}`}
	}
	if r.TimeoutMS < 0 {
		return 0, bus.Invalid("timeout_ms", fmt.Sprintf("0 to %d", s.deps.MaxTimeout.Milliseconds()))
	}
	for _, d := range s.deny {
		if d.MatchString(r.Command) || d.MatchString(strings.Join(append([]string{r.Command}, r.Args...), " ")) {
			return 0, &Error{Code: CodeRefused, Type: "refused", Message: fmt.Sprintf("the command matches the refused pattern %q", d)}
		}
	}
	limit := time.Duration(r.TimeoutMS) * time.Millisecond
	if limit == 0 || limit > s.deps.MaxTimeout {
		limit = s.deps.MaxTimeout
	}
	return limit, nil
}

// environ is the environment without what a command must not learn.
func (s *Shell) environ() []string {
	var out []string
	for _, kv := range s.deps.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		if !s.hidden(strings.ToUpper(name)) {
			out = append(out, kv)
		}
	}
	return out
}

func (s *Shell) hidden(name string) bool {
	if strings.HasPrefix(name, "HARNESS_") || strings.HasPrefix(name, "AWS_") || s.secret[name] {
		return true
	}
	for _, part := range []string{"API_KEY", "SECRET", "TOKEN", "PASSWORD", "CREDENTIAL", "PRIVATE_KEY"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// keep cuts an output at the limit and puts the whole into a blob of the
// session that the call belongs to.
func (s *Shell) keep(call *bus.Call, c *capture) (string, *blob.Ref, error) {
	text := c.buf.Bytes()
	if len(text) <= MaxOutput {
		return strings.ToValidUTF8(string(text), "\uFFFD"), nil, nil
	}
	cut := strings.ToValidUTF8(string(text[:MaxOutput]), "")
	if call.Reply == nil || s.deps.Blobs == nil {
		return cut, nil, nil
	}
	info, err := s.deps.Blobs.Put(s.ctx, call.Reply.SessionID, "text/plain", bytes.NewReader(text))
	if err != nil {
		return "", nil, fmt.Errorf("shell: keep output: %w", err)
	}
	return cut, &blob.Ref{Blob: info}, nil
}

// capture keeps the first maxKept bytes and swallows the rest, so that a
// command is never blocked by its output.
type capture struct{ buf bytes.Buffer }

func (c *capture) Write(p []byte) (int, error) {
	if room := maxKept - c.buf.Len(); room > 0 {
		c.buf.Write(p[:min(len(p), room)])
	}
	return len(p), nil
}
