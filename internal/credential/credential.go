package credential

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"unicode"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/secret"
)

// Types of a credential.
const (
	TypeAPIKey = "api_key"
	TypeOAuth  = "oauth"
)

const maxCredential = 64 << 10

// Credential is a key or an OAuth grant. It is kept as it came.
type Credential struct {
	Type         string          `json:"type"`
	Key          string          `json:"key,omitempty"`
	AccessToken  string          `json:"access_token,omitempty"`
	RefreshToken string          `json:"refresh_token,omitempty"`
	ExpiresAt    json.Number     `json:"expires_at,omitempty"`
	Scopes       json.RawMessage `json:"scopes,omitempty"`
	Extra        json.RawMessage `json:"provider_extra,omitempty"`
}

// check names what is wrong; no text holds a value.
func (c Credential) check() error {
	switch {
	case c.Type == TypeAPIKey && c.Key == "":
		return bus.Missing("credential.key")
	case c.Type == TypeOAuth && c.AccessToken == "":
		return bus.Missing("credential.access_token")
	case c.Type != TypeAPIKey && c.Type != TypeOAuth:
		return bus.Invalid("credential.type", "api_key or oauth")
	}
	return nil
}

// secrets is the values that no log may show.
func (c Credential) secrets() []string { return []string{c.Key, c.AccessToken, c.RefreshToken} }

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

// New makes the worker.
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
	return &Store{d}, nil
}

// Endpoints is the functions of the worker.
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

// find is a provider's credential, as it was stored or from the environment.
func (s *Store) find(ctx context.Context, provider string) (raw json.RawMessage, c Credential, source string, err error) {
	raw, ok, err := s.deps.Secrets.Get(ctx, provider)
	if err != nil {
		return nil, c, "", fmt.Errorf("credential of %s: %w", provider, err)
	}
	if ok {
		if err := json.Unmarshal(raw, &c); err != nil {
			return nil, c, "", fmt.Errorf("credential of %s: the stored form cannot be read", provider)
		}
		s.deps.Known(c.secrets()...)
		return raw, c, "stored", nil
	}
	key := s.deps.Getenv(EnvVars[provider])
	if EnvVars[provider] == "" || key == "" {
		return nil, c, "", nil
	}
	c = Credential{Type: TypeAPIKey, Key: key}
	s.deps.Known(key)
	raw, err = bus.Encode(c)
	return raw, c, "environment", err
}

func (s *Store) get(ctx context.Context, call *bus.Call, r providerRequest) (json.RawMessage, error) {
	if err := s.deps.Allowed(call, r.Provider); err != nil {
		return nil, err
	}
	raw, _, source, err := s.find(ctx, r.Provider)
	if err != nil || source == "" {
		return json.RawMessage("null"), err
	}
	return raw, nil
}

type setRequest struct {
	providerRequest
	Credential json.RawMessage `json:"credential"`
}

type okResponse struct {
	OK bool `json:"ok"`
}

func (s *Store) set(ctx context.Context, call *bus.Call, r setRequest) (okResponse, error) {
	if err := operatorOnly(call); err != nil {
		return okResponse{}, err
	}
	if len(r.Credential) == 0 || string(r.Credential) == "null" {
		return okResponse{}, bus.Missing("credential")
	}
	if len(r.Credential) > maxCredential {
		return okResponse{}, bus.Invalid("credential", "at most 65536 bytes")
	}
	var c Credential
	if json.Unmarshal(r.Credential, &c) != nil {
		return okResponse{}, bus.Invalid("credential", "an object with type api_key or oauth")
	}
	if err := c.check(); err != nil {
		return okResponse{}, err
	}
	s.deps.Known(c.secrets()...)
	if err := s.deps.Secrets.Set(ctx, r.Provider, r.Credential); err != nil {
		return okResponse{}, fmt.Errorf("credential of %s: %w", r.Provider, err)
	}
	return okResponse{OK: true}, nil
}

func (s *Store) delete(ctx context.Context, call *bus.Call, r providerRequest) (okResponse, error) {
	if err := operatorOnly(call); err != nil {
		return okResponse{}, err
	}
	if err := s.deps.Secrets.Delete(ctx, r.Provider); err != nil {
		return okResponse{}, fmt.Errorf("credential of %s: %w", r.Provider, err)
	}
	return okResponse{OK: true}, nil
}

type listResponse struct {
	Providers []string `json:"providers"`
}

// list is the providers with a stored credential.
func (s *Store) list(ctx context.Context, _ *bus.Call, _ struct{}) (listResponse, error) {
	names, err := s.deps.Secrets.Names(ctx)
	if err != nil {
		return listResponse{}, fmt.Errorf("credentials: %w", err)
	}
	out := append([]string{}, names...)
	sort.Strings(out)
	return listResponse{out}, nil
}

// StatusResponse says whether and from where, never what.
type StatusResponse struct {
	Configured bool   `json:"configured"`
	Source     string `json:"source,omitempty"`
	Label      string `json:"label,omitempty"`
}

func (s *Store) status(ctx context.Context, _ *bus.Call, r providerRequest) (StatusResponse, error) {
	return s.Status(ctx, r.Provider)
}

// Status is auth::status for the host itself.
func (s *Store) Status(ctx context.Context, provider string) (StatusResponse, error) {
	_, c, source, err := s.find(ctx, provider)
	if err != nil || source == "" {
		return StatusResponse{}, err
	}
	label := "oauth"
	if c.Type == TypeAPIKey {
		label = "api-key:" + source
		if source == "environment" {
			label = "api-key:" + EnvVars[provider]
		}
	}
	return StatusResponse{Configured: true, Source: source, Label: label}, nil
}

// Found is one variable of the environment that holds a key.
type Found struct {
	Provider  string `json:"provider"`
	EnvVar    string `json:"env_var"`
	KeyPrefix string `json:"key_prefix"`
}

// Scan lists the providers whose variable is set, with the first 8 characters
// of the key.
func (s *Store) Scan() []Found {
	var out []Found
	for provider, name := range EnvVars {
		key := []rune(s.deps.Getenv(name))
		if len(key) == 0 {
			continue
		}
		s.deps.Known(string(key))
		out = append(out, Found{Provider: provider, EnvVar: name, KeyPrefix: string(key[:min(8, len(key))])})
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Provider < out[j].Provider })
	return out
}
