package channel

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/iii-aws/harness/engine/bus"
)

// site is a server of sockets over a broker.
type site struct {
	t       *testing.T
	local   *Local
	sockets *Sockets
	server  *httptest.Server
}

func newSite(t *testing.T, change ...func(*SocketConfig)) *site {
	t.Helper()
	s := &site{t: t}
	s.local, _ = newLocal()
	cfg := SocketConfig{Broker: s.local}
	for _, f := range change {
		f(&cfg)
	}
	s.sockets = NewSockets(cfg)
	s.server = httptest.NewServer(s.sockets)
	t.Cleanup(func() {
		if err := s.sockets.Close(context.Background()); err != nil {
			t.Error(err)
		}
		s.server.Close()
	})
	return s
}

func (s *site) create(buffer int) (w, r Ref) {
	s.t.Helper()
	w, r, err := s.local.Create(s.t.Context(), buffer)
	if err != nil {
		s.t.Fatal(err)
	}
	return w, r
}

func (s *site) url(ref Ref) string {
	return "ws" + strings.TrimPrefix(s.server.URL, "http") + SocketPath + ref.ChannelID + "?key=" + ref.AccessKey + "&dir=" + string(ref.Direction)
}

func (s *site) dial(ref Ref) *websocket.Conn {
	s.t.Helper()
	ws, _, err := websocket.Dial(s.t.Context(), s.url(ref), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	ws.SetReadLimit(-1)
	s.t.Cleanup(func() { _ = ws.CloseNow() })
	return ws
}

func (s *site) send(ws *websocket.Conn, kind websocket.MessageType, data string) {
	s.t.Helper()
	if err := ws.Write(s.t.Context(), kind, []byte(data)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) gets(ws *websocket.Conn, kind websocket.MessageType, data string) {
	s.t.Helper()
	k, b, err := ws.Read(s.t.Context())
	if err != nil || k != kind || string(b) != data {
		s.t.Fatalf("got %v %.40q, %v; want %v %.40q", k, b, err, kind, data)
	}
}

// ends waits for the end of a socket and gives the code of its Close.
func (s *site) ends(ws *websocket.Conn) websocket.StatusCode {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 20*time.Second)
	defer cancel()
	for {
		if _, _, err := ws.Read(ctx); err != nil {
			if ctx.Err() != nil {
				s.t.Fatal("the socket did not end")
			}
			return websocket.CloseStatus(err)
		}
	}
}

// TestRecording19Relay: text stays text, binary binary, in order; a Close of
// the writer is answered with its own code, the reader's has none.
func TestRecording19Relay(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	wref, rref := s.create(16)
	w := s.dial(wref) // writer first
	long := strings.Repeat("\a", 64<<10)
	s.send(w, websocket.MessageText, "hello")
	s.send(w, websocket.MessageText, `{"a":1}`)
	s.send(w, websocket.MessageBinary, long)
	s.send(w, websocket.MessageBinary, "")
	r := s.dial(rref)
	s.gets(r, websocket.MessageText, "hello")
	s.gets(r, websocket.MessageText, `{"a":1}`)
	s.gets(r, websocket.MessageBinary, long)
	s.gets(r, websocket.MessageBinary, "")
	s.send(w, websocket.MessageText, "three")
	if err := w.Close(websocket.StatusNormalClosure, "stream_complete"); err != nil {
		t.Errorf("the Close is not answered: %v", err)
	}
	s.gets(r, websocket.MessageText, "three")
	if code := s.ends(r); code != websocket.StatusNoStatusRcvd {
		t.Errorf("the reader is closed with %d, want none", code)
	}
	if n := len(s.local.open); n != 0 {
		t.Errorf("%d channels are kept", n)
	}
}

func TestRecording19Refusals(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	wref, rref := s.create(2)
	wrong := rref
	wrong.AccessKey = "bad"
	unknown := Ref{ChannelID: "9de517db-90bf-4af8-8d56-031bc3558298", AccessKey: "x", Direction: Read}
	noKey := rref
	noKey.AccessKey = ""
	sideways := rref
	sideways.Direction = "sideways"
	for _, tt := range []struct {
		ref    Ref
		status int
	}{{wrong, 404}, {unknown, 404}, {noKey, 400}, {sideways, 400}} {
		_, res, err := websocket.Dial(t.Context(), s.url(tt.ref), nil)
		if err == nil || res == nil || res.StatusCode != tt.status {
			t.Errorf("%+v: %v, want %d", tt.ref, err, tt.status)
		}
	}
	s.dial(wref)
	s.dial(rref)
	for _, ref := range []Ref{wref, rref} { // each end is taken once
		if code := s.ends(s.dial(ref)); code != websocket.StatusNoStatusRcvd {
			t.Errorf("%s a second time: closed with %d", ref.Direction, code)
		}
	}
	// What is no upgrade takes nothing.
	wref, rref = s.create(2)
	res, err := http.Get("http" + strings.TrimPrefix(s.url(wref), "ws"))
	if err != nil || res.StatusCode != http.StatusUpgradeRequired {
		t.Errorf("a plain request: %v, %v", res.Status, err)
	}
	w, r := s.dial(wref), s.dial(rref)
	s.send(w, websocket.MessageText, "x")
	s.gets(r, websocket.MessageText, "x")
}

// TestRecording28ReaderLeaves: the writer's socket is dropped at its next
// message.
func TestRecording28ReaderLeaves(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	wref, rref := s.create(64)
	w, r := s.dial(wref), s.dial(rref)
	s.send(w, websocket.MessageText, "one")
	s.gets(r, websocket.MessageText, "one")
	if err := r.CloseNow(); err != nil {
		t.Fatal(err)
	}
	failed := make(chan struct{})
	go func() {
		defer close(failed)
		for w.Write(context.Background(), websocket.MessageText, []byte("x")) == nil {
			// until the server has seen that the reader is gone
		}
	}()
	select {
	case <-failed:
	case <-time.After(20 * time.Second):
		t.Fatal("the writer goes on without a reader")
	}
}

// TestRecording28AbortedWriter: what it wrote is delivered, and the end looks
// like any other. A channel outlives who made it.
func TestRecording28AbortedWriter(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	wref, rref := s.create(64)
	w := s.dial(wref)
	s.send(w, websocket.MessageText, "after owner left")
	if err := w.CloseNow(); err != nil {
		t.Fatal(err)
	}
	r := s.dial(rref)
	s.gets(r, websocket.MessageText, "after owner left")
	if code := s.ends(r); code != websocket.StatusNoStatusRcvd {
		t.Errorf("closed with %d", code)
	}
}

// TestSlowReaderMakesTheWriterWait: a channel holds no more than its buffer.
func TestSlowReaderMakesTheWriterWait(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	wref, rref := s.create(2)
	w := s.dial(wref)
	const n = 64
	data := strings.Repeat("x", 1<<20)
	done := make(chan error, 1)
	go func() {
		for range n {
			if err := w.Write(context.Background(), websocket.MessageBinary, []byte(data)); err != nil {
				done <- err
				return
			}
		}
		done <- w.Close(websocket.StatusNormalClosure, "")
	}()
	select {
	case err := <-done:
		t.Fatalf("64 MiB went into a buffer of two messages: %v", err)
	case <-time.After(200 * time.Millisecond): // long enough for what must not happen
	}
	r := s.dial(rref)
	for range n {
		s.gets(r, websocket.MessageBinary, data)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestManySmallOrFewLarge: the buffer counts messages, and beyond that bytes.
func TestManySmallOrFewLarge(t *testing.T) {
	t.Parallel()
	l, _ := newLocal()
	w, r := open(t, l, MaxBuffer)
	large := make([]byte, maxQueued)
	if err := w.Write(t.Context(), Message{Data: make([]byte, 2*maxQueued)}); err != nil {
		t.Fatal(err) // one message always fits
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Write(ctx, Message{Data: []byte("x")}); !errors.Is(err, context.Canceled) {
		t.Errorf("a message beyond the bytes: %v", err)
	}
	if _, err := r.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Write(t.Context(), Message{Data: large[:len(large)-1]}), w.Write(t.Context(), Message{Data: []byte("x")})); err != nil {
		t.Error(err)
	}
}

func TestOwnerHasSoManyChannels(t *testing.T) {
	t.Parallel()
	l, c := newLocal()
	call := &bus.Call{Connection: "c1", Principal: bus.Principal{ID: "ann"}}
	create := Endpoints(l)[FunctionCreate].Handle
	for range MaxOwned {
		if _, err := create(t.Context(), call); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := create(t.Context(), call); bus.Code(err) != "channels_exhausted" {
		t.Errorf("one more: %v", err)
	}
	for _, other := range []*bus.Call{{Connection: "c2", Principal: bus.Principal{ID: "bob"}}, {Principal: bus.Principal{ID: "ann"}}} {
		if _, err := create(t.Context(), other); err != nil {
			t.Errorf("%+v: %v", other, err)
		}
	}
	c.Advance(OpenWithin)
	l.Sweep()
	if len(l.open) != 0 || len(l.owned) != 0 {
		t.Errorf("%d channels and %d owners are kept", len(l.open), len(l.owned))
	}
	if _, err := create(t.Context(), call); err != nil {
		t.Errorf("after the sweep: %v", err)
	}
}

func TestSocketsAdmitAndClose(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c *SocketConfig) {
		c.Admit = func(r *http.Request) (int, error) {
			if r.Header.Get("Origin") != "" {
				return http.StatusForbidden, errors.New("foreign")
			}
			return 0, nil
		}
	})
	wref, rref := s.create(2)
	_, res, err := websocket.Dial(t.Context(), s.url(wref), &websocket.DialOptions{HTTPHeader: http.Header{"Origin": {"http://evil.example"}}})
	if err == nil || res.StatusCode != http.StatusForbidden {
		t.Errorf("a foreign page: %v", err)
	}
	r := s.dial(rref)
	if err := s.sockets.Close(t.Context()); err != nil {
		t.Error(err)
	}
	s.ends(r)
	_, res, err = websocket.Dial(t.Context(), s.url(wref), nil)
	if err == nil || res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("after the end: %v", err)
	}
}

// TestTooLargeAMessageEndsTheChannel: and nothing of it arrives.
func TestTooLargeAMessageEndsTheChannel(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	wref, rref := s.create(2)
	w := s.dial(wref)
	s.send(w, websocket.MessageText, "one")
	_ = w.Write(t.Context(), websocket.MessageBinary, bytes.Repeat([]byte("x"), maxSocketMessage+1)) // may be cut off
	r := s.dial(rref)
	s.gets(r, websocket.MessageText, "one")
	if code := s.ends(r); code != websocket.StatusNoStatusRcvd {
		t.Errorf("closed with %d", code)
	}
	if code := s.ends(w); code != websocket.StatusMessageTooBig && code != -1 {
		t.Errorf("the writer: %d", code)
	}
}
