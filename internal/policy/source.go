package policy

import (
	"context"
	"crypto/sha256"
	"errors"
	"io/fs"
	"os"
	"sync/atomic"
	"time"

	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/internal/strict"
)

// Times of a Source.
const (
	// PollEvery is how often the file is looked at.
	PollEvery = time.Second
	// Settle is how long a changed file must stay as it is before it counts.
	Settle = 300 * time.Millisecond
)

// SourceConfig is what a Source needs.
type SourceConfig struct {
	// File is the permissions file.
	File string
	// Fallback serves while the file does not exist; nil: that is an error.
	Fallback *Rules
	// Scopes is config agent_scopes.
	Scopes []string
	Clock  clock.Clock
	// Alarm hears of a file that cannot be used, and why.
	Alarm func(error)
	// Loaded hears of every new set of rules; may be nil.
	Loaded func(*Rules)
	// ReadFile is os.ReadFile.
	ReadFile func(string) ([]byte, error)
}

// Source keeps the rules of a file that may change while it serves.
type Source struct {
	cfg     SourceConfig
	current atomic.Pointer[Rules]
	seen    [32]byte // of the text that was last judged
}

// Open reads the file. A file that cannot be used is the error, and the Source
// that is returned with it is closed: no rules, no kernel allows. Callers that
// must go on do so with that one.
func Open(cfg SourceConfig) (*Source, error) {
	if cfg.ReadFile == nil {
		cfg.ReadFile = os.ReadFile
	}
	s := &Source{cfg: cfg}
	s.current.Store(Closed())
	rules, sum, err := s.read()
	if err != nil {
		cfg.Alarm(err)
		return s, err
	}
	s.seen = sum
	s.current.Store(rules)
	return s, nil
}

// Rules is the current rules.
func (s *Source) Rules() *Rules { return s.current.Load() }

func (s *Source) read() (*Rules, [32]byte, error) {
	data, err := s.cfg.ReadFile(s.cfg.File)
	if errors.Is(err, fs.ErrNotExist) {
		if s.cfg.Fallback != nil {
			return s.cfg.Fallback, [32]byte{}, nil
		}
		return nil, [32]byte{}, &strict.Error{File: s.cfg.File, Problem: "does not exist", Allowed: "a readable permissions file", Err: err}
	}
	if err != nil {
		return nil, [32]byte{}, &strict.Error{File: s.cfg.File, Problem: "cannot be read: " + err.Error(), Allowed: "a readable permissions file", Err: err}
	}
	sum := sha256.Sum256(data)
	rules, err := Parse(s.cfg.File, data, s.cfg.Scopes)
	return rules, sum, err
}

// sum is the hash of the file's text; zero if there is none.
func (s *Source) sum() [32]byte {
	data, err := s.cfg.ReadFile(s.cfg.File)
	if err != nil {
		return [32]byte{}
	}
	return sha256.Sum256(data)
}

// Watch looks at the file until ctx ends. A change counts once the text has
// stayed the same for Settle, so that a file that is just being written is not
// judged. A bad file raises the alarm once and leaves the last good rules.
func (s *Source) Watch(ctx context.Context) {
	for s.pause(ctx, PollEvery) {
		sum := s.sum()
		for sum != s.seen {
			if !s.pause(ctx, Settle) {
				return
			}
			again := s.sum()
			if again == sum {
				s.reload()
				break
			}
			sum = again
		}
	}
}

func (s *Source) reload() {
	rules, sum, err := s.read()
	if err != nil {
		s.seen = s.sum()
		s.cfg.Alarm(err)
		return
	}
	s.seen = sum
	s.current.Store(rules)
	if s.cfg.Loaded != nil {
		s.cfg.Loaded(rules)
	}
}

func (s *Source) pause(ctx context.Context, d time.Duration) bool {
	t := s.cfg.Clock.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C():
		return true
	case <-ctx.Done():
		return false
	}
}
