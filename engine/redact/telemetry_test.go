package redact

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestA39TelemetryKeys(t *testing.T) {
	t.Parallel()
	hidden := []string{
		"api_key", "apikey", "api-key", "password", "secret", "credential", "authorization", "auth_token",
		"access_token", "refresh_token", "bearer", "private_key", "client_secret", "token",
		"API_KEY", "x-api-key", "openaiApiKey", "db_password_old", "credentials", "Proxy-Authorization",
		"sessionToken", "bot_token", "x-token", "access_key", "auth", "my_auth", "Set-Cookie", "cookie", "passphrase",
	}
	shown := []string{"tokens", "max_tokens", "input_tokens", "author", "authority", "key", "session_id", "tokenizer", "pass", "", "cookies_seen"}
	for _, k := range hidden {
		js, err := json.Marshal(map[string]any{k: []any{"v", 1}})
		if err != nil {
			t.Fatal(err)
		}
		if got := string(telemetry(&Registry{}, js)); !strings.HasSuffix(got, `:"[REDACTED]"}`) {
			t.Errorf("%q: got %s", k, got)
		}
	}
	for _, k := range shown {
		js, err := json.Marshal(map[string]any{k: []any{"v", 1}})
		if err != nil {
			t.Fatal(err)
		}
		if got := string(telemetry(&Registry{}, js)); got != string(js) {
			t.Errorf("%q: got %s", k, got)
		}
	}
}

func TestTelemetry(t *testing.T) {
	t.Parallel()
	var known Registry
	known.Add("12345678901", "correct-horse-battery")
	tests := []struct{ name, in, want string }{
		{"order and digits stay", `{"z":1e2,"a":100000000000000000000001,"m":-0.10}`, `{"z":1e2,"a":100000000000000000000001,"m":-0.10}`},
		{"long strings stay", `"` + strings.Repeat("a", 1000) + `"`, `"` + strings.Repeat("a", 1000) + `"`},
		{"inside strings", `{"error":"Get \"https://u:p@h/?token=x\": EOF"}`, `{"error":"Get \"https://[REDACTED]@h/?token=[REDACTED]\": EOF"}`},
		{"json inside strings", `{"body":"{\"password\":\"p\",\"a\":1}"}`, `{"body":"{\"password\":\"[REDACTED]\",\"a\":1}"}`},
		{"known in a key", `{"correct-horse-battery":1}`, `{"[REDACTED]":1}`},
		{"known in a number", `{"n":12345678901}`, `{"n":"[REDACTED]"}`},
		{"known in escapes", `"correct\u002dhorse-battery"`, `"[REDACTED]"`},
		{"untouched escapes stay", `"\u00e9\/"`, `"\u00e9\/"`},
		{"scalars", `[true,false,null,0]`, `[true,false,null,0]`},
		{"bare scalar", ` null `, `null`},
		{"no JSON", `{"password":"p",`, `{"password":"[REDACTED]",`},
		{"empty", ``, ``},
		{"deep", strings.Repeat("[", 9000) + strings.Repeat("]", 9000), strings.Repeat("[", 9000) + strings.Repeat("]", 9000)},
		{"deeper than JSON goes", strings.Repeat("[", 20000), strings.Repeat("[", 20000)},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := string(telemetry(&known, []byte(tc.in))); got != tc.want {
				t.Errorf("got  %.200s\nwant %.200s", got, tc.want)
			}
		})
	}
}

// The places where a planted key has leaked in other systems.
func TestF36Canary(t *testing.T) {
	t.Parallel()
	const canary = "sk-CANARY-7f3a"
	for name, in := range map[string]string{
		"argument":       `{"args":{"text":"use ` + canary + `"}}`,
		"header":         `{"headers":{"x-whatever":"` + canary + `"}}`,
		"credential":     `{"type":"api_key","key":"` + canary + `"}`,
		"query":          `{"url":"https://h/?k=` + canary + `&a=1"}`,
		"provider error": `{"error":{"message":"Incorrect API key provided: ` + canary + `. You can find"}}`,
		"cut body":       `{"error":{"message":"Incorrect API key provided: ` + canary,
		"key of a map":   `{"` + canary + `":true}`,
		"json in json":   `{"body":"{\"k\":\"` + canary + `\"}"}`,
		"escaped":        `{"k":"sk\u002dCANARY-7f3a"}`,
		"encoded":        `{"k":"?a%3Dsk%2DCANARY%2d7f3a"}`,
	} {
		for kind, out := range map[string]string{
			"telemetry": string(telemetry(&Registry{}, []byte(in))),
			"text":      text(&Registry{}, in),
			"excerpt":   string(excerpt(&Registry{}, []byte(in))),
		} {
			if strings.Contains(out, "CANARY") {
				t.Errorf("%s, %s: got %s", name, kind, out)
			}
		}
	}
}
