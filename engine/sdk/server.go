package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// Server is a running `harness dev`.
type Server struct {
	*Process
	Ready Ready
}

// Ready is the line that it prints when it serves.
type Ready struct {
	Bus      string   `json:"bus"`
	HTTP     string   `json:"http"`
	Stage    string   `json:"stage"`
	Token    string   `json:"token"`
	Data     string   `json:"data"`
	PID      int      `json:"pid"`
	Provider string   `json:"provider"`
	Workers  []string `json:"workers"`
}

// Build makes the program of this module at file. module is a folder of the
// module; flags are for go build.
func Build(ctx context.Context, module, file string, flags ...string) error {
	cmd := exec.CommandContext(ctx, "go", append(append([]string{"build", "-o", file}, flags...), "github.com/iii-aws/harness/engine/cmd/harness")...)
	cmd.Dir = module
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("sdk: build the program: %w\n%s", err, out)
	}
	return nil
}

// Serve starts `dev` of a program that Build made, on free ports, with its
// data in dir/data and dir as working folder. flags are dev's.
func Serve(program, dir string, flags ...string) (*Server, error) {
	argv := append([]string{program, "dev", "--addr", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data", filepath.Join(dir, "data")}, flags...)
	p, err := StartProcess(dir, argv, "HOME="+dir)
	if err != nil {
		return nil, err
	}
	s := &Server{Process: p}
	line, err := p.Line()
	text, ok := strings.CutPrefix(string(line), "ready ")
	if err != nil || !ok || json.Unmarshal([]byte(text), &s.Ready) != nil {
		p.Kill()
		return nil, fmt.Errorf("sdk: dev said %q, %w\n%s", line, err, p.Log)
	}
	return s, nil
}

// Stop ends the server as Ctrl-C does, and reports an exit that is not clean.
func (s *Server) Stop() error {
	if err := s.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	if err := s.Wait(); err != nil {
		return fmt.Errorf("sdk: dev: %w\n%s", err, s.Log)
	}
	return nil
}
