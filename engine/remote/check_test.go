package remote

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/redact"
)

// strict is the default: https, public addresses.
func strict() Config {
	return Config{Clock: clock.NewFake(start), Getenv: environment, Keys: []string{"HOOK_*"}}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	many := map[string]string{}
	for i := range 33 {
		many[fmt.Sprintf("x-%d", i)] = "v"
	}
	header := func(name, value string) string {
		b, _ := json.Marshal(map[string]any{"url": "https://x.example", "headers": map[string]string{name: value}})
		return string(b)
	}
	auth := func(fields string) string { return `{"url":"https://x.example","auth":{` + fields + `}}` }
	all, _ := json.Marshal(map[string]any{"url": "https://x.example", "headers": many})
	for _, tt := range []struct{ name, invocation, code, says string }{
		{"the least", `{"url":"https://x.example"}`, "", ""},
		{"everything", `{"url":"https://x.example:8443/a?b=c","method":"PUT","timeout_ms":900000,"headers":{"X-Svc":"a\tb"},"auth":{"type":"api_key","header":"X-Key","value_key":"HOOK_TOKEN"},"more":1}`, "", ""},
		{"a public address", `{"url":"https://[2606:4700::1111]/"}`, "", ""},
		{"nothing", `{}`, "deserialization_error", "missing field `url`"},
		{"no object", `[]`, "deserialization_error", "expected an object"},
		{"url of another type", `{"url":1}`, "deserialization_error", "expected a string"},
		{"too large", `{"url":"https://x.example","headers":{"a":"` + strings.Repeat("x", maxInvocation) + `"}}`, "invalid_payload", "65536"},
		{"no url", `{"url":"notaurl"}`, "url_validation_failed", "an https URL"},
		{"a bad url", `{"url":"https://x\u0000y/"}`, "url_validation_failed", "an https URL"},
		{"no host", `{"url":"https:///x"}`, "url_validation_failed", "an https URL"},
		{"opaque", `{"url":"https:x.example"}`, "url_validation_failed", "an https URL"},
		{"plain http", `{"url":"http://x.example"}`, "url_validation_failed", "an https URL"},
		{"another scheme", `{"url":"file:///etc/passwd"}`, "url_validation_failed", "an https URL"},
		{"long", `{"url":"https://x.example/` + strings.Repeat("x", 2048) + `"}`, "url_validation_failed", "2048"},
		{"a user", `{"url":"https://me:pass@x.example"}`, "url_validation_failed", "use auth"},
		{"port 0", `{"url":"https://x.example:0"}`, "url_validation_failed", "port"},
		{"a large port", `{"url":"https://x.example:65536"}`, "url_validation_failed", "port"},
		{"loopback", `{"url":"https://127.0.0.1/"}`, "url_validation_failed", "may not reach"},
		{"loopback by name", `{"url":"https://LocalHost./"}`, "url_validation_failed", "may not reach"},
		{"below localhost", `{"url":"https://a.localhost/"}`, "url_validation_failed", "may not reach"},
		{"method", `{"url":"https://x.example","method":"BREW"}`, "invalid_payload", "GET, POST, PUT, PATCH or DELETE"},
		{"no time", `{"url":"https://x.example","timeout_ms":0}`, "invalid_payload", "invocation.timeout_ms"},
		{"much time", `{"url":"https://x.example","timeout_ms":900001}`, "invalid_payload", "1 to 900000"},
		{"many headers", string(all), "invalid_payload", "at most 32"},
		{"a header without a name", header("", "v"), "invalid_payload", "invocation.headers"},
		{"a header of two", header("a b", "v"), "invalid_payload", "invocation.headers"},
		{"a long header", header(strings.Repeat("a", 257), "v"), "invalid_payload", "256"},
		{"a value of two lines", header("a", "b\r\nc: d"), "invalid_payload", "printable"},
		{"a long value", header("a", strings.Repeat("v", 4097)), "invalid_payload", "4096"},
		{"the host", header("hOST", "other"), "invalid_payload", "Host"},
		{"the length", header("content-length", "1"), "invalid_payload", "Content-Length"},
		{"for a proxy", header("proxy-authorization", "x"), "invalid_payload", "Proxy-Authorization"},
		{"of the bus", header("x-iii-signature", "x"), "invalid_payload", "X-Iii-Signature"},
		{"auth of no type", auth(``), "invalid_payload", "hmac, bearer or api_key"},
		{"auth of a type", auth(`"type":"basic"`), "invalid_payload", "hmac, bearer or api_key"},
		{"bearer without a key", auth(`"type":"bearer","secret_key":"HOOK_TOKEN"`), "invalid_payload", "token_key"},
		{"hmac without a key", auth(`"type":"hmac"`), "invalid_payload", "secret_key"},
		{"a key that is none", auth(`"type":"api_key","header":"x","value_key":"A=B"`), "invalid_payload", "value_key"},
		{"api_key without a header", auth(`"type":"api_key","value_key":"HOOK_TOKEN"`), "invalid_payload", "invocation.auth.header"},
		{"api_key over the host", auth(`"type":"api_key","header":"host","value_key":"HOOK_TOKEN"`), "invalid_payload", "Host"},
		{"a variable that is not set", auth(`"type":"bearer","token_key":"HOOK_NOPE"`), "secret_not_found", "HOOK_NOPE"},
		{"a variable that is no header", auth(`"type":"bearer","token_key":"HOOK_BAD"`), "secret_not_found", "HOOK_BAD"},
		{"a variable that may not be named", auth(`"type":"bearer","token_key":"AWS_SECRET_ACCESS_KEY"`), "secret_not_found", "AWS_SECRET_ACCESS_KEY"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := newCaller(t, strict())
			err := c.Check(json.RawMessage(tt.invocation))
			if tt.code == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil || bus.Code(err) != tt.code || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %q %v, want %s with %q", bus.Code(err), err, tt.code, tt.says)
			}
			_, cerr := c.Call(t.Context(), json.RawMessage(tt.invocation), call("{}"))
			if bus.Code(cerr) != tt.code {
				t.Errorf("called: got %v, want %s", cerr, tt.code)
			}
		})
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	for key, ok := range map[string]bool{"HOOK_*": true, "TOKEN": true, "_x1": true, "*": false, "": false, "A*B": false, "1A": false, "A-B": false, "A**": false} {
		_, err := New(Config{Clock: clock.System(), Getenv: environment, Keys: []string{key}})
		if (err == nil) != ok {
			t.Errorf("%q: %v", key, err)
		}
	}
	if _, err := New(Config{}); err == nil {
		t.Error("a caller without a clock")
	}
	none := strict()
	none.Keys = nil
	if err := newCaller(t, none).Check(json.RawMessage(`{"url":"https://x.example","auth":{"type":"bearer","token_key":"HOOK_TOKEN"}}`)); bus.Code(err) != "secret_not_found" {
		t.Errorf("an empty allow list: %v", err)
	}
	exact := strict()
	exact.Keys = []string{"HOOK_TOKEN"}
	c := newCaller(t, exact)
	if err := c.Check(json.RawMessage(`{"url":"https://x.example","auth":{"type":"bearer","token_key":"HOOK_TOKEN"}}`)); err != nil {
		t.Error(err)
	}
	if got := redact.Text("it was hook-secret-1"); strings.Contains(got, "hook-secret-1") {
		t.Errorf("%q: a secret that was used is not known as one", got)
	}
	if err := c.Check(json.RawMessage(`{"url":"https://x.example","auth":{"type":"bearer","token_key":"HOOK_SPACE"}}`)); bus.Code(err) != "secret_not_found" {
		t.Errorf("a name that only begins so: %v", err)
	}
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	closed := reach{}
	private := reach{prefixes("10.1.0.0/16", "fd00::/8", "169.254.0.0/16", "::/0")}
	for addr, want := range map[string]struct{ closed, private bool }{
		"93.184.216.34": {true, true}, "2606:4700::1": {true, true}, "::ffff:93.184.216.34": {true, true}, "64:ff9b::5db8:d822": {true, true},
		"127.0.0.1": {}, "::1": {false, true}, "::ffff:127.0.0.1": {}, "0.0.0.0": {}, "::": {false, true}, "10.1.2.3": {false, true}, "10.2.0.1": {},
		"172.16.0.1": {}, "172.31.255.255": {}, "172.32.0.1": {true, true}, "192.168.1.1": {}, "100.64.0.1": {}, "100.128.0.1": {true, true},
		"169.254.1.1": {false, true}, "169.254.169.254": {}, "169.254.170.2": {}, "169.254.170.23": {}, "100.100.100.200": {},
		"fd00:ec2::254": {}, "fd00:ec2::23": {}, "fd00::1": {false, true}, "::ffff:169.254.169.254": {}, "64:ff9b::a9fe:a9fe": {}, "64:ff9b::7f00:1": {},
		"fe80::1%eth0": {false, true}, "fec0::1": {false, true}, "2002:7f00:1::": {false, true}, "2001::1": {false, true}, "2001:db8::1": {false, true}, "::127.0.0.1": {false, true},
		"224.0.0.1": {}, "255.255.255.255": {}, "240.0.0.1": {}, "198.18.0.1": {}, "203.0.113.9": {}, "ff02::1": {false, true}, "64:ff9b:1::1": {false, true},
	} {
		a := netip.MustParseAddr(addr)
		if got := closed.check(a) == nil; got != want.closed {
			t.Errorf("%s by default: %v, want %v", addr, got, want.closed)
		}
		if got := private.check(a) == nil; got != want.private {
			t.Errorf("%s with private networks: %v, want %v", addr, got, want.private)
		}
	}
}

// TestANameThatLeadsInside: a name passes at registration, whatever it leads to; what is dialled does not.
func TestANameThatLeadsInside(t *testing.T) {
	t.Parallel()
	s := newServer(t, respond(200, ""))
	cfg := opened()
	cfg.Networks = nil
	c := newCaller(t, cfg)
	c.transport = newTransport(c.reach, names(t, netip.MustParseAddr("127.0.0.1")))
	inside := object(t, map[string]any{"url": strings.Replace(s.URL, "127.0.0.1", "rebound.example", 1)})
	if err := c.Check(inside); err != nil {
		t.Fatal(err)
	}
	_, err := c.Call(t.Context(), inside, call("{}"))
	if bus.Code(err) != "url_validation_failed" || s.hits() != 0 || strings.Contains(err.Error(), "127.") {
		t.Errorf("got %v, %d requests", err, s.hits())
	}
}

// TestNoProxy: the names of requests lead to servers of the test alone.
func TestNoProxy(t *testing.T) {
	proxy := newServer(t, respond(200, `"proxy"`))
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"} {
		t.Setenv(name, proxy.URL)
	}
	if http.DefaultTransport.(*http.Transport).Proxy == nil {
		t.Fatal("the default takes a proxy no longer")
	}
	s := newServer(t, respond(200, `"direct"`))
	c := newCaller(t, opened())
	c.transport = newTransport(c.reach, names(t, netip.MustParseAddr("127.0.0.1")))
	got, err := c.Call(t.Context(), object(t, map[string]any{"url": strings.Replace(s.URL, "127.0.0.1", "some.example", 1)}), call("{}"))
	if err != nil || string(got) != `"direct"` || proxy.hits() != 0 {
		t.Errorf("got %s, %v; the proxy got %d requests", got, err, proxy.hits())
	}
}

func FuzzCheck(f *testing.F) {
	for _, seed := range []string{
		`{"url":"https://hooks.example.com/x","method":"POST","timeout_ms":5000,"headers":{"X-Svc":"a"},"auth":{"type":"bearer","token_key":"HOOK_TOKEN"}}`,
		`{"url":"https://[::1]:1"}`, `{"url":"http://0x7f.1"}`, `{"headers":null,"url":"https://x@y"}`, `null`,
	} {
		f.Add([]byte(seed))
	}
	c, err := New(strict())
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		inv, err := c.parse(raw)
		if err != nil {
			if code := bus.Code(err); code != "invalid_payload" && code != "deserialization_error" && code != "url_validation_failed" {
				t.Errorf("%s: code %s", raw, code)
			}
			return
		}
		if inv.target.Scheme != "https" || inv.target.User != nil || inv.target.Hostname() == "" || inv.timeout() <= 0 || inv.timeout() > MaxTimeout {
			t.Errorf("%s passed as %+v", raw, inv)
		}
		if _, err := c.request(t.Context(), inv, "", call("{}")); err != nil {
			t.Errorf("%s cannot be requested: %v", raw, err)
		}
	})
}
