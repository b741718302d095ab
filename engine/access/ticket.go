package access

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/redact"
	"github.com/iii-aws/harness/engine/state"
)

const (
	// TicketLife is how long a ticket may be used.
	TicketLife = 60 * time.Second
	// MaxTickets is how many unused tickets a token may have.
	MaxTickets = 32

	maxAllTickets = 4096
	ticketPrefix  = "hrt_"
)

// CodeTooManyTickets is the code of a ticket above MaxTickets.
const CodeTooManyTickets = "too_many_tickets"

// ticket is what is kept of a ticket, under its hash.
type ticket struct {
	grant   *Grant
	expires time.Time
}

// Ticket makes a ticket: for one connection with the grant, within TicketLife
// and the life of its token. Browsers use it, which cannot send a token. Only
// its hash is kept. Errors: FORBIDDEN for a peer without a token,
// too_many_tickets.
func (t *Tokens) Ticket(g *Grant) (secret string, expires time.Time, err error) {
	if g.local {
		return "", time.Time{}, &bus.Error{Code: protocol.CodeForbidden, Message: "a ticket stands for a token, and this connection has none: connect with one (harness token create)"}
	}
	b := make([]byte, 32)
	if _, err := t.ids.Read(b); err != nil {
		return "", time.Time{}, fmt.Errorf("access: random: %w", err)
	}
	secret = ticketPrefix + hex.EncodeToString(b)
	redact.Secrets.Add(secret)
	now := t.clock.Now()
	expires = now.Add(TicketLife)
	if !g.Expires.IsZero() && g.Expires.Before(expires) {
		expires = g.Expires
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	own := 0
	for sum, k := range t.tickets {
		switch {
		case !now.Before(k.expires):
			delete(t.tickets, sum)
		case k.grant.TokenID == g.TokenID && k.grant.Principal.ID == g.Principal.ID:
			own++
		}
	}
	if own >= MaxTickets || len(t.tickets) >= maxAllTickets {
		return "", time.Time{}, &bus.Error{Code: CodeTooManyTickets, Message: fmt.Sprintf("at most %d tickets may be unused: they run out after %v", MaxTickets, TicketLife)}
	}
	t.tickets[sha256.Sum256([]byte(secret))] = ticket{g, expires}
	return secret, expires, nil
}

// Redeem uses a ticket up and gives its grant. Errors: *AuthError, or the
// store's.
func (t *Tokens) Redeem(ctx context.Context, secret string) (*Grant, error) {
	if !strings.HasPrefix(secret, ticketPrefix) {
		return nil, &AuthError{Reason: "is no ticket"}
	}
	// The map is by the hash of 256 random bits: its timing tells nothing.
	sum := sha256.Sum256([]byte(secret))
	t.mu.Lock()
	k, ok := t.tickets[sum]
	delete(t.tickets, sum)
	t.mu.Unlock()
	if !ok || !t.clock.Now().Before(k.expires) {
		return nil, &AuthError{Reason: "is a ticket that is used or has run out"}
	}
	if err := t.Live(ctx, k.grant); err != nil {
		return nil, err
	}
	return k.grant, nil
}

// Live is nil while the token of a grant is neither revoked nor expired.
// Errors: *AuthError, or the store's.
func (t *Tokens) Live(ctx context.Context, g *Grant) error {
	if g.Expired(t.clock.Now()) {
		return &AuthError{Reason: "has expired"}
	}
	if g.TokenID == "" {
		return nil
	}
	_, found, err := t.store.Get(ctx, state.Key{Scope: Scope, Key: g.TokenID})
	if err != nil {
		return fmt.Errorf("access: read token: %w", err)
	}
	if !found {
		return &AuthError{Reason: "is revoked"}
	}
	return nil
}

// dropTickets forgets the tickets of a token. The caller holds mu.
func (t *Tokens) dropTickets(tokenID string) {
	for sum, k := range t.tickets {
		if k.grant.TokenID == tokenID {
			delete(t.tickets, sum)
		}
	}
}

// TicketResponse is the answer of auth::connect_ticket, on the bus and over
// HTTP.
type TicketResponse struct {
	Ticket string `json:"ticket"`
	// ExpiresAt is in epoch milliseconds.
	ExpiresAt int64 `json:"expires_at"`
}

// TicketFor is Ticket as both doors answer it.
func (t *Tokens) TicketFor(g *Grant) (TicketResponse, error) {
	secret, expires, err := t.Ticket(g)
	if err != nil {
		return TicketResponse{}, err
	}
	return TicketResponse{secret, clock.Millis(expires)}, nil
}
