package credential

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/iii-aws/harness/engine/bus"
)

// F36: whatever is wrong with a credential, no answer and no error shows it.
func TestF36CanaryStaysHidden(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	long := strings.Repeat(canary, maxCredential/len(canary)+1)
	for _, data := range []string{
		`{"provider":"x","credential":"` + canary + `"}`,
		`{"provider":"x","credential":["` + canary + `"]}`,
		`{"provider":"x","credential":{"type":"` + canary + `"}}`,
		`{"provider":"x","credential":{"type":"api_key","key":{"value":"` + canary + `"}}}`,
		`{"provider":"x","credential":{"type":"api_key","key":"` + canary + `\n"}}`,
		`{"provider":"x","credential":{"type":"api_key","key":" ` + canary + `"}}`,
		`{"provider":"x","credential":{"type":"oauth","access_token":"` + canary + `","refresh_token":"` + canary + `\u0000"}}`,
		`{"provider":"x","credential":{"type":"oauth","access_token":"a","expires_at":"` + canary + `"}}`,
		`{"provider":"x","credential":{"type":"api_key","key":"` + long + `"}}`,
		`{"provider":["` + canary + `"],"credential":{}}`,
		`{"provider":"x","credential":{"type":"api_key","key":"` + canary,
	} {
		out, err := f.invoke(operator, "auth::set_token", data)
		if bus.Code(err) != "invalid_payload" || strings.Contains(fmt.Sprint(out, err), canary) {
			t.Errorf("%s: answered %s, %v", data[:min(len(data), 90)], out, err)
		}
	}
	if len(f.secrets.m) != 0 {
		t.Errorf("stored: %v", f.secrets.m)
	}
	for _, stored := range []string{`"` + canary + `"`, `{"type":"` + canary + `","expires_at":"` + canary + `"}`, `{` + canary} {
		f.secrets.m["x"] = json.RawMessage(stored)
		for _, id := range []string{"auth::get_token", "auth::status"} {
			out, err := f.invoke(operator, id, `{"provider":"x"}`)
			if err == nil || strings.Contains(fmt.Sprintf("%s %v %+v", out, err, err), canary) || bus.Code(err) != "STORAGE_ERROR" || bus.Retryable(err) {
				t.Errorf("%s of %s: answered %s, %v", id, stored, out, err)
			}
		}
	}
}

// A key is known to redaction before anybody could have shown it.
func TestF36KeysAreKnownFromTheStart(t *testing.T) {
	t.Parallel()
	var known []string
	secrets := &memory{m: map[string]json.RawMessage{
		"kimi": json.RawMessage(`{"type":"api_key","key":"stored-key-1"}`),
		"xai":  json.RawMessage(`{"type":"oauth","access_token":"stored-token","refresh_token":"stored-refresh"}`),
		"bad":  json.RawMessage(`7`),
	}}
	env := map[string]string{"GROQ_API_KEY": "environment-key"}
	s, err := New(Deps{Secrets: secrets, Getenv: func(n string) string { return env[n] }, Known: func(v ...string) { known = append(known, v...) }})
	if err != nil {
		t.Fatal(err)
	}
	var bad *Error
	if err := s.Learn(t.Context()); !errors.As(err, &bad) || bad.Provider != "bad" || !bad.Damaged {
		t.Errorf("a damaged credential was passed over: %v", err)
	}
	for _, v := range []string{"stored-key-1", "stored-token", "stored-refresh", "environment-key"} {
		if !slices.Contains(known, v) {
			t.Errorf("%s is not known", v)
		}
	}
	secrets.err = errors.New("disk")
	if err := s.Learn(t.Context()); bus.Code(err) != "STORAGE_ERROR" || !bus.Retryable(err) {
		t.Errorf("learned from a store that failed: %v", err)
	}
}

func TestNamesAreSortedAndOnce(t *testing.T) {
	t.Parallel()
	names := Names()
	if !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Errorf("names = %v", names)
	}
	for provider, want := range map[string]string{
		"anthropic": "ANTHROPIC_API_KEY", "openai-codex": "OPENAI_API_KEY", "kimi-coding": "MOONSHOT_API_KEY",
		"amazon-bedrock": "AWS_ACCESS_KEY_ID", "opencode-go": "OPENCODE_GO_API_KEY",
	} {
		if EnvVars[provider] != want {
			t.Errorf("%s is read from %s, want %s", provider, EnvVars[provider], want)
		}
	}
	if len(EnvVars) != 23 {
		t.Errorf("%d providers", len(EnvVars))
	}
}
