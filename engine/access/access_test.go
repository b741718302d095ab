package access

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/embedded"
	"github.com/iii-aws/harness/engine/state"
)

func newTokens(t *testing.T) (*Tokens, *clock.Fake, state.Store) {
	t.Helper()
	c := clock.NewFake(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC))
	db, err := embedded.Open(t.Context(), embedded.Options{Dir: t.TempDir(), NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return NewTokens(db.State(), c, clock.Sequence(1)), c, db.State()
}

func TestRolesMayCall(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		role     bus.Role
		call     []string
		allowed  []string
		rejected []string
	}{
		{bus.RoleClient, nil,
			[]string{"run::start", "session-tree::messages", "ui::subscribe", "engine::channels::create", "engine::log::info"},
			[]string{"approval::resolve", "state::set", "shell::exec", "auth::set_token", "auth::api_tokens::create", "demo::time"}},
		{bus.RoleClient, []string{"demo::*", "auth::*", "iii::queue::*"}, []string{"demo::time", "auth::status"}, []string{"auth::set_token", "auth::api_tokens::list", "iii::queue::redrive"}},
		{bus.RoleApprover, nil, []string{"approval::resolve", "approval::list", "turn::get_state"}, []string{"run::start", "session-tree::messages"}},
		{bus.RoleOperator, nil, []string{"auth::api_tokens::create", "state::set", "anything::at_all"}, nil},
		{bus.RoleWorker, []string{"orders::*"}, []string{"orders::price", "engine::workers::register"}, []string{"run::start", "state::get"}},
	} {
		g, err := New(Token{ID: "tok1", Role: tt.role, Call: tt.call})
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range tt.allowed {
			if err := g.MayCall(id, false); err != nil {
				t.Errorf("%s: %v", tt.role, err)
			}
			if err := g.MayCall(id, true); bus.Code(err) != "FORBIDDEN" {
				t.Errorf("%s: internal %s: error %v", tt.role, id, err)
			}
		}
		for _, id := range tt.rejected {
			err := g.MayCall(id, false)
			if bus.Code(err) != "FORBIDDEN" || !strings.Contains(err.Error(), id) {
				t.Errorf("%s: %s: error = %v, want FORBIDDEN that names it", tt.role, id, err)
			}
		}
	}
}

func TestLocalIsNoOperator(t *testing.T) {
	t.Parallel()
	g := Local()
	for _, id := range []string{"auth::api_tokens::create", "auth::set_token", "auth::delete_token", "engine::registrations::release", "iii::queue::redrive", "queue::define"} {
		if g.MayCall(id, false) == nil {
			t.Errorf("local may call %s", id)
		}
		if Operator().MayCall(id, false) != nil {
			t.Errorf("an operator may not call %s", id)
		}
	}
	if g.MayCall("approval::resolve", false) != nil || !g.MayRegister("policy::check_permissions") || g.MayRegister("engine::foo") {
		t.Error("the local exception is wrong")
	}
	if g.Principal.ID != Operator().Principal.ID {
		t.Error("dev's token does not own what local started")
	}
}

func TestMayRegister(t *testing.T) {
	t.Parallel()
	c, err := New(Token{ID: "tok1", Role: bus.RoleClient})
	if err != nil {
		t.Fatal(err)
	}
	w, err := New(Token{ID: "tok2", Role: bus.RoleWorker, Register: []string{"*"}})
	if err != nil {
		t.Fatal(err)
	}
	if !c.MayRegister("ui::session::event::b1") || c.MayRegister("demo::time") || !w.MayRegister("demo::time") || w.MayRegister("engine::workers::list") {
		t.Error("MayRegister is wrong")
	}
	if _, err := New(Token{Role: "king"}); err == nil {
		t.Error("an unknown role got a grant")
	}
}

func TestSeesSession(t *testing.T) {
	t.Parallel()
	a, err := New(Token{ID: "tok1", Role: bus.RoleApprover, Sessions: []string{"team-*"}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(Token{ID: "tok2", Role: bus.RoleClient, Sessions: []string{"*"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		got    bool
		expect bool
	}{
		{"approver by glob", a.SeesSession("other", "team-1"), true},
		{"approver outside its globs", a.SeesSession("other", "x"), false},
		{"client its own", c.SeesSession("tok2", "x"), true},
		{"client a stranger's, whatever its globs", c.SeesSession("other", "x"), false},
		{"operator", Operator().SeesSession("other", "x"), true},
		{"nobody owns what has no owner", Sees(bus.Principal{}, "", "x"), false},
	} {
		if tt.got != tt.expect {
			t.Errorf("%s: %v, want %v", tt.name, tt.got, tt.expect)
		}
	}
}

func TestTokenLife(t *testing.T) {
	t.Parallel()
	tokens, c, store := newTokens(t)
	ctx := t.Context()
	tok, secret, err := tokens.Create(ctx, Token{Role: bus.RoleClient, Name: "n", ExpiresAt: clock.Millis(c.Now().Add(time.Hour))})
	if err != nil {
		t.Fatal(err)
	}
	g, err := tokens.Authenticate(ctx, secret)
	if err != nil || g.Principal.ID != tok.PrincipalID() {
		t.Fatalf("grant %+v, %v", g, err)
	}
	items, err := store.List(ctx, Scope, state.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, it := range items {
		if strings.Contains(string(it.Value), strings.TrimPrefix(secret, "hrn_"+tok.ID+"_")) {
			t.Error("the secret is stored")
		}
	}
	for name, s := range map[string]string{
		"empty": "", "prefix": "hrn_", "cut": secret[:len(secret)-1], "longer": secret + "a", "other id": strings.Replace(secret, tok.ID, "tok0000000000000000", 1),
		"path": "hrn_../x_y", "no prefix": strings.TrimPrefix(secret, "hrn_"),
	} {
		var auth *AuthError
		if _, err := tokens.Authenticate(ctx, s); !errors.As(err, &auth) || strings.Contains(err.Error(), "hrn_") {
			t.Errorf("%s: error = %v, want an AuthError without the token", name, err)
		}
	}
	c.Advance(time.Hour)
	if _, err := tokens.Authenticate(ctx, secret); err == nil || !strings.Contains(err.Error(), "expired") {
		t.Errorf("error = %v", err)
	}
}

func TestRevoke(t *testing.T) {
	t.Parallel()
	tokens, _, _ := newTokens(t)
	ctx := t.Context()
	tok, secret, err := tokens.Create(ctx, Token{Role: bus.RoleOperator})
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	tokens.OnRevoke(func(id string) { told = append(told, id) })
	for _, want := range []bool{true, false} {
		if ok, err := tokens.Revoke(ctx, tok.ID); ok != want || err != nil {
			t.Errorf("revoked = %v, %v; want %v", ok, err, want)
		}
	}
	if ok, _ := tokens.Revoke(ctx, "../x"); ok || len(told) != 1 || told[0] != tok.ID {
		t.Errorf("told %v", told)
	}
	if _, err := tokens.Authenticate(ctx, secret); err == nil {
		t.Error("a revoked token gives a grant")
	}
}

func TestStands(t *testing.T) {
	t.Parallel()
	tokens, c, store := newTokens(t)
	forever, _, err := tokens.Create(t.Context(), Token{Role: bus.RoleWorker})
	if err != nil {
		t.Fatal(err)
	}
	brief, _, err := tokens.Create(t.Context(), Token{Role: bus.RoleWorker, ExpiresAt: c.Now().Add(time.Hour).UnixMilli()})
	if err != nil {
		t.Fatal(err)
	}
	stands := func(id string, want bool) {
		t.Helper()
		if got, err := tokens.Stands(t.Context(), bus.Principal{ID: id}); err != nil || got != want {
			t.Errorf("%s: got %v, %v", id, got, err)
		}
	}
	for _, id := range []string{forever.ID, brief.ID, LocalID, "system", "", "tok", "tokyo", "tok12"} {
		stands(id, true)
	}
	c.Advance(time.Hour)
	stands(brief.ID, false)
	if _, err := tokens.Revoke(t.Context(), forever.ID); err != nil {
		t.Fatal(err)
	}
	stands(forever.ID, false)
	stands("tok0123456789abcdef", false)
	if _, err := state.Do(t.Context(), store, state.Set(Scope, brief.ID, json.RawMessage("7"))); err != nil {
		t.Fatal(err)
	}
	if ok, err := tokens.Stands(t.Context(), bus.Principal{ID: brief.ID}); ok || err == nil {
		t.Errorf("got %v, %v for a row that cannot be read", ok, err)
	}
}

func TestFixedToken(t *testing.T) {
	t.Parallel()
	tokens, _, _ := newTokens(t)
	secret, err := tokens.Secret()
	if err != nil {
		t.Fatal(err)
	}
	tokens.Fix(secret, Operator())
	if g, err := tokens.Authenticate(t.Context(), secret); err != nil || g.Principal.Role != bus.RoleOperator {
		t.Errorf("grant %+v, %v", g, err)
	}
}

func TestEndpoints(t *testing.T) {
	t.Parallel()
	tokens, _, _ := newTokens(t)
	endpoints := tokens.Endpoints()
	invoke := func(p bus.Principal, id, data string) (json.RawMessage, error) {
		return endpoints[id].Handle(context.Background(), &bus.Call{FunctionID: id, Data: json.RawMessage(data), Principal: p})
	}
	op := bus.Principal{ID: "o", Role: bus.RoleOperator}
	for id := range endpoints {
		if _, err := invoke(bus.Principal{ID: "c", Role: bus.RoleClient}, id, `{"role":"client","id":"x"}`); bus.Code(err) != "FORBIDDEN" {
			t.Errorf("%s: error = %v, want FORBIDDEN", id, err)
		}
	}
	out, err := invoke(op, "auth::api_tokens::create", `{"role":"worker","name":"w","register":["demo::*"],"expires":"90d"}`)
	if err != nil {
		t.Fatal(err)
	}
	var created CreateResponse
	if err := json.Unmarshal(out, &created); err != nil || created.ExpiresAt == nil || !strings.HasPrefix(created.Token, "hrn_") {
		t.Fatalf("created %s, %v", out, err)
	}
	out, err = invoke(op, "auth::api_tokens::list", `{}`)
	if err != nil || !strings.Contains(string(out), created.ID) || strings.Contains(string(out), "hash") || strings.Contains(string(out), created.Token) {
		t.Errorf("list = %s, %v", out, err)
	}
	if out, err = invoke(op, "auth::api_tokens::revoke", `{"id":"`+created.ID+`"}`); err != nil || string(out) != `{"revoked":true}` {
		t.Errorf("revoke = %s, %v", out, err)
	}
	for _, bad := range []string{`{}`, `{"role":"king"}`, `{"role":"client","expires":"soon"}`, `{"role":"client","name":"` + strings.Repeat("x", 129) + `"}`} {
		if _, err := invoke(op, "auth::api_tokens::create", bad); err == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
	if _, err := invoke(op, "auth::api_tokens::revoke", `{}`); err == nil {
		t.Error("an id was not asked for")
	}
}

func TestLifetime(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]time.Duration{"": 0, "90d": 90 * 24 * time.Hour, "24h": 24 * time.Hour, "0.5d": 12 * time.Hour} {
		if got, err := Lifetime(in); got != want || err != nil {
			t.Errorf("%q = %v, %v", in, got, err)
		}
	}
	for _, in := range []string{"x", "-1d", "0", "d", "9999999999d", "5000d"} {
		if _, err := Lifetime(in); err == nil {
			t.Errorf("%q was accepted", in)
		}
	}
}
