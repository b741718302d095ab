package redact

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
)

func TestKnownSecretInEveryForm(t *testing.T) {
	t.Parallel()
	for _, secret := range []string{"plainsecretvalue", `qu"ote\back/slash`, "sp ace&amp=é<tag>", "line\nbreak\ttab"} {
		var known Registry
		known.Add(secret)
		js, err := json.Marshal(secret)
		if err != nil {
			t.Fatal(err)
		}
		js2, err := json.Marshal(string(js))
		if err != nil {
			t.Fatal(err)
		}
		texts := map[string]string{
			"raw":            secret,
			"twice in a row": secret + secret,
			"json":           string(js),
			"json in json":   string(js2),
			"slash escaped":  strings.ReplaceAll(string(js), "/", `\/`),
			"ascii json":     strings.Trim(strconv.QuoteToASCII(secret), `"`),
			"go quoted":      fmt.Sprintf("%q", secret),
			"query":          "https://h/?x=" + url.QueryEscape(secret),
			"path":           "https://h/" + url.PathEscape(secret),
			"lower hex":      strings.ToLower(url.PathEscape(strings.ToLower(secret))),
			"basic":          base64.StdEncoding.EncodeToString([]byte("user:" + secret)),
			"base64 0":       base64.StdEncoding.EncodeToString([]byte(secret + "!")),
			"base64 1":       base64.URLEncoding.EncodeToString([]byte("a" + secret)),
			"base64 2":       base64.RawURLEncoding.EncodeToString([]byte("ab" + secret + "cd")),
		}
		known.Add(strings.ToLower(secret))
		for name, s := range texts {
			got := text(&known, "before "+s+" after")
			if !strings.Contains(got, Mark) || strings.Contains(got, secret) {
				t.Errorf("%s of %q: got %q", name, secret, got)
			}
			if !strings.HasPrefix(got, "before ") || !strings.HasSuffix(got, " after") {
				t.Errorf("%s of %q: took too much: %q", name, secret, got)
			}
		}
	}
}

func TestRegistryIgnores(t *testing.T) {
	t.Parallel()
	var r Registry
	r.Add()
	r.Add("", "short", "1234567", "  1234567  ", "ééééééé")
	if got := text(&r, "short 1234567 ééééééé"); got != "short 1234567 ééééééé" {
		t.Errorf("got %q", got)
	}
	r.Add(" 12345678\n")
	if got := text(&r, "a12345678b"); got != "a[REDACTED]b" {
		t.Errorf("got %q", got)
	}
	before := len(*r.needles.Load())
	r.Add("12345678")
	if after := len(*r.needles.Load()); after != before {
		t.Errorf("adding again: %d forms, then %d", before, after)
	}
}

// Two secrets that overlap share one mark; nothing of the second is left.
func TestOverlappingSecrets(t *testing.T) {
	t.Parallel()
	var r Registry
	r.Add("12345678abcd", "abcdefghijkl", "aaaaaaaa")
	if got := text(&r, "x12345678abcdefghijklx"); got != "x[REDACTED]x" {
		t.Errorf("got %q", got)
	}
	if got := text(&r, "baaaaaaaaaaab"); got != "b[REDACTED]b" {
		t.Errorf("got %q", got)
	}
}

func TestRegistryIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	var r Registry
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			secret := fmt.Sprintf("secret-number-%d", i)
			r.Add(secret)
			if got := text(&r, secret); got != Mark {
				t.Errorf("got %q", got)
			}
		}()
	}
	wg.Wait()
}

// The package-level functions use the one registry of the process.
func TestSecretsIsGlobal(t *testing.T) {
	Secrets.Add("a-value-of-this-test-alone")
	if got := Text("a-value-of-this-test-alone"); got != Mark {
		t.Errorf("Text: got %q", got)
	}
	if got := string(Excerpt([]byte(`"a-value-of-this-test-alone"`))); got != `"<redacted>"` {
		t.Errorf("Excerpt: got %s", got)
	}
	if got := string(Telemetry([]byte(`"a-value-of-this-test-alone"`))); got != `"[REDACTED]"` {
		t.Errorf("Telemetry: got %s", got)
	}
}
