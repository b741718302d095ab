package redact

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

const canary = "sk-CANARY-7f3a"

func seed(f *testing.F) {
	for _, s := range []string{
		``, `{}`, `{"a":"`, `{"password":{"a":[1,"]"]}}`, `token="`, `https://u:`, `\u00`, `%`, `Bearer `,
		"-----BEGIN PRIVATE KEY-----\n", `{"a":"\ud800`, `[[[[`, `a=`, `"token":`, `{"n":1e400,"s":"é\n"}`, "\xff", `Basic dXNl`,
	} {
		f.Add(s, `"}`)
		f.Add(`{"x":"`, s)
	}
}

// A known secret never survives, wherever it is planted.
func FuzzKnownSecret(f *testing.F) {
	seed(f)
	var known Registry
	known.Add(canary)
	f.Fuzz(func(t *testing.T, before, after string) {
		in := before + canary + after
		for kind, out := range map[string]string{
			"text":      text(&known, in),
			"telemetry": string(telemetry(&known, []byte(in))),
			"excerpt":   string(excerpt(&known, []byte(in))),
		} {
			if strings.Contains(out, canary) {
				t.Errorf("%s of %q: got %q", kind, in, out)
			}
			if !utf8.ValidString(out) {
				t.Errorf("%s of %q: not UTF-8: %q", kind, in, out)
			}
		}
	})
}

// A token of a known shape does not survive where a word may start.
func FuzzShape(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, before, after string) {
		in := before + " " + canary + " " + after
		if out := text(&Registry{}, in); strings.Contains(out, canary) {
			t.Errorf("%q: got %q", in, out)
		}
		if out := excerpt(&Registry{}, []byte(in)); strings.Contains(string(out), canary) {
			t.Errorf("excerpt of %q: got %q", in, out)
		}
	})
}

// JSON stays JSON; an excerpt is always JSON, shallow and short.
func FuzzJSON(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, before, after string) {
		in := []byte(before + after)
		if out := telemetry(&Registry{}, in); json.Valid(in) && !json.Valid(out) {
			t.Errorf("%q: got %q", in, out)
		}
		var tree any
		if err := json.Unmarshal(excerpt(&Registry{}, in), &tree); err != nil && !strings.Contains(err.Error(), "cannot unmarshal number") {
			t.Fatalf("%q: %v", in, err)
		}
		short(t, tree, 0)
	})
}

func short(t *testing.T, tree any, depth int) {
	t.Helper()
	if depth > excerptDepth {
		t.Fatal("too deep")
	}
	switch v := tree.(type) {
	case string:
		if n := utf8.RuneCountInString(v); n > excerptLen+1 {
			t.Fatalf("a string of %d characters", n)
		}
	case []any:
		for _, e := range v {
			short(t, e, depth+1)
		}
	case map[string]any:
		for k, e := range v {
			if excerptKey(k) && e != markExcerpt {
				t.Fatalf("%q shows %v", k, e)
			}
			short(t, e, depth+1)
		}
	}
}

func BenchmarkText(b *testing.B) {
	var known Registry
	for _, s := range []string{"first-secret-value", "second-secret-value", "third-secret-value"} {
		known.Add(s)
	}
	s := strings.Repeat("the turn called shell::exec with 3 arguments: a=1 and b=2. ", 17)
	b.SetBytes(int64(len(s)))
	for b.Loop() {
		text(&known, s)
	}
}

func BenchmarkTelemetry(b *testing.B) {
	in := []byte(`{"session_id":"s1","args":{"command":"ls -la","cwd":"/repo","n":[1,2,3]},"api_key":"x"}`)
	b.SetBytes(int64(len(in)))
	for b.Loop() {
		telemetry(&Registry{}, in)
	}
}
