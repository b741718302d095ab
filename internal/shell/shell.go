package shell

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/iii-aws/harness/engine/blob"
	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/channel"
	"github.com/iii-aws/harness/engine/clock"
)

// Deps is what a Shell needs.
type Deps struct {
	// Root is the working folder.
	Root string
	// Protected folders are refused even inside Root.
	Protected []string
	Channels  channel.Broker
	// Blobs keeps long outputs; nil cuts them.
	Blobs  blob.Store
	Clock  clock.Clock
	Logger *slog.Logger
	// Environ is os.Environ.
	Environ func() []string
	// SecretEnv names variables that commands must not see, beside those that
	// start with HARNESS_ or AWS_ or are named like a secret.
	SecretEnv []string
	// MaxTimeout of a command; 0 is DefaultTimeout.
	MaxTimeout time.Duration
	// Config is the worker's own config; nil is the default.
	Config json.RawMessage
}

type config struct {
	Root      string   `json:"root"`
	Deny      []string `json:"deny"`
	TimeoutMS int64    `json:"timeout_ms"`
}

// Shell is the worker.
type Shell struct {
	deps   Deps
	folder *folder
	deny   []*regexp.Regexp
	secret map[string]bool
	ctx    context.Context
	stop   context.CancelFunc
	wg     sync.WaitGroup
}

// New opens the working folder. Close it when done.
func New(deps Deps) (*Shell, error) {
	var c config
	if len(deps.Config) > 0 {
		dec := json.NewDecoder(strings.NewReader(string(deps.Config)))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&c); err != nil {
			return nil, &bus.InvalidError{Field: "workers.shell.config", Allowed: "root (a folder), deny (a list of regular expressions), timeout_ms (a number)", Err: err}
		}
	}
	if c.Root != "" {
		deps.Root = c.Root
	}
	if deps.MaxTimeout == 0 {
		deps.MaxTimeout = DefaultTimeout
	}
	if c.TimeoutMS > 0 {
		deps.MaxTimeout = min(deps.MaxTimeout, time.Duration(c.TimeoutMS)*time.Millisecond)
	}
	s := &Shell{deps: deps, secret: map[string]bool{}}
	for i, d := range c.Deny {
		re, err := regexp.Compile(d)
		if err != nil {
			return nil, &bus.InvalidError{Field: fmt.Sprintf("workers.shell.config.deny[%d]", i), Allowed: "a regular expression (RE2)", Err: err}
		}
		s.deny = append(s.deny, re)
	}
	for _, n := range deps.SecretEnv {
		s.secret[strings.ToUpper(n)] = true
	}
	var err error
	if s.folder, err = openFolder(deps.Root, deps.Protected); err != nil {
		return nil, err
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s, nil
}

// Close ends open reads and waits for them.
func (s *Shell) Close() error {
	s.stop()
	s.wg.Wait()
	return s.folder.root.Close()
}

// Endpoints is the functions of the worker.
func (s *Shell) Endpoints() map[string]bus.Endpoint {
	return map[string]bus.Endpoint{
		"shell::fs::ls":   bus.Typed(s.ls),
		"shell::fs::read": bus.Typed(s.read),
		"shell::exec":     bus.Typed(s.exec),
	}
}
