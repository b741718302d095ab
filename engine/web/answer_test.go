package web_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/channel"
	"github.com/iii-aws/harness/engine/web"
)

func TestReturnedAnswers(t *testing.T) {
	t.Parallel()
	manyHeaders := map[string]string{}
	for i := range 101 {
		manyHeaders["x-"+strings.Repeat("a", i+1)] = "v"
	}
	const bad = `{"error":{"code":"invalid_response","message":"The request failed","error_id":"00000009-0000-4000-8000-000000000001"}}`
	for _, tt := range []struct {
		name, result string
		status       int
		body         string
		header       map[string]string
	}{
		{"everything", `{"status_code":201,"headers":{"x-a":"1"},"body":{"hi":{"q":"2"}}}`, 201, `{"hi":{"q":"2"}}`, map[string]string{"X-A": "1", "Content-Type": "application/json", "Content-Length": "16"}},
		{"nothing in it", `{}`, 200, `{}`, map[string]string{"Content-Type": "application/json"}},
		{"something else", `{"hello":1}`, 200, `{}`, nil},
		{"nulls", `{"status_code":null,"headers":null,"body":null}`, 200, `null`, nil},
		{"a list of headers", `{"headers":["X-A: 1","x-b:2","X-A:3"]}`, 200, `{}`, map[string]string{"X-A": "1|3", "X-B": "2"}},
		{"values of other types", `{"headers":{"x-n":1e3,"x-b":true,"set-cookie":["a=1","b=2"]}}`, 200, `{}`, map[string]string{"X-N": "1e3", "X-B": "true", "Set-Cookie": "a=1|b=2"}},
		{"a text", `{"body":"hi"}`, 200, `"hi"`, map[string]string{"Content-Type": "application/json"}},
		{"a text of a type", `{"headers":{"Content-Type":"text/html; charset=utf-8"},"body":"<b>\u00e9"}`, 200, "<b>é", map[string]string{"Content-Type": "text/html; charset=utf-8", "Content-Length": "5"}},
		{"an object of a type", `{"headers":{"Content-Type":"text/plain"},"body":{"a":1}}`, 200, `{"a":1}`, nil},
		{"a text of a JSON type", `{"headers":{"content-type":"application/problem+json"},"body":"x"}`, 200, `"x"`, map[string]string{"Content-Type": "application/problem+json"}},
		{"numbers as they are", `{"body":12345678901234567890.10}`, 200, `12345678901234567890.10`, nil},
		{"no content", `{"status_code":204,"body":null}`, 204, "", map[string]string{"Content-Length": ""}},
		{"headers of the connection", `{"headers":{"Connection":"close","Transfer-Encoding":"x","content-length":"999","x-a":"1"},"body":1}`, 200, "1", map[string]string{"Content-Length": "1", "X-A": "1"}},
		{"no object", `"hi"`, 500, bad, nil},
		{"status 99", `{"status_code":99}`, 500, bad, nil},
		{"status 101", `{"status_code":101}`, 500, bad, nil},
		{"status 600", `{"status_code":600}`, 500, bad, nil},
		{"status of text", `{"status_code":"200"}`, 500, bad, nil},
		{"headers of text", `{"headers":"x"}`, 500, bad, nil},
		{"a header of two lines", `{"headers":{"x-a":"1\r\nx-b: 2"}}`, 500, bad, nil},
		{"a header of two names", `{"headers":{"x a":"1"}}`, 500, bad, nil},
		{"a header without a name", `{"headers":[": x"]}`, 500, bad, nil},
		{"a header without a colon", `{"headers":["x"]}`, 500, bad, nil},
		{"a header that is null", `{"headers":{"x":null}}`, 500, bad, nil},
		{"a header that is an object", `{"headers":{"x":[{}]}}`, 500, bad, nil},
		{"many headers", `{"headers":` + encode(t, manyHeaders) + `}`, 500, bad, nil},
		{"large headers", `{"headers":{"x":"` + strings.Repeat("v", 64<<10) + `"}}`, 500, bad, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := newRig(t)
			g.route(`{"api_path":"a"}`)
			g.on("f::g", returns(tt.result))
			a := g.do("GET", "/a", "")
			if a.status != tt.status || a.body != tt.body {
				t.Errorf("got %d %s", a.status, a.body)
			}
			for name, want := range tt.header {
				if got := strings.Join(a.header.Values(name), "|"); got != want {
					t.Errorf("%s: got %q, want %q", name, got, want)
				}
			}
			if strings.Contains(encode(t, a.header), "X-B") && tt.status == 500 {
				t.Errorf("got headers %v", a.header)
			}
		})
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	const id = "00000009-0000-4000-8000-000000000001"
	for _, tt := range []struct {
		name string
		do   function
		body string
		log  string
	}{
		{"a code of its own", fails("no_stock", "There are no apples"), `{"error":{"code":"no_stock","message":"There are no apples"}}`, ""},
		{"a secret in its message", fails("no_stock", "password=hunter2hunter2"), `{"error":{"code":"no_stock","message":"password=[REDACTED]"}}`, ""},
		{"an exception", fails("invocation_failed", "ENOENT: /home/me/x"), `{"error":{"code":"invocation_failed","message":"The request failed","error_id":"` + id + `"}}`, "ENOENT: /home/me/x"},
		{"nobody serves it", nil, `{"error":{"code":"function_not_found","message":"The request failed","error_id":"` + id + `"}}`, "f::g not found"},
		{"an error without a code", func(context.Context, json.RawMessage) (string, error) { return "", errors.New("inner") },
			`{"error":{"code":"invocation_failed","message":"The request failed","error_id":"` + id + `"}}`, "inner"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := newRig(t)
			g.route(`{"api_path":"a"}`)
			if tt.do != nil {
				g.on("f::g", tt.do)
			}
			a := g.do("GET", "/a", "")
			if a.status != 500 || a.body != tt.body {
				t.Errorf("got %d %s", a.status, a.body)
			}
			if got := g.log.String(); !strings.Contains(got, tt.log) || strings.Contains(got, "hunter2") || strings.Contains(tt.body, id) != strings.Contains(got, id) {
				t.Errorf("log %s", got)
			}
		})
	}
}

func TestOrder(t *testing.T) {
	t.Parallel()
	const goOn = `{"action":"continue"}`
	const bad = `{"error":{"code":"invalid_response","message":"The request failed","error_id":"00000009-0000-4000-8000-000000000001"}}`
	refuse := `{"action":"respond","response":{"status_code":401,"headers":{"x-a":"1"},"body":{"no":1}}}`
	for _, tt := range []struct {
		name   string
		change map[string]function
		names  string
		status int
		body   string
	}{
		{"all pass", nil, "g::1 g::2 f::c f::1 f::2 f::g", 200, `{}`},
		{"global middleware answers", map[string]function{"g::1": returns(refuse)}, "g::1", 401, `{"no":1}`},
		{"the second one answers", map[string]function{"g::2": returns(refuse)}, "g::1 g::2", 401, `{"no":1}`},
		{"the condition blocks", map[string]function{"f::c": returns(" false")}, "g::1 g::2 f::c", 422, `{"error":{"code":"CONDITION_NOT_MET","message":"The condition of the route is not met"},"skipped":true}`},
		{"the condition says something", map[string]function{"f::c": returns(`"false"`)}, "g::1 g::2 f::c f::1 f::2 f::g", 200, `{}`},
		{"the condition says nothing", map[string]function{"f::c": returns(``)}, "g::1 g::2 f::c f::1 f::2 f::g", 200, `{}`},
		{"the condition fails", map[string]function{"f::c": fails("C", "c")}, "g::1 g::2 f::c", 500, `{"error":{"code":"C","message":"c"}}`},
		{"a middleware of the route answers", map[string]function{"f::1": returns(refuse)}, "g::1 g::2 f::c f::1", 401, `{"no":1}`},
		{"a middleware answers nothing", map[string]function{"f::2": returns(`{"action":"respond"}`)}, "g::1 g::2 f::c f::1 f::2", 200, `{}`},
		{"a middleware fails", map[string]function{"f::1": fails("M", "m")}, "g::1 g::2 f::c f::1", 500, `{"error":{"code":"M","message":"m"}}`},
		{"a middleware returns nothing", map[string]function{"g::1": returns(``)}, "g::1", 500, bad},
		{"a middleware does something else", map[string]function{"g::1": returns(`{"action":"skip"}`)}, "g::1", 500, bad},
		{"a middleware answers badly", map[string]function{"g::1": returns(`{"action":"respond","response":7}`)}, "g::1", 500, bad},
		{"nobody serves a middleware", map[string]function{"f::2": nil}, "g::1 g::2 f::c f::1 f::2", 500,
			`{"error":{"code":"function_not_found","message":"The request failed","error_id":"00000009-0000-4000-8000-000000000001"}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := newRig(t, func(c *web.Config) { c.Middleware = []string{"g::1", "g::2"} })
			b := binding("t", `{"api_path":"a/:id","http_method":"POST","condition_function_id":"f::c","middleware_function_ids":["f::1","f::2"]}`)
			b.Namespace, b.Metadata = "shop", json.RawMessage(`{"m":1}`)
			if err := g.Bind(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			for _, id := range []string{"g::1", "g::2", "f::1", "f::2"} {
				g.on(id, returns(goOn))
			}
			g.on("f::c", returns("true"))
			g.on("f::g", returns("{}"))
			for id, f := range tt.change {
				g.on(id, f)
			}
			a := g.do("POST", "/a/7?q=1", `{"b":1}`, "Content-Type", "application/json", "X-H", "v")
			if a.status != tt.status || a.body != tt.body || g.names() != tt.names {
				t.Errorf("got %d %s after %s", a.status, a.body, g.names())
			}
			for _, c := range g.calls {
				global := strings.HasPrefix(c.function, "g::")
				if c.binding.Principal.ID != "ann" || c.binding.External == global || (c.binding.Namespace == "shop") == global || c.firing.Metadata != (c.function == "f::g") {
					t.Errorf("%s was called as %+v", c.function, c)
				}
				if c.function != "f::c" && c.function != "f::g" {
					var p map[string]any
					decode(t, string(c.firing.Payload), &p)
					delete(p["request"].(map[string]any), "headers")
					want := map[string]any{"phase": "preHandler", "context": map[string]any{},
						"request": map[string]any{"method": "POST", "path_params": map[string]any{"id": "7"}, "query_params": map[string]any{"q": "1"}}}
					if diff := cmp.Diff(want, p); diff != "" {
						t.Errorf("(-want +got):\n%s", diff)
					}
				} else if !strings.Contains(string(c.firing.Payload), `"body":{"b":1}`) {
					t.Errorf("%s got %s", c.function, c.firing.Payload)
				}
			}
		})
	}
}

func TestTimeouts(t *testing.T) {
	t.Parallel()
	for slow, want := range map[string]string{
		"g::1": `{"error":{"code":"MIDDLEWARE_TIMEOUT","message":"A middleware did not answer in time"}}`,
		"f::c": `{"error":{"code":"TIMEOUT","message":"The function did not answer in time"}}`,
		"f::1": `{"error":{"code":"MIDDLEWARE_TIMEOUT","message":"A middleware did not answer in time"}}`,
		"f::g": `{"error":{"code":"TIMEOUT","message":"The function did not answer in time"}}`,
	} {
		t.Run(slow, func(t *testing.T) {
			t.Parallel()
			g := newRig(t, func(c *web.Config) { c.Middleware = []string{"g::1"} })
			g.route(`{"api_path":"a","condition_function_id":"f::c","middleware_function_ids":["f::1"]}`)
			g.on("g::1", returns(`{"action":"continue"}`))
			g.on("f::1", returns(`{"action":"continue"}`))
			g.on("f::c", returns(``))
			ended := make(chan error, 1)
			g.on(slow, func(ctx context.Context, _ json.RawMessage) (string, error) {
				g.clock.Advance(web.Timeout)
				<-ctx.Done()
				ended <- ctx.Err()
				return "", ctx.Err()
			})
			if a := g.do("GET", "/a", ""); a.status != 504 || a.body != want {
				t.Errorf("got %d %s", a.status, a.body)
			}
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("the call ended with %v", err)
			}
		})
	}
}

func TestPanicsAreContained(t *testing.T) {
	t.Parallel()
	g := newRig(t, func(c *web.Config) { c.Channels = broken{} })
	g.route(`{"api_path":"a"}`)
	a := g.do("GET", "/a", "")
	if a.status != 500 || a.body != `{"error":{"code":"INTERNAL","message":"Internal error"}}` || !strings.Contains(g.log.String(), "alarm=handler_panic") {
		t.Errorf("got %+v, log %s", a, g.log)
	}
	if a := g.do("GET", "/b", ""); a.status != 404 {
		t.Errorf("got %+v", a)
	}
}

// broken is a broker that panics.
type broken struct{}

func (broken) Create(context.Context, int) (w, r channel.Ref, err error) { panic("secret") }
func (broken) OpenWriter(channel.Ref) (channel.Writer, error)            { return nil, channel.ErrUnknown }
func (broken) OpenReader(channel.Ref) (channel.Reader, error)            { return nil, channel.ErrUnknown }

// failing is a broker whose nth channel cannot be made, or not opened.
type failing struct {
	channel.Broker
	creates, writers, readers int
}

func (f *failing) Create(ctx context.Context, n int) (w, r channel.Ref, err error) {
	if f.creates--; f.creates == 0 {
		return w, r, errors.New("no channels")
	}
	return f.Broker.Create(ctx, n)
}

func (f *failing) OpenWriter(ref channel.Ref) (channel.Writer, error) {
	if f.writers--; f.writers == 0 {
		return nil, channel.ErrUnknown
	}
	return f.Broker.OpenWriter(ref)
}

func (f *failing) OpenReader(ref channel.Ref) (channel.Reader, error) {
	if f.readers--; f.readers == 0 {
		return nil, channel.ErrUnknown
	}
	return f.Broker.OpenReader(ref)
}

func TestChannelsThatFail(t *testing.T) {
	t.Parallel()
	for _, f := range []*failing{{creates: 1}, {creates: 2}, {writers: 1}, {readers: 1}} {
		g := newRig(t, func(c *web.Config) {
			f.Broker = c.Channels
			c.Channels = f
		})
		g.route(`{"api_path":"a"}`)
		if a := g.do("GET", "/a", ""); a.status != 500 || !strings.Contains(a.body, "invocation_failed") || g.names() != "" {
			t.Errorf("got %+v after %q", a, g.names())
		}
	}
}

func TestWhatAServerNeeds(t *testing.T) {
	t.Parallel()
	if _, err := web.New(web.Config{}); err == nil {
		t.Error("a server of nothing")
	}
	typ := web.Type()
	if typ.ID != "http" || !json.Valid(typ.Config) || !json.Valid(typ.Payload) || !json.Valid(typ.Result) {
		t.Errorf("got %+v", typ)
	}
}
