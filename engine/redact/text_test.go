package redact

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	t.Parallel()
	const (
		b64  = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC"
		jwtS = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dBjftJeZ4CVP-mB92K27uhbU"
	)
	tests := []struct{ name, in, want string }{
		{"prose", "the turn failed after 3 tries", "the turn failed after 3 tries"},
		{"empty", "", ""},

		// Tokens of known shapes.
		{"openai", "key sk-CANARY-7f3a was refused", "key [REDACTED] was refused"},
		{"anthropic", "sk-ant-api03-abcDEF_123-xyz", "[REDACTED]"},
		{"end of a sentence", "it was sk-CANARY-7f3a.", "it was [REDACTED]."},
		{"inside a word", "task-20240101-report and disk-12345678", "task-20240101-report and disk-12345678"},
		{"too short", "sk-abc", "sk-abc"},
		{"aws", "id AKIAIOSFODNN7EXAMPLE", "id [REDACTED]"},
		{"aws session", "ASIAIOSFODNN7EXAMPLE", "[REDACTED]"},
		{"slack", "xoxb-1234-5678-abcdef", "[REDACTED]"},
		{"slack hook", "https://hooks.slack.com/services/T000/B000/XXXX", "https://hooks.slack.com/services/[REDACTED]"},
		{"ours", "hrn_0123456789.abc", "[REDACTED]"},
		{"ours at the end of a sentence", "it is hrn_0123456789...", "it is [REDACTED]..."},
		{"our ticket", "harness.ticket.abcdefgh123", "harness.ticket.[REDACTED]"},
		{"github", "ghp_0123456789abcdef0123", "[REDACTED]"},
		{"google", "AIzaSyA0123456789abcdef0123456789abcde", "[REDACTED]"},
		{"jwt", "got " + jwtS + " here", "got [REDACTED] here"},
		{"jwe-like", jwtS + ".a.b", "[REDACTED].a.b"},
		{"two parts of a jwt", "eyJhbGci.eyJzdWIi", "eyJhbGci.eyJzdWIi"},
		{"no jwt", "eyJhbGciOiJIUzI1NiJ9.x", "eyJhbGciOiJIUzI1NiJ9.x"},
		{"two in a row", "sk-CANARY-7f3a sk-CANARY-7f3b", "[REDACTED] [REDACTED]"},

		// Authorization.
		{"bearer", "Bearer abcdefgh1234", "Bearer [REDACTED]"},
		{"bearer, any case and space", "bEaReR  \tabcdefgh1234", "bEaReR  \t[REDACTED]"},
		{"bearer, short", "bearer of news", "bearer of news"},
		{"basic", "Basic dXNlcjpwYXNz rest", "Basic [REDACTED] rest"},
		{"basic prose", "basic understanding is enough", "basic understanding is enough"},
		{"header", "Authorization: Digest a, b\nHost: x", "Authorization: [REDACTED]\nHost: x"},
		{"header dump", "map[Authorization:[Bearer x] Accept:[a]]", "map[Authorization:[REDACTED] Accept:[a]]"},
		{"header as assignment", "authorization=Bearer abc, next", "authorization=[REDACTED]"},
		{"header assigned without a scheme", "authorization=abc def", "authorization=[REDACTED] def"},
		{"cookie", "Set-Cookie: sid=1; Path=/", "Set-Cookie: [REDACTED]"},

		// URLs.
		{"userinfo", "dial https://user:p@ss@host/x: refused", "dial https://[REDACTED]@host/x: refused"},
		{"user alone", "ssh://git@host/x", "ssh://[REDACTED]@host/x"},
		{"slash in the password", "postgres://u:p/w@host/db", "postgres://[REDACTED]@host/db"},
		{"at sign in the path", "http://host:8080/pkg@v1 http://host/a@b http://[::1]:80/a@b", "http://host:8080/pkg@v1 http://host/a@b http://[::1]:80/a@b"},
		{"query", "GET https://h/x?a=1&token=abc&b=2", "GET https://h/x?a=1&token=[REDACTED]&b=2"},
		{"first parameter", `Get "https://h/v1?key=abc": EOF`, `Get "https://h/v1?key=[REDACTED]": EOF`},
		{"aws query", "?X-Amz-Credential=AK/x&X-Amz-Signature=ff00&X-Amz-Date=1", "?X-Amz-Credential=[REDACTED]&X-Amz-Signature=[REDACTED]&X-Amz-Date=1"},
		{"fragment", "https://h/#access_token=abc", "https://h/#access_token=[REDACTED]"},
		{"encoded URL", "next=https%3A%2F%2Fu%3Ap%40h%2F%3Ftoken%3Dabc%26x%3D1", "next=https%3A%2F%2F[REDACTED]%40h%2F%3Ftoken%3D[REDACTED]%26x%3D1"},
		{"key outside a URL", "state key=s1/c1", "state key=s1/c1"},

		// Assignments.
		{"env", "API_KEY=abc MODE=x", "API_KEY=[REDACTED] MODE=x"},
		{"quoted", `api_key="a b" next`, `api_key="[REDACTED]" next`},
		{"open quote", `api_key="a b`, `api_key="[REDACTED]`},
		{"json", `bad: {"password":"hunter", "a":"b"}`, `bad: {"password":"[REDACTED]", "a":"b"}`},
		{"json number", `{"token": 12345, "a"`, `{"token": [REDACTED], "a"`},
		{"json in json", `{"b":"{\"password\":\"a\\\"b\",\"c\":1}`, `{"b":"{\"password\":\"[REDACTED]\",\"c\":1}`},
		{"cut json", `{"client_secret":"abc`, `{"client_secret":"[REDACTED]`},
		{"json tree", `{"credentials":{"a":{"b":"x"},"c":"y"},"d":1`, `{"credentials":[REDACTED],"d":1`},
		{"cut json tree", `{"credentials":{"a":{"b":"x"`, `{"credentials":[REDACTED]`},
		{"go struct", "{Token:abc Name:x}", "{Token:[REDACTED] Name:x}"},
		{"go assignment", `token := "abc"`, `token := "[REDACTED]"`},
		{"hash rocket", `"password" => "abc"`, `"password" => "[REDACTED]"`},
		{"index", `env["API_KEY"] = "abc"`, `env["API_KEY"] = "[REDACTED]"`},
		{"colon and a secret", "password: hunter22", "password: [REDACTED]"},
		{"colon, mixed case", "password: abcDef", "password: [REDACTED]"},
		{"colon, long", "password: abcdefghijklmnopqrst", "password: [REDACTED]"},
		{"colon and prose", "invalid api_key: must be a string", "invalid api_key: must be a string"},
		{"quoted colon and prose", `unknown key "token": allowed are a, b`, `unknown key "token": allowed are a, b`},
		{"quoted colon and a secret", `"token": abc123def`, `"token": [REDACTED]`},
		{"backtick", "token=`date`", "token=`date`"},
		{"function ids", "auth::get_token: not found; auth::set_token::x", "auth::get_token: not found; auth::set_token::x"},
		{"missing field", "missing required field: token", "missing required field: token"},
		{"no value", "token=", "token="},
		{"already marked", "token=[REDACTED] password: <redacted>", "token=[REDACTED] password: <redacted>"},
		{"counters", "max_tokens=4096 input_tokens: 12", "max_tokens=4096 input_tokens: 12"},

		// Private keys.
		{"pem", "-----BEGIN RSA PRIVATE KEY-----\n" + b64 + "\n" + b64 + "==\n-----END RSA PRIVATE KEY-----\nrest",
			"-----BEGIN RSA PRIVATE KEY-----[REDACTED]\n-----END RSA PRIVATE KEY-----\nrest"},
		{"pem with headers", "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,AB\n\n" + b64 + "\n-----END EC PRIVATE KEY-----",
			"-----BEGIN EC PRIVATE KEY-----[REDACTED]\n-----END EC PRIVATE KEY-----"},
		{"pem with odd header", "-----BEGIN PRIVATE KEY-----\nVersion: x y\n" + b64, "-----BEGIN PRIVATE KEY-----[REDACTED]"},
		{"pem, escaped and cut", `"-----BEGIN PRIVATE KEY-----\n` + b64 + `\n` + b64, `"-----BEGIN PRIVATE KEY-----[REDACTED]`},
		{"public key", "-----BEGIN PUBLIC KEY-----\n" + b64, "-----BEGIN PUBLIC KEY-----\n" + b64},
		{"empty pem", "-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----"},
		{"far apart", "-----BEGIN CERTIFICATE OF SOMETHING REALLY LONG----- PRIVATE KEY-----\n" + b64,
			"-----BEGIN CERTIFICATE OF SOMETHING REALLY LONG----- PRIVATE KEY-----\n" + b64},

		// Encodings.
		{"behind an escape", `x\nsk-CANARY-7f3a`, `x\n[REDACTED]`},
		{"behind a unicode escape", `\u003dsk-CANARY-7f3a`, `\u003d[REDACTED]`},
		{"with an escape inside", `sk\u002dCANARY\x2d7f3a`, `[REDACTED]`},
		{"odd escapes", `\q \u12 \ud83d\ude00 \ud83dx \ud83d\u0041 \U0001f600 \U00110000 \x4 \`, `\q \u12 \ud83d\ude00 \ud83dx \ud83d\u0041 \U0001f600 \U00110000 \x4 \`},
		{"odd percents", "100% of %zz %4", "100% of %zz %4"},
		{"broken UTF-8", "a\xffb sk-CANARY-7f3a", "a\ufffdb [REDACTED]"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := text(&Registry{}, tc.in)
			if got != tc.want {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
			if again := text(&Registry{}, got); again != got {
				t.Errorf("a second time: %q", again)
			}
		})
	}
}

type loud struct{}

func (loud) String() string { return "dial https://u:p@h failed" }

func TestF36PanicValues(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		value any
		want  string
	}{
		{"text", "sk-CANARY-7f3a", "[REDACTED]"},
		{"error", fmt.Errorf("call: %w", errors.New("Bearer sk-CANARY-7f3a")), "call: Bearer [REDACTED]"},
		{"stringer", loud{}, "dial https://[REDACTED]@h failed"},
		{"number", 7, "7"},
		{"nil", nil, "<nil>"},
	} {
		if got := Panic(tc.value); got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
		}
	}
}

func TestF19Name(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, in, want string }{
		{"plain", "shell::fs::read", "shell::fs::read"},
		{"spaces", "no such tool", "no such tool"},
		{"nul", "a\x00b", "a\ufffdb"},
		{"newline", "a\nlevel=error", "a\ufffdlevel=error"},
		{"line separator", "a\u2028b", "a\ufffdb"},
		{"zero-width joiner", "shell\u200d::exec", "shell\ufffd::exec"},
		{"bidi", "a\u202eb", "a\ufffdb"},
		{"escape sequence", "\x1b[31mred", "\ufffd[31mred"},
		{"secret", "run sk-CANARY-7f3a", "run [REDACTED]"},
		{"300 characters", strings.Repeat("é", 300), strings.Repeat("é", 128) + "…"},
		{"128 characters", strings.Repeat("é", 128), strings.Repeat("é", 128)},
		{"broken UTF-8", "a\xff", "a\ufffd"},
	} {
		got := Name(tc.in)
		if got != tc.want || !utf8.ValidString(got) {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
		}
	}
}

// Text runs on what others wrote: the time it takes must not grow with the
// square of the length. The limit is many times what a linear scan takes under
// the race detector, and a fraction of what a quadratic one does.
func TestHostileTextsStayCheap(t *testing.T) {
	t.Parallel()
	for _, unit := range []string{
		"eyJ-", "eyJ.", "e-", "://", "http://a", "-----BEGIN ", "-----BEGIN PRIVATE KEY-----a ", "-----BEGIN PRIVATE KEY-----a-", "bearer ", "basic ab",
		"token=", "token: ", "token:", "=", ":", "]", " ", `\`, `"`, `token="\`, "token=[", "{", `"token":`, "%41", `\u0041`, "sk-", "hf_", "a", "xoxb-a",
	} {
		s := strings.Repeat(unit, 1<<15/len(unit))
		start := time.Now()
		text(&Registry{}, s)
		text(&Registry{}, s+"=")
		excerpt(&Registry{}, []byte(s))
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("%q: %v for %d bytes", unit, took, len(s))
		}
	}
}
