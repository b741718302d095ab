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
	// Fallback serves until there is a file; nil: a missing file is an error.
	// Once a file was read, one that is gone is an error either way: rules do
	// not give way to laxer ones because they were deleted.
	Fallback *Rules
	// Scopes is config agent_scopes.
	Scopes []string
	Clock  clock.Clock
	// Alarm hears of a file that cannot be used, and why.
	Alarm func(error)
	// Loaded hears of every new set of rules; may be nil.
	Loaded func(*Rules)
	// Warn hears what is odd in the rules that were read, at the start too;
	// may be nil.
	Warn func(string)
	// ReadFile is os.ReadFile.
	ReadFile func(string) ([]byte, error)
}

// Source keeps the rules of a file that may change while it serves.
type Source struct {
	cfg      SourceConfig
	current  atomic.Pointer[Rules]
	seen     [32]byte // of the text that was last judged
	fromFile bool     // rules were read from the file
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
	_, err := s.take()
	return s, err
}

// take reads the file and lets its rules serve if they are good. A text is
// judged once: good or bad, it is not looked at again until it changes.
func (s *Source) take() (*Rules, error) {
	rules, sum, err := s.read()
	s.seen = sum
	if err != nil {
		s.cfg.Alarm(err)
		return nil, err
	}
	s.fromFile = s.fromFile || sum != [32]byte{}
	s.current.Store(rules)
	if s.cfg.Warn != nil {
		for _, w := range rules.Warnings() {
			s.cfg.Warn(w)
		}
	}
	return rules, nil
}

// Rules is the current rules.
func (s *Source) Rules() *Rules { return s.current.Load() }

func (s *Source) read() (*Rules, [32]byte, error) {
	data, err := s.cfg.ReadFile(s.cfg.File)
	if errors.Is(err, fs.ErrNotExist) {
		if s.cfg.Fallback != nil && !s.fromFile {
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
	rules, err := s.take()
	if err == nil && s.cfg.Loaded != nil {
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
