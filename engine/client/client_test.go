package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/protocol"
)

// peer is the other end of one connection.
type peer struct {
	t  *testing.T
	ws *websocket.Conn
}

func (p peer) send(f protocol.Frame) {
	p.t.Helper()
	b, err := protocol.Encode(f)
	if err != nil {
		p.t.Fatal(err)
	}
	if err := p.ws.Write(context.Background(), websocket.MessageText, b); err != nil {
		p.t.Log("write:", err)
	}
}

// next is the next frame that is no announce.
func (p peer) next() protocol.Frame {
	p.t.Helper()
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		_, data, err := p.ws.Read(ctx)
		cancel()
		if err != nil {
			p.t.Fatalf("read: %v", err)
		}
		f, err := protocol.Decode(data)
		if err != nil {
			p.t.Fatalf("decode %s: %v", data, err)
		}
		if call, ok := f.(*protocol.InvokeFunction); ok && call.FunctionID == "engine::workers::register" {
			continue
		}
		return f
	}
}

func next[F protocol.Frame](p peer) F {
	p.t.Helper()
	f, ok := p.next().(F)
	if !ok {
		p.t.Fatalf("frame is %T", f)
	}
	return f
}

// server accepts connections and hands them to the test.
type server struct {
	url   string
	peers chan peer
	mu    sync.Mutex
	deny  int
}

func (s *server) refuse(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deny = status
}

func listen(t *testing.T) *server {
	t.Helper()
	s := &server{peers: make(chan peer, 8)}
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		status := s.deny
		s.mu.Unlock()
		if status != 0 {
			http.Error(w, "no", status)
			return
		}
		if got := r.Header.Get("Authorization"); got != "Bearer secret" {
			t.Errorf("authorization %q", got)
		}
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		p := peer{t, ws}
		p.send(&protocol.WorkerRegistered{WorkerID: "6f0c1c1e-0000-4000-8000-00000000000a", ReattachToken: "6f0c1c1e-0000-4000-8000-00000000000b"})
		s.peers <- p
		<-r.Context().Done()
	}))
	t.Cleanup(h.Close)
	s.url = strings.Replace(h.URL, "http", "ws", 1)
	return s
}

func connect(t *testing.T, s *server, o Options) (*Client, peer) {
	t.Helper()
	o.URL, o.Token = s.url, "secret"
	c, err := Dial(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	p := <-s.peers
	t.Cleanup(func() {
		_ = p.ws.CloseNow()
		_ = c.Close()
	})
	return c, p
}

type answered struct {
	value json.RawMessage
	err   error
}

func invoke(c *Client, in bus.Invocation) chan answered {
	out := make(chan answered, 1)
	go func() {
		v, err := c.Invoke(context.Background(), in)
		out <- answered{v, err}
	}()
	return out
}

func TestInvoke(t *testing.T) {
	t.Parallel()
	c, p := connect(t, listen(t), Options{})
	got := invoke(c, bus.Invocation{FunctionID: "a::b", Data: json.RawMessage(`{"n":1}`), Namespace: "shop"})
	f := next[*protocol.InvokeFunction](p)
	if f.FunctionID != "a::b" || string(f.Data) != `{"n":1}` || f.Namespace == nil || *f.Namespace != "shop" {
		t.Errorf("frame %+v", f)
	}
	p.send(&protocol.InvocationResult{InvocationID: strings.ToUpper(f.InvocationID), FunctionID: "a::b", Result: json.RawMessage(`7`)})
	if r := <-got; string(r.value) != "7" || r.err != nil {
		t.Errorf("answer %s, %v", r.value, r.err)
	}
	got = invoke(c, bus.Invocation{FunctionID: "a::b", Action: bus.Enqueue, Queue: "q", InvocationID: "6f0c1c1e-0000-4000-8000-000000000001"})
	f = next[*protocol.InvokeFunction](p)
	if f.Action == nil || f.Action.Queue != "q" || f.InvocationID != "6f0c1c1e-0000-4000-8000-000000000001" {
		t.Errorf("frame %+v", f)
	}
	p.send(&protocol.InvocationResult{InvocationID: f.InvocationID, Error: &protocol.Error{Code: "enqueue_error", Message: "m"}})
	if r := <-got; bus.Code(r.err) != "enqueue_error" {
		t.Errorf("error %v", r.err)
	}
	ctx := bus.WithCall(t.Context(), &bus.Call{Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", Baggage: "k=v"})
	if v, err := c.Invoke(ctx, bus.Invocation{FunctionID: "a::b", Action: bus.Void}); v != nil || err != nil {
		t.Errorf("void gave %s, %v", v, err)
	}
	if f = next[*protocol.InvokeFunction](p); f.InvocationID != "" || f.Traceparent == "" || f.Baggage != "k=v" {
		t.Errorf("frame %+v", f)
	}
	if _, err := c.Invoke(t.Context(), bus.Invocation{FunctionID: "a::b", InvocationID: "x"}); bus.Code(err) != "invalid_payload" {
		t.Errorf("error %v", err)
	}
}

func TestTimeoutAndCancel(t *testing.T) {
	t.Parallel()
	fake := clock.NewFake(time.Unix(0, 0))
	c, p := connect(t, listen(t), Options{Clock: fake})
	got := invoke(c, bus.Invocation{FunctionID: "a::b", Timeout: time.Second})
	f := next[*protocol.InvokeFunction](p)
	fake.BlockUntil(1)
	fake.Advance(time.Second)
	r := <-got
	var timeout *TimeoutError
	if !errors.As(r.err, &timeout) || bus.Code(r.err) != "TIMEOUT" {
		t.Errorf("error %v", r.err)
	}
	p.send(&protocol.InvocationResult{InvocationID: f.InvocationID, Result: json.RawMessage(`1`)}) // late: dropped
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Invoke(ctx, bus.Invocation{FunctionID: "a::b"}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestHandlersAnswer(t *testing.T) {
	t.Parallel()
	c, p := connect(t, listen(t), Options{})
	c.Handle("f::ok", bus.Raw(func(ctx context.Context, call *bus.Call) (json.RawMessage, error) {
		if call.Principal.ID != "p" || call.IdempotencyKey != "k" || bus.CallFrom(ctx) != call {
			t.Errorf("call %+v", call)
		}
		if _, ok := ctx.Deadline(); !ok {
			t.Error("the deadline is lost")
		}
		return call.Data, nil
	}))
	c.Handle("f::fails", bus.Raw(func(context.Context, *bus.Call) (json.RawMessage, error) { return nil, bus.Missing("x") }))
	c.Handle("f::panics", bus.Raw(func(context.Context, *bus.Call) (json.RawMessage, error) { panic("secret") }))
	for range 3 {
		next[*protocol.RegisterFunction](p)
	}
	for _, tt := range []struct {
		function string
		meta     string
		code     string
	}{
		{"f::ok", `{"principal":{"id":"p"},"idempotency_key":"k","deadline_ms":99999999999999}`, ""},
		{"f::fails", ``, "invalid_payload"}, {"f::panics", `7`, "invocation_failed"}, {"f::none", ``, "function_not_found"},
	} {
		call := &protocol.InvokeFunction{InvocationID: clock.Random().UUID(), FunctionID: tt.function, Data: json.RawMessage(`{"a":1}`)}
		if tt.meta != "" {
			call.Metadata = json.RawMessage(tt.meta)
		}
		p.send(call)
		r := next[*protocol.InvocationResult](p)
		switch {
		case tt.code == "" && (r.Error != nil || string(r.Result) != `{"a":1}`):
			t.Errorf("%s: %+v", tt.function, r)
		case tt.code != "" && (r.Error == nil || r.Error.Code != tt.code || strings.Contains(r.Error.Message, "secret")):
			t.Errorf("%s: %+v", tt.function, r.Error)
		}
	}
	p.send(&protocol.InvokeFunction{FunctionID: "f::fails"}) // nobody waits: no answer
	p.send(&protocol.Ping{})
	next[*protocol.Pong](p)
	c.Unhandle("f::ok")
	if u := next[*protocol.UnregisterFunction](p); u.ID != "f::ok" {
		t.Errorf("unregistered %s", u.ID)
	}
}

func TestHandleInOrder(t *testing.T) {
	t.Parallel()
	c, p := connect(t, listen(t), Options{})
	const n = 500
	got := make(chan string, n)
	c.HandleInOrder("f::line", bus.Raw(func(_ context.Context, call *bus.Call) (json.RawMessage, error) {
		got <- string(call.Data)
		return nil, nil
	}))
	next[*protocol.RegisterFunction](p)
	for i := range n {
		p.send(&protocol.InvokeFunction{FunctionID: "f::line", Data: json.RawMessage(bytesOf(i))})
	}
	for i := range n {
		if v := <-got; v != bytesOf(i) {
			t.Fatalf("call %d is %s", i, v)
		}
	}
}

func bytesOf(i int) string { b, _ := json.Marshal(i); return string(b) }

func TestCutKeepsRegistrationsAndCalls(t *testing.T) {
	t.Parallel()
	fake := clock.NewFake(time.Unix(0, 0))
	s := listen(t)
	connects := make(chan bool, 4)
	c, p := connect(t, s, Options{Clock: fake, IDs: clock.Sequence(1), OnConnect: func(_ context.Context, first bool) { connects <- first }})
	c.Handle("f::a", bus.Raw(func(context.Context, *bus.Call) (json.RawMessage, error) { return nil, nil }))
	next[*protocol.RegisterFunction](p)
	if !<-connects {
		t.Error("the first connect is not the first")
	}
	sent := invoke(c, bus.Invocation{FunctionID: "a::b"})
	inFlight := next[*protocol.InvokeFunction](p)
	s.refuse(503)
	_ = p.ws.CloseNow()
	fake.BlockUntil(2) // the call's timeout, and the pause: the loss is known
	waiting := invoke(c, bus.Invocation{FunctionID: "c::d", Timeout: time.Hour})
	fake.BlockUntil(3)
	fake.Advance(1300 * time.Millisecond)
	fake.BlockUntil(3) // the first try failed
	s.refuse(0)
	fake.Advance(2600 * time.Millisecond)
	p = <-s.peers
	defer p.ws.CloseNow()
	if r := next[*protocol.Reattach](p); r.PreviousWorkerID == "" {
		t.Errorf("reattach %+v", r)
	}
	seen := map[string]bool{}
	for len(seen) < 2 {
		switch f := p.next().(type) {
		case *protocol.RegisterFunction:
			seen["register "+f.ID] = true
		case *protocol.InvokeFunction:
			seen["invoke "+f.FunctionID] = true
			p.send(&protocol.InvocationResult{InvocationID: f.InvocationID, Result: json.RawMessage(`1`)})
		}
	}
	if !seen["register f::a"] || !seen["invoke c::d"] {
		t.Errorf("after the reconnect: %v", seen)
	}
	if r := <-waiting; r.err != nil {
		t.Errorf("a call that waited: %v", r.err)
	}
	p.send(&protocol.InvocationResult{InvocationID: inFlight.InvocationID, Result: json.RawMessage(`2`)})
	if r := <-sent; string(r.value) != "2" || r.err != nil {
		t.Errorf("a call that was sent before the cut: %s, %v", r.value, r.err)
	}
	if <-connects {
		t.Error("the second connect is the first")
	}
}

func TestOnceDoesNotComeBack(t *testing.T) {
	t.Parallel()
	c, p := connect(t, listen(t), Options{Once: true})
	_ = p.ws.CloseNow()
	<-c.Done()
	var connectErr *ConnectError
	if !errors.As(c.Err(), &connectErr) {
		t.Errorf("error %v", c.Err())
	}
	if _, err := c.Invoke(t.Context(), bus.Invocation{FunctionID: "a::b"}); err == nil {
		t.Error("a call on an ended client succeeded")
	}
}

func TestClose(t *testing.T) {
	t.Parallel()
	fake := clock.NewFake(time.Unix(0, 0))
	c, p := connect(t, listen(t), Options{Clock: fake})
	_ = p.ws.CloseNow()
	fake.BlockUntil(1) // it waits to come back
	if err := c.Close(); err != nil || !errors.Is(c.Err(), ErrClosed) {
		t.Errorf("close %v, error %v", err, c.Err())
	}
}

func TestDialErrors(t *testing.T) {
	t.Parallel()
	s := listen(t)
	for status, code := range map[int]string{401: "UNAUTHORIZED", 403: "UNAUTHORIZED", 500: "unreachable"} {
		s.refuse(status)
		_, err := Dial(t.Context(), Options{URL: s.url, Token: "secret"})
		var e *ConnectError
		if !errors.As(err, &e) || e.Status != status || bus.Code(err) != code || strings.Contains(err.Error(), "secret") {
			t.Errorf("%d: %v", status, err)
		}
	}
	if _, err := Dial(t.Context(), Options{URL: "ws://127.0.0.1:1/"}); bus.Code(err) != "unreachable" || !bus.Retryable(err) {
		t.Errorf("error %v", err)
	}
}

func TestPauseGrowsWithinBounds(t *testing.T) {
	t.Parallel()
	c := &Client{opts: Options{IDs: clock.Random()}}
	for attempt := range 20 {
		base := min(time.Second<<min(attempt, 10), 30*time.Second)
		for range 20 {
			if d := c.pause(attempt); d < base*7/10 || d > base*13/10 {
				t.Errorf("attempt %d: %v, want %v within 30 %%", attempt, d, base)
			}
		}
	}
}
