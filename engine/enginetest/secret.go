package enginetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/iii-aws/harness/engine/secret"
)

// NewSecret makes an empty store for a test.
type NewSecret func(t *testing.T) secret.Store

// RunSecret is the suite of secret.Store.
func RunSecret(t *testing.T, open NewSecret) {
	t.Helper()
	for _, tt := range secretCases {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.run(t, open(t))
		})
	}
}

func setSecret(t *testing.T, s secret.Store, name, value string) {
	t.Helper()
	if err := s.Set(t.Context(), name, json.RawMessage(value)); err != nil {
		t.Fatalf("set %s: %v", name, err)
	}
}

func wantSecret(t *testing.T, s secret.Store, name, want string) {
	t.Helper()
	got, ok, err := s.Get(t.Context(), name)
	if err != nil || !ok || string(got) != want {
		t.Errorf("get %s: got %s, ok %v, error %v; want %s", name, got, ok, err, want)
	}
}

func wantSecretNames(t *testing.T, s secret.Store, want ...string) {
	t.Helper()
	names, err := s.Names(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want == nil {
		want = []string{}
	}
	wantStrings(t, "names", names, want)
}

var secretCases = []struct {
	name string
	run  func(t *testing.T, s secret.Store)
}{
	{"an absent secret is no error", func(t *testing.T, s secret.Store) {
		got, ok, err := s.Get(t.Context(), "none")
		if got != nil || ok || err != nil {
			t.Errorf("got %s, ok %v, error %v; want none", got, ok, err)
		}
		if err := s.Delete(t.Context(), "none"); err != nil {
			t.Errorf("delete: %v", err)
		}
		wantSecretNames(t, s)
	}},
	{"set, replace and delete", func(t *testing.T, s secret.Store) {
		setSecret(t, s, "b", `{"type":"api_key","key":"k1"}`)
		setSecret(t, s, "a", `{"type":"oauth","expires_at":9007199254740993}`)
		wantSecret(t, s, "b", `{"type":"api_key","key":"k1"}`)
		wantSecret(t, s, "a", `{"type":"oauth","expires_at":9007199254740993}`)
		setSecret(t, s, "b", `{"type":"api_key","key":"k2"}`)
		wantSecret(t, s, "b", `{"type":"api_key","key":"k2"}`)
		wantSecretNames(t, s, "a", "b")
		if err := s.Delete(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if _, ok, err := s.Get(t.Context(), "a"); ok || err != nil {
			t.Errorf("got ok %v, error %v after the delete; want none", ok, err)
		}
		wantSecretNames(t, s, "b")
	}},
	{"a read belongs to its caller", func(t *testing.T, s secret.Store) {
		setSecret(t, s, "a", `"x"`)
		got, _, err := s.Get(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		clear(got)
		wantSecret(t, s, "a", `"x"`)
	}},
	{"writers of different names lose nothing", func(t *testing.T, s secret.Store) {
		var writers sync.WaitGroup
		for i := range 16 {
			writers.Go(func() {
				if err := s.Set(t.Context(), fmt.Sprintf("n%02d", i), json.RawMessage(fmt.Sprint(i))); err != nil {
					t.Error(err)
				}
			})
		}
		writers.Wait()
		for i := range 16 {
			wantSecret(t, s, fmt.Sprintf("n%02d", i), fmt.Sprint(i))
		}
	}},
	{"errors do not show values", func(t *testing.T, s secret.Store) {
		const canary = "sk-canary"
		for name, err := range map[string]error{
			"bad JSON": s.Set(t.Context(), "n", json.RawMessage(`{"key":"`+canary)),
			"bad name": s.Set(t.Context(), "", json.RawMessage(`"`+canary+`"`)),
		} {
			if err == nil {
				t.Errorf("%s: got no error", name)
			} else if strings.Contains(err.Error(), canary) {
				t.Errorf("%s: the error shows the value: %v", name, err)
			}
			var coded interface{ ErrorCode() string }
			if !errors.As(err, &coded) {
				t.Errorf("%s: got %T, want an error with a code", name, err)
			}
		}
		wantSecretNames(t, s)
	}},
	{"an ended context ends a call", func(t *testing.T, s secret.Store) {
		ctx, cancel := contextWithCancel(t)
		cancel()
		if err := s.Set(ctx, "n", json.RawMessage(`1`)); err == nil {
			t.Error("set: got no error")
		}
		if _, _, err := s.Get(ctx, "n"); err == nil {
			t.Error("get: got no error")
		}
		if err := s.Delete(ctx, "n"); err == nil {
			t.Error("delete: got no error")
		}
		if _, err := s.Names(ctx); err == nil {
			t.Error("names: got no error")
		}
	}},
}
