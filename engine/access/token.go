package access

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/redact"
	"github.com/iii-aws/harness/engine/state"
)

// Scope is where tokens are stored, under their id.
const Scope = "engine:api_tokens"

// Token is a stored token. It holds no secret.
type Token struct {
	ID          string   `json:"id"`
	Hash        string   `json:"hash"`
	Role        bus.Role `json:"role"`
	Name        string   `json:"name,omitempty"`
	WorkspaceID string   `json:"workspace_id,omitempty"`
	Sessions    []string `json:"sessions,omitempty"`
	Register    []string `json:"register,omitempty"`
	Call        []string `json:"call,omitempty"`
	ActAs       bool     `json:"act_as,omitempty"`
	CreatedAt   int64    `json:"created_at"`
	ExpiresAt   int64    `json:"expires_at,omitempty"`
	CreatedBy   string   `json:"created_by,omitempty"`
}

// PrincipalID is who calls with the token.
func (t Token) PrincipalID() string { return t.ID }

func (t Token) expires() time.Time { return clock.FromMillis(t.ExpiresAt) }

// AuthError is a token that gives nothing. It never names the token.
type AuthError struct{ Reason string }

// Error is the text of the error.
func (e *AuthError) Error() string { return "access: token " + e.Reason }

// ErrorCode is UNAUTHORIZED.
func (e *AuthError) ErrorCode() string { return "UNAUTHORIZED" }

// Tokens creates, checks and revokes tokens.
type Tokens struct {
	store state.Store
	clock clock.Clock
	ids   clock.IDs

	mu       sync.Mutex
	fixed    map[[32]byte]*Grant
	tickets  map[[32]byte]ticket
	revoked  []func(id string)
	attempts int
}

// NewTokens keeps tokens in the store.
func NewTokens(store state.Store, c clock.Clock, ids clock.IDs) *Tokens {
	return &Tokens{store: store, clock: c, ids: ids, fixed: map[[32]byte]*Grant{}, tickets: map[[32]byte]ticket{}, attempts: 5}
}

// Fix accepts a secret that is not stored, for as long as the process lives.
func (t *Tokens) Fix(secret string, g *Grant) {
	redact.Secrets.Add(secret)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fixed[sha256.Sum256([]byte(secret))] = g
}

// OnRevoke calls f with the id of each revoked token.
func (t *Tokens) OnRevoke(f func(id string)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.revoked = append(t.revoked, f)
}

// Secret mints a secret: hrn_, and 256 random bits in hex.
func (t *Tokens) Secret() (string, error) {
	b := make([]byte, 32)
	if _, err := t.ids.Read(b); err != nil {
		return "", fmt.Errorf("access: random: %w", err)
	}
	return "hrn_" + hex.EncodeToString(b), nil
}

// Authenticate gives the grant of a secret. Errors: *AuthError, or the store's.
func (t *Tokens) Authenticate(ctx context.Context, secret string) (*Grant, error) {
	sum := sha256.Sum256([]byte(secret))
	t.mu.Lock()
	fixed := t.fixed[sum]
	t.mu.Unlock()
	if fixed != nil {
		return fixed, nil
	}
	id, rest, ok := strings.Cut(strings.TrimPrefix(secret, "hrn_"), "_")
	if !ok || rest == "" || !strings.HasPrefix(secret, "hrn_") || !validID(id) {
		return nil, &AuthError{Reason: "is not known"}
	}
	item, found, err := t.store.Get(ctx, state.Key{Scope: Scope, Key: id})
	if err != nil {
		return nil, fmt.Errorf("access: read token: %w", err)
	}
	var tok Token
	if found {
		if err := json.Unmarshal(item.Value, &tok); err != nil {
			return nil, fmt.Errorf("access: stored token %s: %w", id, err)
		}
	}
	want, err := hex.DecodeString(tok.Hash)
	if err != nil || subtle.ConstantTimeCompare(want, sum[:]) != 1 {
		return nil, &AuthError{Reason: "is not known"}
	}
	g, err := New(tok)
	if err != nil {
		return nil, err
	}
	if g.Expired(t.clock.Now()) {
		return nil, &AuthError{Reason: "has expired"}
	}
	return g, nil
}

// Create stores a token and gives its secret, which is not kept.
func (t *Tokens) Create(ctx context.Context, tok Token) (Token, string, error) {
	if _, err := New(tok); err != nil {
		return Token{}, "", err
	}
	secret, err := t.Secret()
	if err != nil {
		return Token{}, "", err
	}
	idBytes := make([]byte, 8)
	if _, err := t.ids.Read(idBytes); err != nil {
		return Token{}, "", fmt.Errorf("access: random: %w", err)
	}
	tok.ID = idPrefix + hex.EncodeToString(idBytes)
	secret = "hrn_" + tok.ID + "_" + strings.TrimPrefix(secret, "hrn_")
	redact.Secrets.Add(secret)
	sum := sha256.Sum256([]byte(secret))
	tok.Hash = hex.EncodeToString(sum[:])
	tok.CreatedAt = clock.Millis(t.clock.Now())
	value, err := json.Marshal(tok)
	if err != nil {
		return Token{}, "", err
	}
	if _, err := state.Do(ctx, t.store, state.Set(Scope, tok.ID, value).IfAbsent()); err != nil {
		return Token{}, "", fmt.Errorf("access: store token: %w", err)
	}
	return tok, secret, nil
}

// Stands reports whether a principal still has what made it: a stored token that was not revoked and has not expired.
// Principals that are no stored token's always stand. Errors: those of the store.
func (t *Tokens) Stands(ctx context.Context, p bus.Principal) (bool, error) {
	if !tokenID(p.ID) {
		return true, nil
	}
	item, found, err := t.store.Get(ctx, state.Key{Scope: Scope, Key: p.ID})
	if err != nil || !found {
		return false, err
	}
	var tok Token
	if err := json.Unmarshal(item.Value, &tok); err != nil {
		return false, fmt.Errorf("access: stored token %s: %w", p.ID, err)
	}
	expires := tok.expires()
	return expires.IsZero() || t.clock.Now().Before(expires), nil
}

// idPrefix is what the ids of stored tokens start with, before 16 hex digits.
const idPrefix = "tok"

func tokenID(id string) bool {
	digits, ok := strings.CutPrefix(id, idPrefix)
	_, err := hex.DecodeString(digits)
	return ok && err == nil && len(digits) == 16
}

// List is every stored token, newest first.
func (t *Tokens) List(ctx context.Context) ([]Token, error) {
	items, err := t.store.List(ctx, Scope, state.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("access: list tokens: %w", err)
	}
	out := make([]Token, 0, len(items))
	for _, it := range items {
		var tok Token
		if err := json.Unmarshal(it.Value, &tok); err != nil {
			return nil, fmt.Errorf("access: stored token %s: %w", it.Key.Key, err)
		}
		out = append(out, tok)
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].CreatedAt > out[j].CreatedAt })
	return out, nil
}

// Revoke removes a token and reports whether it was there. Its connections
// are told by OnRevoke.
func (t *Tokens) Revoke(ctx context.Context, id string) (bool, error) {
	if !validID(id) {
		return false, nil
	}
	for range t.attempts {
		item, found, err := t.store.Get(ctx, state.Key{Scope: Scope, Key: id})
		if err != nil {
			return false, fmt.Errorf("access: read token: %w", err)
		}
		if !found {
			return false, nil
		}
		_, err = state.Do(ctx, t.store, state.Delete(Scope, id).IfVersion(item.Version))
		var conflict *state.ConflictError
		if errors.As(err, &conflict) {
			continue
		}
		if err != nil {
			return false, fmt.Errorf("access: revoke token: %w", err)
		}
		t.mu.Lock()
		t.dropTickets(id)
		told := append([]func(string){}, t.revoked...)
		t.mu.Unlock()
		for _, f := range told {
			f(id)
		}
		return true, nil
	}
	return false, fmt.Errorf("access: revoke token %s: %w", id, &state.ConflictError{Key: state.Key{Scope: Scope, Key: id}})
}

func validID(id string) bool {
	if len(id) < 4 || len(id) > 64 {
		return false
	}
	for _, r := range id {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') {
			return false
		}
	}
	return true
}
