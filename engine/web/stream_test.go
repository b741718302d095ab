package web_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/channel"
	"github.com/iii-aws/harness/engine/web"
)

func TestStreamedAnswers(t *testing.T) {
	t.Parallel()
	long := `{"type":"set_headers","headers":{"x-long":"` + strings.Repeat("v", 128<<10) + `"}}`
	for _, tt := range []struct {
		name     string
		messages []string
		result   string
		fails    bool
		status   int
		body     string
		header   map[string]string
	}{
		{"a body", []string{"one", "two"}, "", false, 200, "onetwo", map[string]string{"Content-Type": "application/octet-stream"}},
		{"status and headers", []string{`{"type":"set_status","status_code":201}`, `{"type":"set_headers","headers":{"content-type":"text/plain","x-a":"1"}}`, `{"type":"set_headers","headers":{"x-a":"2"}}`, "body"},
			"", false, 201, "body", map[string]string{"Content-Type": "text/plain", "X-A": "2"}},
		{"no body", []string{`{"type":"set_status","status_code":202}`}, "", false, 202, "", nil},
		{"no body and a late result", []string{`{"type":"set_status","status_code":204}`}, "wait", false, 204, "", nil},
		{"the binary message first", []string{"first"}, "wait", false, 200, "first", nil},
		{"what comes too late", []string{"one", `{"type":"set_status","status_code":500}`, "two"}, "", false, 200, "onetwo", nil},
		{"an empty first piece", []string{`{"type":"set_status","status_code":203}`, "", "x"}, "", false, 203, "x", nil},
		{"nonsense", []string{`{"type":"set_status","status_code":99}`, `{"type":"set_status"}`, `{"type":"x"}`, `{`, `{"type":"set_headers","headers":{"a b":"1"}}`, long, "x"}, "", false, 200, "x", nil},
		{"a stream without a body", []string{`{"type":"set_status","status_code":304}`, "x", "y"}, "", false, 304, "", nil},
		{"a failure after the beginning", []string{"one"}, "wait", true, 200, "one", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := newRig(t)
			g.route(`{"api_path":"a"}`)
			done := make(chan struct{})
			g.on("f::g", func(_ context.Context, data json.RawMessage) (string, error) {
				w := g.responds(data, tt.messages...)
				if err := w.Close(); err != nil {
					t.Error(err)
				}
				if tt.result == "wait" {
					<-done
				}
				if tt.fails {
					return "", errors.New("late")
				}
				return "", nil
			})
			a := g.do("GET", "/a", "")
			close(done)
			if a.status != tt.status || a.body != tt.body {
				t.Errorf("got %d %q", a.status, a.body)
			}
			for name, want := range tt.header {
				if got := a.header.Get(name); got != want {
					t.Errorf("%s: got %q, want %q", name, got, want)
				}
			}
		})
	}
}

func TestAnAnswerOfNothing(t *testing.T) {
	t.Parallel()
	t.Run("nothing comes", func(t *testing.T) {
		t.Parallel()
		g := newRig(t)
		g.route(`{"api_path":"a"}`)
		g.on("f::g", returns("null"))
		go func() {
			g.clock.BlockUntil(2) // the limit, and the patience
			g.clock.Advance(5 * time.Second)
		}()
		if a := g.do("GET", "/a", ""); a.status != 204 || a.body != "" {
			t.Errorf("got %+v", a)
		}
	})
	t.Run("the channel ends", func(t *testing.T) {
		t.Parallel()
		g := newRig(t)
		g.route(`{"api_path":"a"}`)
		closed := make(chan struct{})
		g.on("f::g", func(_ context.Context, data json.RawMessage) (string, error) {
			w := g.responds(data)
			go func() {
				<-closed
				_ = w.Close()
			}()
			return "", nil
		})
		go func() {
			g.clock.BlockUntil(2)
			close(closed)
		}()
		if a := g.do("GET", "/a", ""); a.status != 204 {
			t.Errorf("got %+v", a)
		}
	})
	t.Run("the channel ends first", func(t *testing.T) {
		t.Parallel()
		g := newRig(t)
		g.route(`{"api_path":"a"}`)
		g.on("f::g", func(_ context.Context, data json.RawMessage) (string, error) {
			return `{"body":1}`, g.responds(data).Close()
		})
		if a := g.do("GET", "/a", ""); a.status != 200 || a.body != "1" {
			t.Errorf("got %+v", a)
		}
	})
	t.Run("no channels", func(t *testing.T) {
		t.Parallel()
		g := newRig(t, func(c *web.Config) { c.Channels = nil })
		g.route(`{"api_path":"a","http_method":"POST"}`)
		g.on("f::g", returns(""))
		if a := g.do("POST", "/a", "text"); a.status != 204 {
			t.Errorf("got %+v", a)
		}
		if got := string(g.lastCall().firing.Payload); strings.Contains(got, "request_body") || strings.Contains(got, "response") {
			t.Errorf("got %s", got)
		}
	})
}

// TestAStreamIsNotCutByTheLimit: the limit is for the beginning of an answer.
func TestAStreamIsNotCutByTheLimit(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.route(`{"api_path":"a"}`)
	more := make(chan struct{})
	g.on("f::g", func(_ context.Context, data json.RawMessage) (string, error) {
		w := g.responds(data, "one")
		<-more
		if err := w.Write(context.Background(), channel.Message{Data: []byte("two"), Binary: true}); err != nil {
			return "", err
		}
		return "", w.Close()
	})
	res, err := http.Get(g.http.URL + "/a")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	p := make([]byte, 3)
	if _, err := io.ReadFull(res.Body, p); err != nil || string(p) != "one" {
		t.Fatalf("%s, %v", p, err)
	}
	g.clock.Advance(time.Hour)
	close(more)
	if rest, err := io.ReadAll(res.Body); err != nil || string(rest) != "two" {
		t.Errorf("%s, %v", rest, err)
	}
}

// TestTheClientLeaves: the function hears of it, on both channels and by its context.
func TestTheClientLeaves(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.route(`{"api_path":"a"}`)
	gone := make(chan error, 1)
	g.on("f::g", func(ctx context.Context, data json.RawMessage) (string, error) {
		w := g.responds(data, "one")
		<-ctx.Done()
		for {
			if err := w.Write(context.Background(), channel.Message{Data: []byte("x"), Binary: true}); err != nil {
				gone <- err
				return "", nil
			}
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "GET", g.http.URL+"/a", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := g.http.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	_ = res.Body.Close()
	if err := <-gone; !errors.Is(err, channel.ErrReaderGone) {
		t.Errorf("got %v", err)
	}
	g.on("f::g", forever)
	ctx, cancel = context.WithCancel(t.Context())
	g.on("f::g", func(inner context.Context, _ json.RawMessage) (string, error) {
		cancel()
		<-inner.Done()
		gone <- inner.Err()
		return "", inner.Err()
	})
	if req, err = http.NewRequestWithContext(ctx, "GET", g.http.URL+"/a", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := g.http.Client().Do(req); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestNothingIsKept: channels that a function did not open do not outlive the request.
func TestNothingIsKept(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.route(`{"api_path":"a","http_method":"POST"}`)
	g.on("f::g", returns(`{}`))
	g.do("POST", "/a", strings.Repeat("x", 1<<20))
	body, response := refs(t, g.lastCall().firing.Payload)
	// The client has the answer before the server has cleaned up behind it: its end is what shows that.
	g.http.Close()
	if _, err := g.channels.OpenReader(body); !errors.Is(err, channel.ErrUnknown) {
		t.Errorf("the body's channel: %v", err)
	}
	if _, err := g.channels.OpenWriter(response); !errors.Is(err, channel.ErrUnknown) {
		t.Errorf("the answer's channel: %v", err)
	}
}

// TestThePayload holds what a function gets against the recording 11-trigger-fire.
func TestThePayload(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	b := binding("t", `{"api_path":"ora/fire/:id","http_method":"POST"}`)
	b.Metadata = json.RawMessage(`{"why":"http"}`)
	if err := g.Bind(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	g.on("f::g", returns(`{"status_code":201,"headers":{"x-a":"1"},"body":{"hi":{"q":"2"}}}`))
	a := g.do("POST", "/ora/fire/7?q=1&q=2", `{"b":1}`, "Content-Type", "application/json", "X-H", "v", "X-H", "w", "Cookie", "a=1", "Cookie", "b=2",
		"Traceparent", traceparent, "Tracestate", "k=v", "Baggage", "b=1", "Baggage", "c=2")
	if a.status != 201 || a.body != `{"hi":{"q":"2"}}` || a.header.Get("X-A") != "1" {
		t.Errorf("got %+v", a)
	}
	c := g.lastCall()
	var got map[string]any
	decode(t, string(c.firing.Payload), &got)
	ref := func(direction string) map[string]any {
		key := map[string]string{"read": "request_body", "write": "response"}[direction]
		r := got[key].(map[string]any)
		return map[string]any{"channel_id": r["channel_id"], "access_key": r["access_key"], "direction": direction}
	}
	host := strings.TrimPrefix(g.http.URL, "http://")
	want := map[string]any{
		"body": map[string]any{"b": 1.0}, "method": "POST", "path": "ora/fire/:id", "path_params": map[string]any{"id": "7"}, "query_params": map[string]any{"q": "2"},
		"headers": map[string]any{"content-type": "application/json", "content-length": "7", "host": host, "user-agent": "Go-http-client/1.1", "accept-encoding": "gzip",
			"x-h": "v, w", "cookie": "a=1; b=2", "traceparent": traceparent, "tracestate": "k=v", "baggage": "b=1, c=2"},
		"trigger":      map[string]any{"type": "http", "path": "ora/fire/:id", "method": "POST"},
		"request_body": ref("read"), "response": ref("write"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if c.trace != traceparent || c.baggage != "b=1,c=2" || !c.firing.Metadata || c.binding.ID != "t" {
		t.Errorf("got %+v", c)
	}
}

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestBadTraces(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.route(`{"api_path":"a"}`)
	g.on("f::g", returns("{}"))
	for _, h := range [][]string{
		nil, {"Traceparent", "x"}, {"Traceparent", traceparent, "Traceparent", traceparent}, {"Traceparent", "ff" + traceparent[2:]},
		{"Traceparent", "00-" + strings.Repeat("0", 32) + traceparent[35:]}, {"Traceparent", traceparent[:36] + strings.Repeat("0", 16) + "-01"},
		{"Traceparent", strings.ToUpper(traceparent)}, {"Baggage", strings.Repeat("a=1,", 3000)}, {"Baggage", "k=\xff"},
	} {
		if a := g.do("GET", "/a", "", h...); a.status != 200 {
			t.Errorf("got %+v", a)
		}
		if c := g.lastCall(); c.trace != "" || c.baggage != "" {
			t.Errorf("%.80q: got %q %.80q", h, c.trace, c.baggage)
		}
	}
}

func TestBodies(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 901) + strings.Repeat("]", 901)
	for _, tt := range []struct{ name, kind, body, want string }{
		{"JSON", "application/json", ` {"b":1e3, "c":"é"} `, `{"b":1e3,"c":"é"}`},
		{"JSON with parameters", "application/json; charset=utf-8", "[1]", "[1]"},
		{"a kind of JSON", "application/cloudevents+json", "true", "true"},
		{"JSON of no type", "", `{"b":1}`, "null"},
		{"text", "text/plain", `{"b":1}`, "null"},
		{"text that sounds like JSON", "text/json", `{"b":1}`, "null"},
		{"a bad type", "application/json; =", "1", "null"},
		{"broken JSON", "application/json", `{"b":`, "null"},
		{"no body", "application/json", "", "null"},
		{"bad UTF-8", "application/json", "\"\xff\"", "null"},
		{"deep", "application/json", deep[1 : len(deep)-1], deep[1 : len(deep)-1]},
		{"too deep", "application/json", deep, "null"},
		{"brackets in texts", "application/json", `"` + strings.Repeat(`[\"`, 1000) + `"`, `"` + strings.Repeat(`[\"`, 1000) + `"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := newRig(t)
			g.route(`{"api_path":"a","http_method":"POST"}`)
			g.on("f::g", func(ctx context.Context, data json.RawMessage) (string, error) {
				got, err := g.read(ctx, data)
				if err != nil || got != tt.body {
					t.Errorf("the channel has %.100q, %v", got, err)
				}
				return `{}`, nil
			})
			if a := g.do("POST", "/a", tt.body, "Content-Type", tt.kind); a.status != 200 {
				t.Errorf("got %+v", a)
			}
			var p struct{ Body json.RawMessage }
			decode(t, string(g.lastCall().firing.Payload), &p)
			if string(p.Body) != tt.want {
				t.Errorf("got %.100s, want %.100s", p.Body, tt.want)
			}
		})
	}
}

// read is what comes on the channel of a body.
func (g *rig) read(ctx context.Context, data json.RawMessage) (string, error) {
	ref, _ := refs(g.t, data)
	r, err := g.channels.OpenReader(ref)
	if err != nil {
		return "", err
	}
	var all strings.Builder
	for {
		m, err := r.Read(ctx)
		if errors.Is(err, io.EOF) {
			return all.String(), r.Close()
		}
		if err != nil {
			return "", err
		}
		all.Write(m.Data)
	}
}

func TestALargeBodyGoesThrough(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.route(`{"api_path":"a","http_method":"POST"}`)
	g.on("f::g", func(ctx context.Context, data json.RawMessage) (string, error) {
		got, err := g.read(ctx, data)
		return fmt.Sprintf(`{"body":%d}`, len(got)), err
	})
	for range 2 { // the second on the same connection
		if a := g.do("POST", "/a", strings.Repeat("x", 5<<20), "Content-Type", "text/plain"); a.status != 200 || a.body != fmt.Sprint(5<<20) {
			t.Errorf("got %+v", a)
		}
		if a := g.do("POST", "/a", `"`+strings.Repeat("x", 5<<20)+`"`, "Content-Type", "application/json"); a.status != 200 || a.body != fmt.Sprint(5<<20+2) {
			t.Errorf("got %+v", a)
		}
	}
}

// TestBothWaysAtOnce: a function answers each piece of a body before the next one comes.
func TestBothWaysAtOnce(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.route(`{"api_path":"a","http_method":"POST"}`)
	g.on("f::g", func(ctx context.Context, data json.RawMessage) (string, error) {
		body, response := refs(t, data)
		r, err := g.channels.OpenReader(body)
		if err != nil {
			return "", err
		}
		w, err := g.channels.OpenWriter(response)
		if err != nil {
			return "", err
		}
		for {
			m, err := r.Read(ctx)
			if err != nil {
				return "", w.Close()
			}
			if err := w.Write(ctx, m); err != nil {
				return "", err
			}
		}
	})
	conn, r := g.dial()
	fmt.Fprintf(conn, "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
	fmt.Fprintf(conn, "3\r\none\r\n")
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"one", "two"} {
		if word == "two" {
			fmt.Fprintf(conn, "3\r\ntwo\r\n")
		}
		p := make([]byte, 3)
		if _, err := io.ReadFull(res.Body, p); err != nil || string(p) != word {
			t.Fatalf("%s, %v", p, err)
		}
	}
	fmt.Fprintf(conn, "0\r\n\r\n")
	if rest, err := io.ReadAll(res.Body); err != nil || len(rest) > 0 {
		t.Errorf("%q, %v", rest, err)
	}
	// The connection goes on.
	g.on("f::g", returns(`{"body":1}`))
	fmt.Fprintf(conn, "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
	if res, err := http.ReadResponse(r, nil); err != nil || res.StatusCode != 200 {
		t.Errorf("%v, %v", res, err)
	}
}

// TestAnswersThatDoNotWaitForTheBody: the function answers while the client still sends.
func TestAnswersThatDoNotWaitForTheBody(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]func(*rig) function{
		"returned": func(*rig) function { return returns(`{"body":"x"}`) },
		"streamed": func(g *rig) function {
			return func(_ context.Context, data json.RawMessage) (string, error) {
				return "", g.responds(data, `"x"`).Close()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newRig(t)
			g.route(`{"api_path":"a","http_method":"POST"}`)
			g.on("f::g", f(g))
			conn, r := g.dial()
			fmt.Fprintf(conn, "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nsome")
			res, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatal(err)
			}
			p := make([]byte, 3)
			if _, err := io.ReadFull(res.Body, p); err != nil || string(p) != `"x"` {
				t.Errorf("%q, %v", p, err)
			}
			if _, err := io.Copy(io.Discard, r); err != nil {
				t.Errorf("the connection is not closed: %v", err)
			}
		})
	}
}

func TestBodiesThatAreTooLarge(t *testing.T) {
	t.Parallel()
	const large = `{"error":{"code":"PAYLOAD_TOO_LARGE","message":"The body of the request is too large"}}`
	g := newRig(t)
	const maxJSON, maxBody = 1 << 20, 5 << 20
	g.Limit(maxJSON, maxBody)
	g.route(`{"api_path":"a","http_method":"POST"}`)
	g.route(`{"api_path":"c","http_method":"POST","condition_function_id":"f::c"}`)
	read := func(ctx context.Context, data json.RawMessage) (string, error) {
		if _, err := g.read(ctx, data); err != nil {
			return "", err
		}
		<-ctx.Done()
		return "", ctx.Err()
	}
	g.on("f::g", read)
	g.on("f::c", read)
	for _, tt := range []struct {
		path, kind string
		size       int64
		known      bool
	}{
		{"/a", "application/json", maxJSON + 1, true}, {"/a", "application/json", maxJSON + 1, false},
		{"/a", "text/plain", maxBody + 1, true}, {"/a", "text/plain", maxBody + 1, false}, {"/c", "text/plain", maxBody + 1, false},
	} {
		req, err := http.NewRequestWithContext(t.Context(), "POST", g.http.URL+tt.path, io.LimitReader(zeros{}, tt.size))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", tt.kind)
		if tt.known {
			req.ContentLength = tt.size
			req.Header.Set("Expect", "100-continue")
		}
		res, err := (&http.Client{Transport: &http.Transport{ExpectContinueTimeout: time.Minute}}).Do(req)
		if err != nil {
			t.Fatalf("%+v: %v", tt, err)
		}
		b, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || res.StatusCode != 413 || string(b) != large {
			t.Errorf("%+v: got %d %s, %v", tt, res.StatusCode, b, err)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestABodyThatBreaksOff(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"application/json", "text/plain"} {
		g := newRig(t)
		g.route(`{"api_path":"a","http_method":"POST"}`)
		ended := make(chan struct{})
		g.on("f::g", func(ctx context.Context, _ json.RawMessage) (string, error) {
			<-ctx.Done()
			close(ended)
			return "", ctx.Err()
		})
		conn, r := g.dial()
		fmt.Fprintf(conn, "POST /a HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\nContent-Length: 1000\r\n\r\n{", kind)
		if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
			t.Errorf("%s: got %q, %v", kind, rest, err)
		}
		if kind == "text/plain" {
			<-ended
		}
	}
}

func TestABodyThatTakesTooLong(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.route(`{"api_path":"a","http_method":"POST"}`)
	conn, r := g.dial()
	fmt.Fprintf(conn, "POST /a HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{")
	g.clock.BlockUntil(1)
	g.clock.Advance(web.Timeout)
	fmt.Fprintf(conn, " ") // the next piece comes after the time
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(res.Body); err != nil || res.StatusCode != 408 || string(b) != `{"error":{"code":"REQUEST_TIMEOUT","message":"The body of the request did not come in time"}}` {
		t.Errorf("got %d %s, %v", res.StatusCode, b, err)
	}
}

func TestTooManyRequests(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.route(`{"api_path":"a"}`)
	entered := make(chan struct{}, web.MaxRequests)
	g.on("f::g", func(ctx context.Context, _ json.RawMessage) (string, error) {
		entered <- struct{}{}
		<-ctx.Done()
		return "", ctx.Err()
	})
	for range web.MaxRequests {
		conn, _ := g.dial()
		fmt.Fprintf(conn, "GET /a HTTP/1.1\r\nHost: x\r\n\r\n")
	}
	for range web.MaxRequests {
		<-entered
	}
	if a := g.do("GET", "/a", ""); a.status != 503 || a.header.Get("Retry-After") == "" || !strings.Contains(a.body, `"UNAVAILABLE"`) {
		t.Errorf("got %+v", a)
	}
}
