package access

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/state"
)

func grantOf(t *testing.T, tokens *Tokens, tok Token) *Grant {
	t.Helper()
	_, secret, err := tokens.Create(t.Context(), tok)
	if err != nil {
		t.Fatal(err)
	}
	g, err := tokens.Authenticate(t.Context(), secret)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestTicketIsForOneConnection(t *testing.T) {
	t.Parallel()
	tokens, clock, store := newTokens(t)
	g := grantOf(t, tokens, Token{Role: bus.RoleClient})
	secret, expires, err := tokens.Ticket(g)
	if err != nil || !expires.Equal(clock.Now().Add(TicketLife)) {
		t.Fatal(expires, err)
	}
	if got, err := tokens.Redeem(t.Context(), secret); err != nil || got != g {
		t.Errorf("grant %+v, %v", got, err)
	}
	var auth *AuthError
	if _, err := tokens.Redeem(t.Context(), secret); !errors.As(err, &auth) {
		t.Errorf("used twice: %v", err)
	}
	for _, wrong := range []string{"", "hrt_", "hrt_00", strings.TrimPrefix(secret, "hrt_")} {
		if _, err := tokens.Redeem(t.Context(), wrong); !errors.As(err, &auth) || strings.Contains(err.Error(), "hrt_0") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	if _, err := tokens.Authenticate(t.Context(), secret); !errors.As(err, &auth) {
		t.Errorf("a ticket is no token: %v", err)
	}
	items, err := store.List(t.Context(), Scope, state.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, it := range items {
		if strings.Contains(string(it.Value), secret) {
			t.Error("the ticket is stored")
		}
	}
}

func TestTicketEndsWithItsTimeAndItsToken(t *testing.T) {
	t.Parallel()
	tokens, clock, _ := newTokens(t)
	var auth *AuthError
	late, _, err := tokens.Ticket(grantOf(t, tokens, Token{Role: bus.RoleClient}))
	if err != nil {
		t.Fatal(err)
	}
	clock.Advance(TicketLife)
	if _, err := tokens.Redeem(t.Context(), late); !errors.As(err, &auth) {
		t.Errorf("after its time: %v", err)
	}
	brief := grantOf(t, tokens, Token{Role: bus.RoleClient, ExpiresAt: clock.Now().Add(time.Second).UnixMilli()})
	short, expires, err := tokens.Ticket(brief)
	if err != nil || !expires.Equal(brief.Expires) {
		t.Errorf("it ends at %v, %v", expires, err)
	}
	clock.Advance(time.Second)
	if _, err := tokens.Redeem(t.Context(), short); !errors.As(err, &auth) {
		t.Errorf("after the time of its token: %v", err)
	}
	if err := tokens.Live(t.Context(), brief); !errors.As(err, &auth) {
		t.Errorf("an expired grant lives: %v", err)
	}
	g := grantOf(t, tokens, Token{Role: bus.RoleClient})
	revoked, _, err := tokens.Ticket(g)
	if err != nil {
		t.Fatal(err)
	}
	if err := tokens.Live(t.Context(), g); err != nil {
		t.Errorf("a live grant: %v", err)
	}
	if _, err := tokens.Revoke(t.Context(), g.TokenID); err != nil {
		t.Fatal(err)
	}
	if _, err := tokens.Redeem(t.Context(), revoked); !errors.As(err, &auth) {
		t.Errorf("of a revoked token: %v", err)
	}
	if err := tokens.Live(t.Context(), g); !errors.As(err, &auth) {
		t.Errorf("a revoked grant lives: %v", err)
	}
}

func TestTicketsAreBounded(t *testing.T) {
	t.Parallel()
	tokens, clock, _ := newTokens(t)
	if _, _, err := tokens.Ticket(Local()); bus.Code(err) != "FORBIDDEN" {
		t.Errorf("a peer without a token: %v", err)
	}
	g := grantOf(t, tokens, Token{Role: bus.RoleClient})
	for range MaxTickets {
		if _, _, err := tokens.Ticket(g); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := tokens.Ticket(g); bus.Code(err) != CodeTooManyTickets {
		t.Errorf("one too many: %v", err)
	}
	if _, _, err := tokens.Ticket(Operator()); err != nil {
		t.Errorf("another token: %v", err)
	}
	clock.Advance(TicketLife)
	if _, err := tokens.TicketFor(g); err != nil {
		t.Errorf("after a minute: %v", err)
	}
	if n := len(tokens.tickets); n != 1 {
		t.Errorf("%d tickets are kept", n)
	}
}
