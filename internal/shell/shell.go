package shell

import (
	"context"
	"encoding/json"
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
	// Protected folders are refused even inside Root. They need not exist yet.
	Protected []string
	// ReadOnly files may be read but not written. They need not exist yet.
	ReadOnly []string
	Channels channel.Broker
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

// Shell is the worker. It is safe for concurrent use.
type Shell struct {
	deps   Deps
	folder *folder
	allow  []string
	deny   []*regexp.Regexp
	secret map[string]bool
	ctx    context.Context
	stop   context.CancelFunc

	// writing is held while a file is changed.
	writing sync.Mutex

	mu     sync.Mutex
	closed bool
	wg     sync.WaitGroup
}

// New opens the working folder. Close it when done. Errors: *bus.InvalidError
// for the config.
func New(deps Deps) (*Shell, error) {
	c, err := readConfig(deps.Config)
	if err != nil {
		return nil, err
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
	s := &Shell{deps: deps, allow: c.Allow, deny: c.deny, secret: map[string]bool{}}
	for _, n := range deps.SecretEnv {
		s.secret[strings.ToUpper(n)] = true
	}
	if s.folder, err = openFolder(deps.Root, deps.Protected, deps.ReadOnly); err != nil {
		return nil, err
	}
	if s.folder.guard(s.folder.path) {
		deps.Logger.Warn("the working folder belongs to the harness's data: no file of it will be read", "folder", s.folder.path)
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s, nil
}

// Close ends commands and reads that are under way, waits for them and refuses
// new ones.
func (s *Shell) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.wg.Wait()
	return s.folder.root.Close()
}

// begin counts work that Close waits for; end it with s.wg.Done.
func (s *Shell) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return stopped("the shell is being shut down", context.Canceled)
	}
	s.wg.Add(1)
	return nil
}

// Endpoints is the functions of the worker.
func (s *Shell) Endpoints() map[string]bus.Endpoint {
	return map[string]bus.Endpoint{
		"shell::fs::ls":      bus.Typed(s.ls),
		"shell::fs::read":    bus.Typed(s.read),
		"shell::fs::write":   bus.Typed(s.write),
		"shell::fs::edit":    bus.Typed(s.edit),
		"shell::fs::glob":    bus.Typed(s.glob),
		"shell::fs::grep":    bus.Typed(s.grep),
		"shell::fs::preview": bus.Typed(s.preview),
		"shell::exec":        bus.Typed(s.exec),
	}
}
