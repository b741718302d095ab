package gateway

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/iii-aws/harness/engine/access"
	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
)

func TestOnePongPerPingAndAProperClose(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	p := r.raw("/", "")
	p.message()
	for i := range 3 {
		p.write(rawBytes(true, 9, fmt.Appendf(nil, "p%d", i)))
	}
	p.text("") // an empty text is ignored
	p.text(`{"type":"ping"}`)
	for i := range 3 {
		if f := p.next(); f.op != 10 || string(f.data) != fmt.Sprintf("p%d", i) {
			t.Errorf("frame %d: %+v", i, f)
		}
	}
	if text, _ := p.message(); text != `{"type":"pong"}` {
		t.Errorf("frame %s", text)
	}
	p.write(rawBytes(true, 8, []byte{0x03, 0xe8}))
	if f := p.next(); f.op != 8 || !bytes.Equal(f.data, []byte{0x03, 0xe8}) {
		t.Errorf("the answer to a Close: %+v", f)
	}
	if _, err := p.read(); err != io.EOF {
		t.Errorf("behind the Close: %v", err)
	}
}

func TestBinaryFramesThatHoldJSONAreTaken(t *testing.T) {
	t.Parallel()
	type telemetry struct{ kind, payload string }
	got := make(chan telemetry, 3)
	r := newRig(t, func(c *Config) {
		c.Telemetry = func(connection, workerID, kind string, payload []byte) {
			if connection == "" || workerID == "" {
				t.Error("nobody sent it")
			}
			got <- telemetry{kind, string(payload)}
		}
	})
	p := r.raw("/", "")
	p.message()
	for _, data := range []string{`OTLP{"resourceSpans":[]}`, "MTRC", "LOGS{", "XXXX", "OTL", "\xff\x00"} {
		p.write(rawBytes(true, 2, []byte(data)))
	}
	p.text(`OTLP{"resourceSpans":[]}`) // a text is none
	p.write(rawBytes(true, 2, []byte(`{"type":"ping"}`)))
	if text, _ := p.message(); text != `{"type":"pong"}` {
		t.Errorf("frame %s", text)
	}
	for _, want := range []telemetry{{"OTLP", `{"resourceSpans":[]}`}, {"MTRC", ""}, {"LOGS", "{"}} {
		if g := <-got; g != want {
			t.Errorf("got %+v, want %+v", g, want)
		}
	}
	if len(got) > 0 {
		t.Error("more was taken for telemetry")
	}
}

// countingConn counts writes.
type countingConn struct {
	net.Conn
	mu     sync.Mutex
	writes []int
}

func (c *countingConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes = append(c.writes, len(p))
	return len(p), nil
}

func TestFramesThatAreReadyLeaveInOneWrite(t *testing.T) {
	t.Parallel()
	conn := &countingConn{}
	w := &wire{Conn: conn}
	write := func(n int) {
		t.Helper()
		if _, err := w.Write(make([]byte, n)); err != nil {
			t.Fatal(err)
		}
	}
	write(5)
	w.cork()
	write(10)
	write(20)
	if err := w.uncork(); err != nil {
		t.Fatal(err)
	}
	w.cork()
	write(10)
	write(corkLimit + 1) // too much to hold
	write(corkLimit)
	write(1)
	if err := w.uncork(); err != nil {
		t.Fatal(err)
	}
	write(7)
	if got, want := fmt.Sprint(conn.writes), fmt.Sprint([]int{5, 30, 10, corkLimit + 1, corkLimit, 1, 7}); got != want {
		t.Errorf("writes %s, want %s", got, want)
	}
}

func TestQueuedMessagesKeepTheirOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	p := r.raw("/", "")
	p.message()
	c := r.only()
	const n = 1000
	go func() {
		for i := range n {
			if err := c.Send(context.Background(), &protocol.UnregisterTrigger{ID: fmt.Sprint(i), TriggerType: "x"}); err != nil {
				t.Error(err)
			}
		}
	}()
	for i := range n {
		if text, _ := p.message(); !strings.Contains(text, fmt.Sprintf(`"id":"%d"`, i)) {
			t.Fatalf("message %d is %s", i, text)
		}
	}
}

func TestHalfARequestAndHalfAFrame(t *testing.T) {
	t.Parallel()
	srv := HTTPServer(http.NotFoundHandler())
	if srv.ReadHeaderTimeout != HandshakeTimeout || srv.IdleTimeout != HandshakeTimeout {
		t.Errorf("timeouts %v, %v", srv.ReadHeaderTimeout, srv.IdleTimeout)
	}
	slow := httptest.NewUnstartedServer(http.NotFoundHandler())
	slow.Config = srv
	srv.ReadHeaderTimeout = 50 * time.Millisecond // instead of ten seconds
	slow.Start()
	defer slow.Close()
	conn, err := net.Dial("tcp", slow.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x")
	if _, err := io.ReadAll(conn); err != nil { // ends when the server cuts it
		t.Error(err)
	}

	r := newRig(t, nil)
	p := r.raw("/", "")
	p.message()
	p.write(rawBytes(false, 1, []byte(`{"type":`)))
	p.write(rawBytes(true, 9, nil)) // a control frame within a message
	if f := p.next(); f.op != 10 {
		t.Errorf("frame %+v", f)
	}
	p.write(rawBytes(true, 0, []byte(`"ping"}`))[:4])
	_ = p.conn.Close()
	for {
		r.server.mu.Lock()
		n := len(r.server.conns)
		r.server.mu.Unlock()
		if n == 0 {
			break // the connection ended, and with it its goroutines
		}
	}
}

func TestRevokedPeerIsHeardNoMore(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	tok, secret, err := r.tokens.Create(t.Context(), access.Token{Role: bus.RoleOperator})
	if err != nil {
		t.Fatal(err)
	}
	p := r.raw("/", secret)
	p.message()
	revoked := make(chan error, 1)
	go func() {
		_, err := r.tokens.Revoke(context.Background(), tok.ID)
		revoked <- err
	}()
	if f := p.next(); f.op != 8 {
		t.Fatalf("frame %+v", f)
	}
	p.text(invoke("echo::who")) // it ignores the Close
	p.write(rawBytes(true, 8, []byte{0x03, 0xf0}))
	if f, err := p.read(); err == nil {
		t.Errorf("it was answered: %+v", f)
	}
	if err := <-revoked; err != nil {
		t.Fatal(err)
	}
}

func TestExpiredTokenGetsNothingMore(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	p := r.raw("/", r.token(bus.RoleClient, func(k *access.Token) { k.ExpiresAt = r.clock.Now().Add(time.Minute).UnixMilli() }))
	p.message()
	c := r.only()
	r.clock.Advance(time.Minute)
	if err := c.Send(t.Context(), &protocol.Ping{}); err != bus.ErrGone {
		t.Errorf("error %v, want gone", err)
	}
	if code := p.closed(); code != int(websocket.StatusPolicyViolation) {
		t.Errorf("closed with %d", code)
	}
}

func TestTooManyRegistrationsBeforeAnAnnounce(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	p := r.raw("/", "")
	p.message()
	frame := rawBytes(true, 1, []byte(`{"type":"unregistertrigger","id":"x"}`))
	p.write(bytes.Repeat(frame, maxWaiting))
	p.text(`{"type":"registertrigger","id":"t","trigger_type":"stream","function_id":"a::b","config":7}`)
	if text, _ := p.message(); !strings.Contains(text, "triggerregistrationresult") { // the clock stands still
		t.Errorf("frame %s", text)
	}
}

// piecewise gives a stream in pieces of a size.
type piecewise struct {
	net.Conn
	rest []byte
	step int
}

func (p *piecewise) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.rest[:min(len(p.rest), p.step)])
	p.rest = p.rest[n:]
	return n, nil
}

// FuzzWire gives the bytes of a stream to a wire in pieces of any size. What it
// hands on is the stream, up to the first frame that breaks a limit.
func FuzzWire(f *testing.F) {
	f.Add([]byte("\x81\x83\x00\x00\x00\x00abc\x89\x80\x00\x00\x00\x00"), uint8(3), uint8(16))
	f.Add(rawBytes(true, 1, make([]byte, 200)), uint8(1), uint8(255))
	f.Add(append(rawBytes(false, 1, make([]byte, 90)), rawBytes(true, 0, make([]byte, 90))...), uint8(7), uint8(100))
	f.Add([]byte("\x89\xff\xff\xff\xff\xff\xff\xff\xff\xff123\x81\x01x"), uint8(4), uint8(0))
	f.Add([]byte("\x82\xff\xff\xff\xff\xff\xff\xff\xff\xff"), uint8(2), uint8(9))
	f.Fuzz(func(t *testing.T, stream []byte, step, limit uint8) {
		w := &wire{Conn: &piecewise{rest: stream, step: int(step) + 1}, frames: frames{limits: limits{frame: int(limit), message: 2 * int(limit)}}}
		got, err := io.ReadAll(w)
		broken, ok := err.(*violation)
		if err != nil && !ok {
			t.Fatal(err)
		}
		want, bad := permitted(stream, int(limit))
		if bad != (broken != nil) || !bytes.HasPrefix(stream, got) || len(got) < want || !bad && len(got) != len(stream) {
			t.Errorf("%d of %d bytes, %v; want %d, %v", len(got), len(stream), err, want, bad)
		}
		if bad && len(got) > want+10 {
			t.Errorf("%d bytes of a frame that breaks a limit came through", len(got)-want)
		}
	})
}

// permitted is how much of a stream comes before the first frame that breaks a
// limit, and whether there is one.
func permitted(stream []byte, limit int) (n int, bad bool) {
	message := uint64(0)
	for at := 0; ; {
		if len(stream)-at < 2 || len(stream)-at < headLen(stream[at:]) {
			return len(stream), false
		}
		head := stream[at : at+headLen(stream[at:])]
		size := uint64(head[1] & 0x7f)
		if len(head) > 2 {
			size = 0
			for _, b := range head[2:] {
				size = size<<8 | uint64(b)
			}
		}
		if op := head[0] & 0x0f; op < 8 {
			if op != 0 {
				message = 0
			}
			if size > uint64(limit) || message+size > uint64(2*limit) {
				return at, true
			}
			message += size
		}
		masked := uint64(head[1]>>7) * 4
		if left := uint64(len(stream) - at - len(head)); size > left || size+masked > left {
			return len(stream), false
		}
		at += len(head) + int(masked+size)
	}
}
