package remote

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
)

func TestAnswers(t *testing.T) {
	t.Parallel()
	c := newCaller(t, opened())
	for _, tt := range []struct {
		name    string
		handler http.HandlerFunc
		want    string
		err     *bus.Error
	}{
		{"JSON", respond(200, ` {"b":1e3,"a":12345678901234567890} `), `{"b":1e3,"a":12345678901234567890}`, nil},
		{"empty", respond(200, ""), "", nil},
		{"space", respond(200, " \n"), "", nil},
		{"null", respond(200, "null"), "", nil},
		{"created", respond(201, "1"), "1", nil},
		{"no content", respond(204, ""), "", nil},
		{"text", respond(200, "hello"), "", &bus.Error{Code: "invalid_response", Message: "expected value at line 1 column 1"}},
		{"text on the second line", respond(200, "{\n  x"), "", &bus.Error{Code: "invalid_response", Message: "expected value at line 2 column 3"}},
		{"broken JSON", respond(200, `{"a":`), "", &bus.Error{Code: "invalid_response", Message: "expected value at line 1 column 5"}},
		{"deep JSON", respond(200, strings.Repeat("[", 1500)+strings.Repeat("]", 1500)), "", &bus.Error{Code: "invalid_response"}},
		{"too deep to read", respond(200, strings.Repeat("[", 20000)+strings.Repeat("]", 20000)), "", &bus.Error{Code: "invalid_response"}},
		{"a redirect with a page", redirect("/elsewhere"), "", &bus.Error{Code: "invalid_response", Message: "expected value at line 1 column 1"}},
		{"a redirect with JSON", respond(307, `{"moved":true}`), `{"moved":true}`, nil},
		{"not modified", respond(304, ""), "", nil},
		{"another protocol", switching, "", nil},
		{"404", respond(404, "nope"), "", &bus.Error{Code: "http_error", Message: "HTTP 404 Not Found"}},
		{"a status without a name", respond(599, ""), "", &bus.Error{Code: "http_error", Message: "HTTP 599"}},
		{"an error of its own", respond(500, `{"error":{"code":"x","message":"y"}}`), "", &bus.Error{Code: "x", Message: "y"}},
		{"an error without code", respond(500, `{"error":{"message":"y"}}`), "", &bus.Error{Code: "http_error", Message: "HTTP 500 Internal Server Error"}},
		{"an error that is a text", respond(400, `{"error":"y"}`), "", &bus.Error{Code: "http_error", Message: "HTTP 400 Bad Request"}},
		{"a long code", respond(500, `{"error":{"code":"`+strings.Repeat("é", 100)+`"}}`), "", &bus.Error{Code: strings.Repeat("é", 64)}},
		{"too large", respond(200, `"`+strings.Repeat("x", MaxBody)+`"`), "", &bus.Error{Code: "invalid_response", Message: "the response is larger than 20971520 bytes"}},
		{"the largest", respond(200, `"`+strings.Repeat("x", MaxBody-2)+`"`), `"` + strings.Repeat("x", MaxBody-2) + `"`, nil},
		{"cut off", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "10")
			_, _ = w.Write([]byte("{"))
		}, "", &bus.Error{Code: "http_response_failed"}},
		{"cut off before the answer", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "", &bus.Error{Code: "http_request_failed"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, tt.handler)
			got, err := c.Call(t.Context(), object(t, map[string]any{"url": s.URL + "/secret-path?k=secret-query"}), call(`{"a":1}`))
			if string(got) != tt.want {
				t.Errorf("got %.100s, want %.100s", got, tt.want)
			}
			if (err == nil) != (tt.err == nil) {
				t.Fatalf("error %v, want %v", err, tt.err)
			}
			if s.hits() != 1 {
				t.Errorf("%d requests, want 1", s.hits())
			}
			if err == nil {
				return
			}
			e := bus.AsError(err)
			if e.Code != tt.err.Code || tt.err.Message != "" && e.Message != tt.err.Message {
				t.Errorf("got %v, want %v", e, tt.err)
			}
			if strings.Contains(e.Message, "secret-") {
				t.Errorf("the error %q tells the path", e.Message)
			}
		})
	}
}

func redirect(to string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", to)
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(302)
		_, _ = w.Write([]byte("<a>"))
	}
}

func switching(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Upgrade", "other")
	w.Header().Set("Connection", "Upgrade")
	w.WriteHeader(http.StatusSwitchingProtocols)
}

func TestTheRequest(t *testing.T) {
	t.Parallel()
	s := newServer(t, respond(200, ""))
	c := newCaller(t, opened())
	in := call(`{"a":1}`)
	in.FunctionID, in.Traceparent = "x::\nhttp", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for i, tt := range []struct {
		invocation map[string]any
		method     string
		header     map[string]string
	}{
		{map[string]any{}, "POST", map[string]string{"Authorization": "", "Content-Type": "application/json", "User-Agent": ""}},
		{map[string]any{"method": "get", "headers": map[string]string{"X-Svc": "a", "content-type": "application/cloudevents+json"}}, "GET",
			map[string]string{"X-Svc": "a", "Content-Type": "application/cloudevents+json"}},
		{map[string]any{"method": "DELETE", "auth": map[string]any{"type": "bearer", "token_key": "HOOK_TOKEN"}, "headers": map[string]string{"Authorization": "Basic x"}}, "DELETE",
			map[string]string{"Authorization": "Bearer hook-secret-1"}},
		{map[string]any{"method": "PUT", "auth": map[string]any{"type": "api_key", "header": "X-Key", "value_key": "HOOK_SPACE"}}, "PUT",
			map[string]string{"X-Key": "padded-secret"}},
		{map[string]any{"method": "PATCH", "auth": map[string]any{"type": "hmac", "secret_key": "HOOK_TOKEN"}}, "PATCH",
			// printf '%s' "1796076748:$(printf '{"a":1}' | base64)" | openssl dgst -sha256 -hmac hook-secret-1
			map[string]string{"X-Iii-Signature": "sha256=13b7723c951bf94b5b56415e0fdc1ea000fc493ec7faa3a1a0d66adbf3620173"}},
	} {
		tt.invocation["url"] = s.URL + "/p?q=1#fragment"
		if _, err := c.Call(t.Context(), object(t, tt.invocation), in); err != nil {
			t.Fatal(err)
		}
		r := s.got[i]
		if r.Method != tt.method || r.RequestURI != "/p?q=1" || s.bodies[i] != `{"a":1}` {
			t.Errorf("got %s %s %s", r.Method, r.RequestURI, s.bodies[i])
		}
		tt.header["X-Iii-Function-Path"] = "x::?http"
		tt.header["X-Iii-Invocation-Id"] = "0d1f0000-0000-4000-8000-00000000000a"
		tt.header["X-Iii-Timestamp"] = "1796076748"
		tt.header["X-Iii-Trace-Id"] = "0af7651916cd43dd8448eb211c80319c"
		got := map[string]string{}
		for name := range tt.header {
			got[name] = r.Header.Get(name)
		}
		if diff := cmp.Diff(tt.header, got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tt.invocation, diff)
		}
	}
}

func TestNoAnswerInTime(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		timeout any
		after   time.Duration
	}{"by default": {nil, DefaultTimeout}, "of its own": {1000, time.Second}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := make(chan struct{})
			s := newServer(t, func(_ http.ResponseWriter, r *http.Request) {
				close(asked)
				<-r.Context().Done()
			})
			cfg := opened()
			fake := cfg.Clock.(*clock.Fake)
			c := newCaller(t, cfg)
			done := make(chan error)
			go func() {
				_, err := c.Call(t.Context(), object(t, map[string]any{"url": s.URL + "/slow", "timeout_ms": tt.timeout}), call("{}"))
				done <- err
			}()
			<-asked
			fake.Advance(tt.after - time.Millisecond)
			select {
			case err := <-done:
				t.Fatalf("ended too early: %v", err)
			default:
			}
			fake.Advance(time.Millisecond)
			want := &bus.Error{Code: "http_request_failed", Message: "error sending request for url (" + s.URL + "): operation timed out"}
			if diff := cmp.Diff(want, <-done); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheAnswerIsNotComplete(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{})
	s := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("{"))
		w.(http.Flusher).Flush()
		close(begun)
		<-r.Context().Done()
	})
	cfg := opened()
	c := newCaller(t, cfg)
	done := make(chan error)
	go func() {
		_, err := c.Call(t.Context(), object(t, map[string]any{"url": s.URL}), call("{}"))
		done <- err
	}()
	<-begun
	cfg.Clock.(*clock.Fake).Advance(DefaultTimeout)
	if err := <-done; !strings.HasPrefix(bus.Code(err), "http_re") || !strings.HasSuffix(err.Error(), "operation timed out") {
		t.Errorf("got %v", err)
	}
}

func TestTheCallerIsGone(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	s := newServer(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	c := newCaller(t, opened())
	_, err := c.Call(ctx, object(t, map[string]any{"url": s.URL}), call("{}"))
	if bus.Code(err) != "http_request_failed" || !strings.Contains(err.Error(), "the caller is gone") {
		t.Errorf("got %v", err)
	}
	// All places are taken: the call waits within its time.
	for range MaxConcurrent {
		c.slots <- struct{}{}
	}
	if _, err := c.Call(ctx, object(t, map[string]any{"url": s.URL}), call("{}")); bus.Code(err) != "http_request_failed" || s.hits() != 1 {
		t.Errorf("got %v after %d requests", err, s.hits())
	}
}

func TestServersThatCannotBeAsked(t *testing.T) {
	t.Parallel()
	c := newCaller(t, opened())
	secure := httptest.NewTLSServer(respond(200, ""))
	t.Cleanup(secure.Close)
	plain := newServer(t, respond(200, ""))
	closed := httptest.NewServer(nil)
	closed.Close()
	for url, want := range map[string]string{
		secure.URL: "the certificate of the server is not trusted",
		strings.Replace(plain.URL, "http:", "https:", 1): "the server does not speak TLS",
		closed.URL: "connection refused",
	} {
		_, err := c.Call(t.Context(), object(t, map[string]any{"url": url + "/hidden"}), call("{}"))
		wanted := &bus.Error{Code: "http_request_failed", Message: "error sending request for url (" + url + "): " + want}
		if diff := cmp.Diff(wanted, err); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	c.transport = newTransport(c.reach, names(t, netip.MustParseAddr("127.0.0.1")))
	c.transport.TLSClientConfig = secure.Client().Transport.(*http.Transport).TLSClientConfig
	if _, err := c.Call(t.Context(), object(t, map[string]any{"url": strings.Replace(secure.URL, "127.0.0.1", "example.com", 1)}), call("{}")); err != nil {
		t.Errorf("a trusted certificate: %v", err)
	}
}
