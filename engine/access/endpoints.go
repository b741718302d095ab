package access

import (
	"context"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/protocol"
)

// CreateRequest asks for a token.
type CreateRequest struct {
	Role      bus.Role `json:"role"`
	Name      string   `json:"name,omitempty"`
	Workspace string   `json:"workspace,omitempty"`
	Sessions  []string `json:"sessions,omitempty"`
	Register  []string `json:"register,omitempty"`
	Call      []string `json:"call,omitempty"`
	ActAs     bool     `json:"act_as,omitempty"`
	// Expires is a duration such as 24h or 90d; empty for never.
	Expires string `json:"expires,omitempty"`
}

// Validate names the first wrong field.
func (r CreateRequest) Validate() error {
	if r.Role == "" {
		return bus.Missing("role")
	}
	if len(r.Name) > 128 {
		return bus.Invalid("name", "at most 128 bytes")
	}
	_, err := Lifetime(r.Expires)
	return err
}

// CreateResponse shows the secret, once.
type CreateResponse struct {
	ID        string   `json:"id"`
	Token     string   `json:"token"`
	Role      bus.Role `json:"role"`
	Name      string   `json:"name"`
	ExpiresAt *int64   `json:"expires_at"`
}

// Row is a token in a list.
type Row struct {
	ID        string   `json:"id"`
	Role      bus.Role `json:"role"`
	Name      string   `json:"name"`
	Workspace string   `json:"workspace,omitempty"`
	Sessions  []string `json:"sessions,omitempty"`
	Register  []string `json:"register,omitempty"`
	Call      []string `json:"call,omitempty"`
	ActAs     bool     `json:"act_as,omitempty"`
	CreatedAt int64    `json:"created_at"`
	ExpiresAt *int64   `json:"expires_at"`
}

type listResponse struct {
	Tokens []Row `json:"tokens"`
}

type revokeRequest struct {
	ID string `json:"id"`
}

// Validate names the first wrong field.
func (r revokeRequest) Validate() error {
	if r.ID == "" {
		return bus.Missing("id")
	}
	return nil
}

type revokeResponse struct {
	Revoked bool `json:"revoked"`
}

// Endpoints is auth::api_tokens::*, for operators.
func (t *Tokens) Endpoints() map[string]bus.Endpoint {
	return map[string]bus.Endpoint{
		"auth::api_tokens::create": bus.Typed(operator(t.create)),
		"auth::api_tokens::list": bus.Typed(operator(func(ctx context.Context, _ *bus.Call, _ struct{}) (listResponse, error) {
			tokens, err := t.List(ctx)
			out := listResponse{Tokens: make([]Row, len(tokens))}
			for i, k := range tokens {
				out.Tokens[i] = Row{ID: k.ID, Role: k.Role, Name: k.Name, Workspace: k.WorkspaceID, Sessions: k.Sessions,
					Register: k.Register, Call: k.Call, ActAs: k.ActAs, CreatedAt: k.CreatedAt, ExpiresAt: optional(k.ExpiresAt)}
			}
			return out, err
		})),
		"auth::api_tokens::revoke": bus.Typed(operator(func(ctx context.Context, _ *bus.Call, r revokeRequest) (revokeResponse, error) {
			ok, err := t.Revoke(ctx, r.ID)
			return revokeResponse{Revoked: ok}, err
		})),
	}
}

func (t *Tokens) create(ctx context.Context, call *bus.Call, r CreateRequest) (CreateResponse, error) {
	life, err := Lifetime(r.Expires)
	if err != nil {
		return CreateResponse{}, err
	}
	tok := Token{Role: r.Role, Name: r.Name, WorkspaceID: r.Workspace, Sessions: r.Sessions, Register: r.Register,
		Call: r.Call, ActAs: r.ActAs, CreatedBy: call.Principal.Actor()}
	if life > 0 {
		tok.ExpiresAt = clock.Millis(t.clock.Now().Add(life))
	}
	tok, secret, err := t.Create(ctx, tok)
	if err != nil {
		return CreateResponse{}, err
	}
	return CreateResponse{ID: tok.ID, Token: secret, Role: tok.Role, Name: tok.Name, ExpiresAt: optional(tok.ExpiresAt)}, nil
}

// operator refuses every other role, also where a call comes from a worker
// that acts for somebody.
func operator[Req, Res any](f func(context.Context, *bus.Call, Req) (Res, error)) func(context.Context, *bus.Call, Req) (Res, error) {
	return func(ctx context.Context, call *bus.Call, req Req) (Res, error) {
		if !call.Principal.SeesAll() {
			var zero Res
			return zero, &bus.Error{Code: protocol.CodeForbidden, Message: call.FunctionID + " is reserved for tokens of role operator"}
		}
		return f(ctx, call, req)
	}
}

// Lifetime reads a duration that may also be given in days, such as 90d. Empty
// is 0, for ever.
func Lifetime(s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	unit, text := time.Duration(1), s
	if n := len(s); s[n-1] == 'd' {
		unit, text = 24, s[:n-1]+"h"
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 || d > 10*365*24*time.Hour/unit {
		return 0, &bus.InvalidError{Field: "expires", Allowed: "a duration such as 24h or 90d, more than 0 and at most 3650d", Err: err}
	}
	return d * unit, nil
}

func optional(ms int64) *int64 {
	if ms == 0 {
		return nil
	}
	return &ms
}
