package scripted

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/channel"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/internal/agent"
	"github.com/iii-aws/harness/internal/provider"
	"github.com/iii-aws/harness/internal/strict"
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

// Provider is the worker. It is safe for concurrent use.
type Provider struct {
	deps  Deps
	rules Rules
	tries tries
}

// New reads the rules. Errors: *bus.InvalidError for the config, *strict.Error
// for the file.
func New(d Deps) (*Provider, error) {
	rules, err := choose(d)
	if err != nil {
		return nil, err
	}
	return &Provider{deps: d, rules: rules}, nil
}

func choose(d Deps) (Rules, error) {
	switch {
	case d.Rules != nil:
		return *d.Rules, nil
	case len(d.Config) == 0:
		return Builtin(), nil
	}
	var c struct {
		Rules string `json:"rules"`
	}
	dec := json.NewDecoder(bytes.NewReader(d.Config))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&c); err != nil || c.Rules == "" {
		return Rules{}, &bus.InvalidError{Field: "workers.provider-scripted.config", Allowed: "rules (a file)", Err: err}
	}
	data, err := readRules(c.Rules)
	if err != nil {
		return Rules{}, &strict.Error{File: c.Rules, Problem: "cannot be read: " + err.Error(), Allowed: "a readable file of rules, or no rules in the config of provider-scripted", Err: err}
	}
	return ParseRules(c.Rules, data)
}

// readRules reads no more of a file than could be rules.
func readRules(file string) (data []byte, err error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is no regular file")
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return io.ReadAll(io.LimitReader(f, maxRules+1))
}

// Endpoints is the functions of the worker.
func (p *Provider) Endpoints() map[string]bus.Endpoint {
	return provider.Endpoints(provider.Deps{Name: Name, Channels: p.deps.Channels, Clock: p.deps.Clock, Logger: p.deps.Logger}, p.stream)
}

// stream is the model.
func (p *Provider) stream(ctx context.Context, r provider.Request, emit provider.Emit) error {
	pl := p.rules.decide(r.Messages)
	fail := p.tries.due(pl.fail, r)
	if fail != nil {
		if code := fail.Kind.refusal(); code != "" {
			return &bus.Error{Code: code, Message: fail.text()}
		}
	}
	s := &speaker{
		ctx: ctx, clock: p.deps.Clock, emit: emit, delay: pl.delay, fail: fail,
		acc: agent.NewAccumulator(Name, r.Model, clock.Millis(p.deps.Clock.Now())), input: tokens(r),
	}
	if err := s.speak(pl); !errors.Is(err, errStopped) {
		return err
	}
	return nil
}
