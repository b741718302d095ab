package web_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/channel"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/trigger"
	"github.com/iii-aws/harness/engine/web"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// asked is a call that was made.
type asked struct {
	function string
	binding  trigger.Binding
	firing   trigger.Firing
	trace    string
	baggage  string
}

// function is what a function does in a test.
type function func(ctx context.Context, data json.RawMessage) (string, error)

// returns is a function that always answers the same.
func returns(result string) function {
	return func(context.Context, json.RawMessage) (string, error) { return result, nil }
}

func fails(code, message string) function {
	return func(context.Context, json.RawMessage) (string, error) {
		return "", &bus.Error{Code: code, Message: message}
	}
}

// forever is a function that ends with its caller.
func forever(ctx context.Context, _ json.RawMessage) (string, error) {
	<-ctx.Done()
	return "", ctx.Err()
}

// log keeps what is logged.
type log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// rig is a server with functions.
type rig struct {
	*web.Server
	t        testing.TB
	http     *httptest.Server
	channels *channel.Local
	clock    *clock.Fake
	log      *log

	mu        sync.Mutex
	functions map[string]function
	calls     []asked
}

type option func(*web.Config)

func newRig(t testing.TB, options ...option) *rig {
	t.Helper()
	g := &rig{t: t, clock: clock.NewFake(start), log: &log{}, functions: map[string]function{}}
	g.channels = channel.NewLocal(g.clock, clock.Sequence(3))
	cfg := web.Config{Caller: g, Channels: g.channels, Clock: g.clock, IDs: clock.Sequence(9), Logger: slog.New(slog.NewTextHandler(g.log, nil))}
	for _, o := range options {
		o(&cfg)
	}
	var err error
	if g.Server, err = web.New(cfg); err != nil {
		t.Fatal(err)
	}
	g.http = httptest.NewServer(g.Server)
	t.Cleanup(g.http.Close)
	return g
}

// Call implements web.Caller.
func (g *rig) Call(ctx context.Context, b trigger.Binding, id string, f trigger.Firing) (json.RawMessage, error) {
	a := asked{function: id, binding: b, firing: f}
	if c := bus.CallFrom(ctx); c != nil {
		a.trace, a.baggage = c.Traceparent, c.Baggage
	}
	g.mu.Lock()
	g.calls = append(g.calls, a)
	do := g.functions[id]
	g.mu.Unlock()
	if do == nil {
		return nil, &bus.Error{Code: "function_not_found", Message: "Function " + id + " not found in namespace default."}
	}
	type ended struct {
		out string
		err error
	}
	done := make(chan ended, 1)
	go func() {
		out, err := do(ctx, f.Payload)
		done <- ended{out, err}
	}()
	select {
	case e := <-done:
		if e.err != nil || e.out == "" {
			return nil, e.err
		}
		return json.RawMessage(e.out), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (g *rig) on(id string, f function) { g.functions[id] = f }

// names is the functions that were called, in their order.
func (g *rig) names() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var ids []string
	for _, c := range g.calls {
		ids = append(ids, c.function)
	}
	return strings.Join(ids, " ")
}

func (g *rig) lastCall() asked {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.calls[len(g.calls)-1]
}

var counter struct {
	sync.Mutex
	n int
}

// route binds f::g to a config.
func (g *rig) route(config string) trigger.Binding {
	g.t.Helper()
	counter.Lock()
	counter.n++
	id := fmt.Sprintf("t%d", counter.n)
	counter.Unlock()
	b := binding(id, config)
	if err := g.Bind(g.t.Context(), b); err != nil {
		g.t.Fatal(err)
	}
	return b
}

func binding(id, config string) trigger.Binding {
	return trigger.Binding{ID: id, Type: "http", Namespace: "default", FunctionID: "f::g", Config: json.RawMessage(config), Principal: bus.Principal{ID: "ann"}, External: true}
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   string
}

func (g *rig) do(method, path, body string, headers ...string) answer {
	g.t.Helper()
	req, err := http.NewRequestWithContext(g.t.Context(), method, g.http.URL+path, strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	res, err := g.http.Client().Do(req)
	if err != nil {
		g.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	return answer{res.StatusCode, res.Header, string(b)}
}

// dial is a connection on which a test writes what it likes.
func (g *rig) dial() (net.Conn, *bufio.Reader) {
	g.t.Helper()
	conn, err := net.Dial("tcp", g.http.Listener.Addr().String())
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { _ = conn.Close() })
	return conn, bufio.NewReader(conn)
}

// refs are the channels of a payload.
func refs(t testing.TB, data json.RawMessage) (body, response channel.Ref) {
	var p struct {
		RequestBody channel.Ref `json:"request_body"`
		Response    channel.Ref `json:"response"`
	}
	if err := json.Unmarshal(data, &p); err != nil {
		t.Error(err)
	}
	return p.RequestBody, p.Response
}

// responds opens the response channel and writes messages; those that begin with { are text.
func (g *rig) responds(data json.RawMessage, messages ...string) channel.Writer {
	_, ref := refs(g.t, data)
	w, err := g.channels.OpenWriter(ref)
	if err != nil {
		g.t.Error(err)
		return nil
	}
	for _, m := range messages {
		if err := w.Write(context.Background(), channel.Message{Data: []byte(m), Binary: !strings.HasPrefix(m, "{")}); err != nil {
			g.t.Error(err)
		}
	}
	return w
}

var (
	start0 = clock.System()
	ids0   = clock.Random()
)

func decode(t testing.TB, text string, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
}

func encode(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// recorder keeps a status.
type recorder struct {
	header http.Header
	status int
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) Write(p []byte) (int, error) { return len(p), nil }
func (r *recorder) WriteHeader(status int)      { r.status = status }
