package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/protocol"
)

// again is the next connection of a client whose pause is over.
func again(s *server, fake *clock.Fake, timers int) peer {
	fake.BlockUntil(timers)
	fake.Advance(2 * time.Second)
	return <-s.peers
}

func TestResultsFinishedWhileDownAreSentAfterTheRegistrations(t *testing.T) {
	t.Parallel()
	fake := clock.NewFake(time.Unix(0, 0))
	s := listen(t)
	c, p := connect(t, s, Options{Clock: fake})
	release, started := make(chan struct{}), make(chan struct{})
	c.Handle("f::slow", bus.Raw(func(ctx context.Context, _ *bus.Call) (json.RawMessage, error) {
		close(started)
		<-release
		return json.RawMessage(`5`), ctx.Err()
	}))
	next[*protocol.RegisterFunction](p)
	id := clock.Random().UUID()
	p.send(&protocol.InvokeFunction{InvocationID: id, FunctionID: "f::slow"})
	<-started
	_ = p.ws.CloseNow()
	fake.BlockUntil(1)
	close(release)
	p = again(s, fake, 1)
	defer p.ws.CloseNow()
	next[*protocol.Reattach](p)
	next[*protocol.RegisterFunction](p)
	if r := next[*protocol.InvocationResult](p); r.InvocationID != id || r.Error != nil || string(r.Result) != "5" {
		t.Errorf("result %+v", r)
	}
	// The bus delivers the call again: it does not run again.
	p.send(&protocol.InvokeFunction{InvocationID: strings.ToUpper(id), FunctionID: "f::slow"})
	if r := next[*protocol.InvocationResult](p); r.InvocationID != id || string(r.Result) != "5" {
		t.Errorf("the second result %+v", r)
	}
}

func TestDeadlineHoldsAcrossACut(t *testing.T) {
	t.Parallel()
	fake := clock.NewFake(time.Unix(0, 0))
	s := listen(t)
	c, p := connect(t, s, Options{Clock: fake})
	down := invoke(c, bus.Invocation{FunctionID: "a::b", Timeout: 500 * time.Millisecond})
	next[*protocol.InvokeFunction](p)
	back := invoke(c, bus.Invocation{FunctionID: "a::c", Timeout: time.Minute})
	next[*protocol.InvokeFunction](p)
	_ = p.ws.CloseNow()
	fake.BlockUntil(3)
	fake.Advance(500 * time.Millisecond)
	var lost *LostError
	if r := <-down; !errors.As(r.err, &lost) || !lost.Sent || bus.Retryable(r.err) {
		t.Errorf("a deadline without a connection: %v", r.err)
	}
	p = again(s, fake, 2)
	defer p.ws.CloseNow()
	next[*protocol.Reattach](p)
	fake.Advance(time.Minute)
	var timeout *TimeoutError
	if r := <-back; !errors.As(r.err, &timeout) {
		t.Errorf("a deadline on the new connection: %v", r.err)
	}
}

func TestRepeatedCallRunsOnce(t *testing.T) {
	t.Parallel()
	c, p := connect(t, listen(t), Options{})
	var runs atomic.Int64
	release := make(chan struct{})
	c.Handle("f::once", bus.Raw(func(context.Context, *bus.Call) (json.RawMessage, error) {
		<-release
		return bus.Encode(runs.Add(1))
	}))
	next[*protocol.RegisterFunction](p)
	id := clock.Random().UUID()
	for range 5 {
		p.send(&protocol.InvokeFunction{InvocationID: id, FunctionID: "f::once"})
	}
	p.send(&protocol.Ping{})
	next[*protocol.Pong](p) // it has read them all
	close(release)
	if r := next[*protocol.InvocationResult](p); string(r.Result) != "1" || runs.Load() != 1 {
		t.Errorf("result %s after %d runs", r.Result, runs.Load())
	}
}

func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	fake := clock.NewFake(time.Unix(0, 0))
	m := newMemory(fake)
	ids := clock.Sequence(1)
	first := ids.UUID()
	if fresh, _ := m.begin(first); !fresh {
		t.Error("a new call is known")
	}
	m.end(first, []byte("a"))
	m.end(first, []byte("b"))
	if fresh, answer := m.begin(first); fresh || string(answer) != "a" {
		t.Errorf("fresh %v, answer %q", fresh, answer)
	}
	large := make([]byte, rememberBytes/8)
	for range 20 {
		id := ids.UUID()
		m.begin(id)
		m.end(id, large)
	}
	if m.bytes > rememberBytes {
		t.Errorf("%d bytes are kept", m.bytes)
	}
	huge := ids.UUID()
	m.begin(huge)
	m.end(huge, make([]byte, rememberBytes))
	if fresh, answer := m.begin(huge); fresh || answer != nil {
		t.Errorf("a huge answer: fresh %v, %d bytes", fresh, len(answer))
	}
	for range rememberCalls + 10 {
		id := ids.UUID()
		m.begin(id)
		m.end(id, nil)
	}
	if len(m.calls) > rememberCalls || len(m.ended) != len(m.calls) {
		t.Errorf("%d calls, %d of them ended", len(m.calls), len(m.ended))
	}
	fake.Advance(rememberFor)
	if fresh, _ := m.begin("no uuid"); !fresh {
		t.Error("what is no id is known")
	}
	if fresh, _ := m.begin(huge); !fresh || len(m.calls) != 1 || m.bytes != 0 {
		t.Errorf("after a minute: fresh %v, %d calls, %d bytes", fresh, len(m.calls), m.bytes)
	}
}

func TestHeadersAreAskedForAtEveryConnect(t *testing.T) {
	t.Parallel()
	fake := clock.NewFake(time.Unix(0, 0))
	got := make(chan string, 4)
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got <- r.Header.Get("Authorization") + " " + r.URL.RawQuery
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		_ = ws.CloseNow()
	}))
	defer h.Close()
	n := 0
	c, err := Dial(t.Context(), Options{URL: strings.Replace(h.URL, "http", "ws", 1) + "/dev?x=1", Token: "old", Clock: fake, Headers: func(context.Context) (http.Header, error) {
		if n++; n == 2 {
			return nil, errors.New("no token now")
		}
		return http.Header{"authorization": {"Bearer " + string(rune('0'+n))}}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if g := <-got; g != "Bearer 1 chunks=1&x=1" {
		t.Errorf("first %q", g)
	}
	for range 2 { // the second attempt has no headers
		fake.BlockUntil(1)
		fake.Advance(3 * time.Second)
	}
	if g := <-got; g != "Bearer 3 chunks=1&x=1" {
		t.Errorf("then %q", g)
	}
}

func TestCloseSendsWhatIsQueued(t *testing.T) {
	t.Parallel()
	for range 20 {
		c, p := connect(t, listen(t), Options{})
		for range 30 {
			if _, err := c.Invoke(t.Context(), bus.Invocation{FunctionID: "a::void", Action: bus.Void}); err != nil {
				t.Fatal(err)
			}
		}
		closed := make(chan error, 1)
		go func() { closed <- c.Close() }()
		for range 30 {
			if f := next[*protocol.InvokeFunction](p); f.FunctionID != "a::void" {
				t.Errorf("frame %+v", f)
			}
		}
		if _, _, err := p.ws.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusNormalClosure {
			t.Errorf("the socket ended with %v", err)
		}
		if err := <-closed; err != nil {
			t.Error(err)
		}
		if _, err := c.Invoke(t.Context(), bus.Invocation{FunctionID: "a::b"}); !errors.Is(err, ErrClosed) {
			t.Errorf("a call on a closed client: %v", err)
		}
	}
}

func TestLargeFramesTravelInChunks(t *testing.T) {
	t.Parallel()
	c, p := connect(t, listen(t), Options{})
	p.ws.SetReadLimit(protocol.GatewayMaxFrame)
	large, err := bus.Encode(strings.Repeat(`"ü\😀`, 20_000))
	if err != nil {
		t.Fatal(err)
	}
	got := invoke(c, bus.Invocation{FunctionID: "a::b", Data: large})
	asm := protocol.NewAssembler(time.Now, nil)
	var text []byte
	for text == nil {
		if text, err = asm.Add(next[*protocol.Chunk](p)); err != nil {
			t.Fatal(err)
		}
	}
	f, err := protocol.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	call := f.(*protocol.InvokeFunction)
	if string(call.Data) != string(large) {
		t.Errorf("%d of %d bytes came through", len(call.Data), len(large))
	}
	answer, err := protocol.Encode(&protocol.InvocationResult{InvocationID: call.InvocationID, FunctionID: "a::b", Result: large})
	if err != nil {
		t.Fatal(err)
	}
	chunks, err := protocol.Split(answer, "m1")
	if err != nil {
		t.Fatal(err)
	}
	for i := range chunks { // last first, each twice
		for range 2 {
			if err := p.ws.Write(t.Context(), websocket.MessageText, chunks[len(chunks)-1-i]); err != nil {
				t.Fatal(err)
			}
		}
	}
	if r := <-got; string(r.value) != string(large) || r.err != nil {
		t.Errorf("%d of %d bytes came back, %v", len(r.value), len(large), r.err)
	}
	huge := json.RawMessage(`"` + strings.Repeat("x", protocol.MaxChunkedMessage) + `"`)
	if _, err := c.Invoke(t.Context(), bus.Invocation{FunctionID: "a::b", Data: huge}); !errors.Is(err, bus.ErrTooLarge) {
		t.Errorf("a call too large: %v", err)
	}
	c.Handle("f::huge", bus.Raw(func(context.Context, *bus.Call) (json.RawMessage, error) { return huge, nil }))
	next[*protocol.RegisterFunction](p)
	p.send(&protocol.InvokeFunction{InvocationID: clock.Random().UUID(), FunctionID: "f::huge"})
	if r := next[*protocol.InvocationResult](p); r.Error == nil || r.Error.Code != protocol.CodeValueTooLarge {
		t.Errorf("a result too large: %+v", r)
	}
	c.Handle("f::broken", bus.Raw(func(context.Context, *bus.Call) (json.RawMessage, error) { return json.RawMessage(`{`), nil }))
	next[*protocol.RegisterFunction](p)
	p.send(&protocol.InvokeFunction{InvocationID: clock.Random().UUID(), FunctionID: "f::broken"})
	if r := next[*protocol.InvocationResult](p); r.Error == nil || r.Error.Code != protocol.CodeSerialization {
		t.Errorf("a result that is no JSON: %+v", r)
	}
}

func TestUnfinishedChunksAreDroppedInTime(t *testing.T) {
	t.Parallel()
	fake := clock.NewFake(time.Unix(0, 0))
	lost := make(chan *protocol.ChunkError, 1)
	ended := make(chan struct{})
	p := newPieces(t.Context(), fake, func(f func()) {
		go func() { defer close(ended); f() }()
	}, func(e *protocol.ChunkError) { lost <- e })
	if text, err := p.add(&protocol.Chunk{ID: "a", N: 1, Of: 2, Data: "x"}); text != nil || err != nil {
		t.Fatal(text, err)
	}
	fake.BlockUntil(1)
	fake.Advance(protocol.ChunkTTL)
	if e := <-lost; e.ID != "a" || e.Kind != protocol.ChunkExpired {
		t.Errorf("lost %+v", e)
	}
	<-ended
}
