package credential

import (
	"context"
	"errors"
	"unicode"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/secret"
)

// Deps is what a Store needs.
type Deps struct {
	Secrets secret.Store
	// Getenv reads the environment.
	Getenv func(string) string
	// Known is told of every secret value that is handed out or stored.
	Known func(values ...string)
	// Allowed decides whether a call may read a provider's secret; nil
	// allows built-in workers and operators.
	Allowed func(call *bus.Call, provider string) error
}

// Store is the worker.
type Store struct{ deps Deps }

// New makes the worker. The keys of the environment are known from here on;
// see Learn for the stored ones.
func New(d Deps) (*Store, error) {
	if d.Secrets == nil {
		return nil, errors.New("credential: Secrets is required")
	}
	if d.Getenv == nil {
		d.Getenv = func(string) string { return "" }
	}
	if d.Known == nil {
		d.Known = func(...string) {}
	}
	if d.Allowed == nil {
		d.Allowed = builtinOrOperator
	}
	s := &Store{d}
	s.Scan()
	return s, nil
}

// Learn makes every stored secret known, so that none is shown before its first
// use. Call it once at the start.
func (s *Store) Learn(ctx context.Context) error {
	names, err := s.deps.Secrets.Names(ctx)
	if err != nil {
		return storeError("*", err)
	}
	var bad []error
	for _, provider := range names {
		if _, err := s.find(ctx, provider); err != nil {
			bad = append(bad, err)
		}
	}
	return errors.Join(bad...)
}

// Endpoints is the functions of the worker. Each takes the bare object or an
// HTTP-like {body: {...}}.
func (s *Store) Endpoints() map[string]bus.Endpoint {
	return map[string]bus.Endpoint{
		"auth::get_token":      bus.Unwrapped(bus.Typed(s.get)),
		"auth::set_token":      bus.Unwrapped(bus.Typed(s.set)),
		"auth::delete_token":   bus.Unwrapped(bus.Typed(s.delete)),
		"auth::list_providers": bus.Unwrapped(bus.Typed(s.list)),
		"auth::status":         bus.Unwrapped(bus.Typed(s.status)),
	}
}

func builtinOrOperator(call *bus.Call, _ string) error {
	if call.Worker != "" || call.Principal.SeesAll() {
		return nil
	}
	return forbidden(call, "read by workers whose token names the provider, and by operators")
}

func operatorOnly(call *bus.Call) error {
	if call.Principal.SeesAll() {
		return nil
	}
	return forbidden(call, "reserved for tokens of role operator")
}

func forbidden(call *bus.Call, text string) error {
	return &bus.Error{Code: protocol.CodeForbidden, Message: call.FunctionID + " is " + text}
}

type providerRequest struct {
	Provider string `json:"provider"`
}

// Validate names the first wrong field.
func (r providerRequest) Validate() error {
	if r.Provider == "" {
		return bus.Missing("provider")
	}
	if len(r.Provider) > 128 {
		return bus.Invalid("provider", "at most 128 bytes")
	}
	for _, c := range r.Provider {
		if !unicode.IsPrint(c) {
			return bus.Invalid("provider", "printable characters")
		}
	}
	return nil
}

type okResponse struct {
	OK bool `json:"ok"`
}
