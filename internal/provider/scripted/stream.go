package scripted

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/channel"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/internal/agent"
	"github.com/iii-aws/harness/internal/provider"
)

// Name of the provider, and its only model.
const (
	Name  = "scripted"
	Model = "scripted-1"
)

// Deps is what a Provider needs.
type Deps struct {
	Channels channel.Broker
	Clock    clock.Clock
	Logger   *slog.Logger
	// Config is the worker's own config: {rules: a file}; nil is the built-in
	// rules.
	Config json.RawMessage
	// Rules replaces both.
	Rules *Rules
}

// Provider is the worker.
type Provider struct {
	deps  Deps
	rules Rules

	mu    sync.Mutex
	tries map[string]int // failures already given, by request
}

// New reads the rules.
func New(d Deps) (*Provider, error) {
	p := &Provider{deps: d, rules: Builtin(), tries: map[string]int{}}
	if d.Rules != nil {
		p.rules = *d.Rules
		return p, nil
	}
	if len(d.Config) == 0 {
		return p, nil
	}
	var c struct {
		Rules string `json:"rules"`
	}
	dec := json.NewDecoder(strings.NewReader(string(d.Config)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&c); err != nil || c.Rules == "" {
		return nil, &bus.InvalidError{Field: "workers.provider-scripted.config", Allowed: "rules (a file)", Err: err}
	}
	data, err := os.ReadFile(c.Rules)
	if err != nil {
		return nil, fmt.Errorf("provider-scripted: rules: %w", err)
	}
	p.rules, err = ParseRules(c.Rules, data)
	return p, err
}

// Endpoints is the functions of the worker.
func (p *Provider) Endpoints() map[string]bus.Endpoint {
	return provider.Endpoints(provider.Deps{Name: Name, Channels: p.deps.Channels, Clock: p.deps.Clock, Logger: p.deps.Logger}, p.stream)
}

func (p *Provider) stream(ctx context.Context, r provider.Request, emit provider.Emit) error {
	pl := p.rules.decide(r.Messages)
	fail := p.due(pl.fail, r)
	if fail != nil && fail.Kind == failRefused {
		return &bus.Error{Code: "invocation_failed", Message: message(fail)}
	}
	s := &speaker{provider: p, ctx: ctx, emit: emit, delay: pl.delay, fail: fail,
		acc: agent.NewAccumulator(Name, r.Model, clock.Millis(p.deps.Clock.Now())), input: tokens(r)}
	err := s.speak(pl)
	if errors.Is(err, errStopped) {
		return nil
	}
	return err
}

// due is the failure if it has still to happen.
func (p *Provider) due(f *Fail, r provider.Request) *Fail {
	if f == nil || f.Times == 0 {
		return f
	}
	key := digest(r)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tries[key] >= f.Times {
		delete(p.tries, key)
		return nil
	}
	if len(p.tries) > 10000 {
		clear(p.tries)
	}
	p.tries[key]++
	return f
}

func digest(r provider.Request) string {
	h := sha256.New()
	h.Write([]byte(r.ResolutionKey))
	for _, m := range r.Messages {
		b, err := json.Marshal(m)
		if err != nil {
			continue // an unreadable message cannot tell requests apart
		}
		h.Write(b)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func tokens(r provider.Request) int64 {
	n := 0
	if r.SystemPrompt != nil {
		n += len(*r.SystemPrompt)
	}
	for _, m := range r.Messages {
		n += len(text(m.Content))
	}
	return int64(n/4) + 1
}

// pieces cuts a text at spaces, as a model's tokens would, and never in a rune.
func pieces(s string) []string {
	var out []string
	for len(s) > 0 {
		n := strings.IndexByte(s[1:], ' ') + 1
		if n <= 0 {
			n = len(s)
		}
		for n > 64 { // a long word is several pieces
			n = 48
			for !utf8.RuneStart(s[n]) {
				n--
			}
		}
		out = append(out, s[:n])
		s = s[n:]
	}
	return out
}

func (p *Provider) pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := p.deps.Clock.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
