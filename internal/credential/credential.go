package credential

import (
	"context"
	"encoding/json"
	"strings"
	"unicode"

	"github.com/iii-aws/harness/engine/bus"
)

// The types of a credential.
const (
	TypeAPIKey = "api_key"
	TypeOAuth  = "oauth"
)

// maxCredential is the largest credential, in bytes of JSON.
const maxCredential = 64 << 10

// Credential is a key or an OAuth grant. What is stored is the text as it came;
// these are the members that are looked at.
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
	case c.Type != TypeAPIKey && c.Type != TypeOAuth:
		return bus.Invalid("credential.type", "api_key or oauth")
	case c.Type == TypeAPIKey && c.Key == "":
		return bus.Missing("credential.key")
	case c.Type == TypeOAuth && c.AccessToken == "":
		return bus.Missing("credential.access_token")
	}
	for _, f := range [][2]string{{"key", c.Key}, {"access_token", c.AccessToken}, {"refresh_token", c.RefreshToken}} {
		// They become parts of headers.
		if strings.IndexFunc(f[1], unicode.IsControl) >= 0 || strings.TrimSpace(f[1]) != f[1] {
			return bus.Invalid("credential."+f[0], "a text without control characters or space around it")
		}
	}
	return nil
}

// secrets is the values that no log may show.
func (c Credential) secrets() []string { return []string{c.Key, c.AccessToken, c.RefreshToken} }

// The sources of a credential.
const (
	sourceStored      = "stored"
	sourceEnvironment = "environment"
)

// found is a credential and where it is from; the source is empty if there is
// none.
type found struct {
	Credential
	raw    json.RawMessage
	source string
}

// find is a provider's credential, as it was stored or from the environment.
func (s *Store) find(ctx context.Context, provider string) (found, error) {
	raw, ok, err := s.deps.Secrets.Get(ctx, provider)
	if err != nil {
		return found{}, storeError(provider, err)
	}
	if ok {
		f := found{raw: raw, source: sourceStored}
		if json.Unmarshal(raw, &f.Credential) != nil {
			return found{}, damaged(provider)
		}
		s.deps.Known(f.secrets()...)
		return f, nil
	}
	name := EnvVars[provider]
	if name == "" {
		return found{}, nil
	}
	key := s.deps.Getenv(name)
	if key == "" {
		return found{}, nil
	}
	s.deps.Known(key)
	f := found{Credential: Credential{Type: TypeAPIKey, Key: key}, source: sourceEnvironment}
	f.raw, err = bus.Encode(f.Credential)
	return f, err
}
