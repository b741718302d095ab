package credential

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
)

const canary = "sk-CANARY-7f3a"

type memory struct {
	mu  sync.Mutex
	m   map[string]json.RawMessage
	err error
}

func (s *memory) Get(_ context.Context, n string) (json.RawMessage, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.m[n]
	return v, ok, s.err
}

func (s *memory) Set(_ context.Context, n string, v json.RawMessage) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.m[n] = v
	}
	return s.err
}

func (s *memory) Delete(_ context.Context, n string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.m, n)
	return s.err
}

func (s *memory) Names(context.Context) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for n := range s.m {
		out = append(out, n)
	}
	sort.Strings(out)
	return out, s.err
}

type fixture struct {
	*Store
	t       *testing.T
	secrets *memory
	env     map[string]string
	known   []string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, secrets: &memory{m: map[string]json.RawMessage{}}, env: map[string]string{}}
	var err error
	f.Store, err = New(Deps{Secrets: f.secrets, Getenv: func(k string) string { return f.env[k] }, Known: func(v ...string) { f.known = append(f.known, v...) }})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

var operator = bus.Call{Principal: bus.Principal{ID: "op", Role: bus.RoleOperator}}

func (f *fixture) invoke(call bus.Call, id, data string) (string, error) {
	call.FunctionID, call.Data = id, json.RawMessage(data)
	out, err := f.Endpoints()[id].Handle(f.t.Context(), &call)
	return string(out), err
}

func (f *fixture) must(id, data string) string {
	f.t.Helper()
	out, err := f.invoke(operator, id, data)
	if err != nil {
		f.t.Fatalf("%s %s: %v", id, data, err)
	}
	return out
}

func TestA43StoredBeatsEnvironment(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if got := f.must("auth::get_token", `{"provider":"anthropic"}`); got != "null" {
		t.Errorf("got %s, want null", got)
	}
	f.env["ANTHROPIC_API_KEY"] = ""
	if got := f.must("auth::get_token", `{"provider":"anthropic"}`); got != "null" {
		t.Errorf("an empty variable gave %s", got)
	}
	f.env["ANTHROPIC_API_KEY"] = "env-key"
	if got := f.must("auth::get_token", `{"provider":"anthropic"}`); got != `{"type":"api_key","key":"env-key"}` {
		t.Errorf("got %s", got)
	}
	stored := `{"type":"oauth","access_token":"stored","expires_at":1780000000000,"x":1}`
	f.must("auth::set_token", `{"provider":"anthropic","credential":`+stored+`}`)
	if got := f.must("auth::get_token", `{"body":{"provider":"anthropic"}}`); got != stored {
		t.Errorf("got %s, want %s", got, stored)
	}
	f.must("auth::delete_token", `{"provider":"anthropic"}`)
	if got := f.must("auth::get_token", `{"provider":"anthropic"}`); got != `{"type":"api_key","key":"env-key"}` {
		t.Errorf("got %s", got)
	}
	if got := f.must("auth::get_token", `{"provider":"unknown"}`); got != "null" {
		t.Errorf("got %s, want null", got)
	}
	if !slices.Contains(f.known, "env-key") || !slices.Contains(f.known, "stored") {
		t.Errorf("known secrets = %v", f.known)
	}
}

func TestA43StatusHidesTheSecret(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.env["OPENAI_API_KEY"] = canary
	f.must("auth::set_token", `{"provider":"kimi","credential":{"type":"api_key","key":"`+canary+`"}}`)
	f.must("auth::set_token", `{"provider":"xai","credential":{"type":"oauth","access_token":"`+canary+`"}}`)
	for provider, want := range map[string]StatusResponse{
		"openai": {Configured: true, Source: "environment", Label: "api-key:OPENAI_API_KEY"},
		"kimi":   {Configured: true, Source: "stored", Label: "api-key:stored"},
		"xai":    {Configured: true, Source: "stored", Label: "oauth"},
		"groq":   {},
	} {
		out := f.must("auth::status", `{"provider":"`+provider+`"}`)
		var got StatusResponse
		if err := json.Unmarshal([]byte(out), &got); err != nil || got != want || strings.Contains(out, canary) {
			t.Errorf("%s: %s, want %+v", provider, out, want)
		}
	}
	if got := f.must("auth::list_providers", `{}`); got != `{"providers":["kimi","xai"]}` {
		t.Errorf("list = %s", got)
	}
}

func TestA43SetTokenValidation(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, bad := range []string{
		`{}`, `{"provider":"x"}`, `{"provider":"x","credential":null}`, `{"provider":"x","credential":"text"}`,
		`{"provider":"x","credential":{"type":"magic","key":"` + canary + `"}}`, `{"provider":"x","credential":{"type":"api_key"}}`,
		`{"provider":"x","credential":{"type":"oauth"}}`, `{"provider":"a\u0000b","credential":{"type":"api_key","key":"k"}}`,
		`{"provider":"` + strings.Repeat("x", 129) + `","credential":{"type":"api_key","key":"k"}}`,
		`{"provider":"x","credential":{"type":"api_key","key":"` + strings.Repeat("k", maxCredential) + `"}}`,
	} {
		_, err := f.invoke(operator, "auth::set_token", bad)
		if bus.Code(err) != "invalid_payload" || strings.Contains(err.Error(), canary) {
			t.Errorf("%s: error = %v", bad[:min(80, len(bad))], err)
		}
	}
	if len(f.secrets.m) != 0 {
		t.Error("something was stored")
	}
}

func TestWhoMayReadAndWrite(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.env["OPENAI_API_KEY"] = "k"
	client := bus.Call{Principal: bus.Principal{ID: "c", Role: bus.RoleClient}}
	worker := bus.Call{Principal: bus.Principal{ID: "c", Role: bus.RoleClient}, Worker: "provider-openai"}
	for _, tt := range []struct {
		name string
		call bus.Call
		id   string
		data string
		ok   bool
	}{
		{"a built-in worker reads", worker, "auth::get_token", `{"provider":"openai"}`, true},
		{"a client does not read", client, "auth::get_token", `{"provider":"openai"}`, false},
		{"a worker for a client does not write", worker, "auth::set_token", `{"provider":"openai","credential":{"type":"api_key","key":"k"}}`, false},
		{"a client does not delete", client, "auth::delete_token", `{"provider":"openai"}`, false},
		{"a client asks for the status", client, "auth::status", `{"provider":"openai"}`, true},
	} {
		_, err := f.invoke(tt.call, tt.id, tt.data)
		if (err == nil) != tt.ok || (err != nil && bus.Code(err) != "FORBIDDEN") {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	refusing, err := New(Deps{Secrets: f.secrets, Allowed: func(*bus.Call, string) error { return errors.New("no") }})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := refusing.Endpoints()["auth::get_token"].Handle(t.Context(), &bus.Call{Data: json.RawMessage(`{"provider":"openai"}`)}); err == nil {
		t.Error("the predicate was not asked")
	}
}

func TestStoreFailureIsNoMissingCredential(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.env["OPENAI_API_KEY"] = "env"
	f.secrets.err = errors.New("disk")
	for id, data := range map[string]string{
		"auth::get_token": `{"provider":"openai"}`, "auth::status": `{"provider":"openai"}`, "auth::list_providers": `{}`,
		"auth::delete_token": `{"provider":"openai"}`, "auth::set_token": `{"provider":"openai","credential":{"type":"api_key","key":"k"}}`,
	} {
		if out, err := f.invoke(operator, id, data); err == nil {
			t.Errorf("%s answered %s", id, out)
		}
	}
	f.secrets.err = nil
	f.secrets.m["openai"] = json.RawMessage(`"` + canary + `"`)
	if out, err := f.invoke(operator, "auth::get_token", `{"provider":"openai"}`); err == nil || strings.Contains(err.Error(), canary) {
		t.Errorf("a damaged credential answered %s, %v", out, err)
	}
}

func TestEnvironmentScan(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.env["HF_TOKEN"], f.env["MOONSHOT_API_KEY"], f.env["GROQ_API_KEY"] = "hf_1234567890", "short", ""
	want := []Found{
		{"huggingface", "HF_TOKEN", "hf_12345"}, {"kimi", "MOONSHOT_API_KEY", "short"}, {"kimi-coding", "MOONSHOT_API_KEY", "short"},
	}
	if diff := cmp.Diff(want, f.Scan()); diff != "" {
		t.Error(diff)
	}
	if n := Names(); len(n) != len(EnvVars)-2 {
		t.Errorf("%d names for %d providers", len(n), len(EnvVars))
	}
}

func TestNewWantsASecretStore(t *testing.T) {
	t.Parallel()
	if _, err := New(Deps{}); err == nil {
		t.Error("made without a store")
	}
	s, err := New(Deps{Secrets: &memory{m: map[string]json.RawMessage{}}})
	if err != nil {
		t.Fatal(err)
	}
	if st, err := s.Status(t.Context(), "openai"); st.Configured || err != nil {
		t.Errorf("status = %+v, %v", st, err)
	}
}
