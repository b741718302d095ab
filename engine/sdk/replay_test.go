package sdk

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"
)

// inbox is what has come on a connection and was not taken yet.
type inbox struct {
	mu      sync.Mutex
	frames  []message
	closed  bool
	pongs   int
	changed chan struct{}
}

type message struct {
	text   []byte
	binary bool
}

func (b *inbox) update(f func()) {
	b.mu.Lock()
	f()
	close(b.changed)
	b.changed = make(chan struct{})
	b.mu.Unlock()
}

// take waits until pick finds something among the frames that have come, and
// removes it. When ctx ends or the connection has, it reports false.
func (b *inbox) take(ctx context.Context, pick func([]message) int) (message, bool) {
	for {
		b.mu.Lock()
		if i := pick(b.frames); i >= 0 {
			m := b.frames[i]
			b.frames = slices.Delete(b.frames, i, i+1)
			b.mu.Unlock()
			return m, true
		}
		changed, closed := b.changed, b.closed
		b.mu.Unlock()
		if closed {
			return message{}, false
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return message{}, false
		}
	}
}

// socket is a raw client.
type socket struct {
	*inbox
	ws    *websocket.Conn
	pings int
}

// rawDial opens a socket; status is what an upgrade was refused with.
func rawDial(ctx context.Context, url string, header http.Header) (s *socket, status int, err error) {
	ws, res, err := websocket.Dial(ctx, url, &websocket.DialOptions{HTTPHeader: header})
	if err != nil {
		if res != nil && res.StatusCode != http.StatusSwitchingProtocols {
			return nil, res.StatusCode, nil
		}
		return nil, 0, err
	}
	ws.SetReadLimit(-1)
	s = &socket{ws: ws, inbox: &inbox{changed: make(chan struct{})}}
	go s.read()
	return s, http.StatusSwitchingProtocols, nil
}

func (s *socket) read() {
	for {
		kind, text, err := s.ws.Read(context.Background())
		s.update(func() {
			switch {
			case err != nil:
				s.closed = true
			case string(text) == `{"type":"pong"}`:
				s.pongs++
			default:
				s.frames = append(s.frames, message{text, kind == websocket.MessageBinary})
			}
		})
		if err != nil {
			return
		}
	}
}

func (s *socket) send(ctx context.Context, text []byte, binary bool) error {
	kind := websocket.MessageText
	if binary {
		kind = websocket.MessageBinary
	}
	return s.ws.Write(ctx, kind, text)
}

// settle waits until the bus has read all that was sent on a worker socket:
// frames of one connection are read in order.
func (s *socket) settle(ctx context.Context) error {
	if err := s.send(ctx, []byte(`{"type":"ping"}`), false); err != nil {
		return err
	}
	s.pings++
	for {
		s.mu.Lock()
		done, closed, changed := s.pongs >= s.pings, s.closed, s.changed
		s.mu.Unlock()
		switch {
		case done:
			return nil
		case closed:
			return io.ErrClosedPipe
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// replay sends what the raw clients of a recording sent, and holds what comes
// back against what the engine sent.
type replay struct {
	t       testing.TB
	server  *Server
	name    string
	sockets map[string]*socket
	ids     *identities
	found   []difference
	spared  []any // frames that may come or not
	// rewrite changes what is sent beyond ids, original changes what comes back.
	rewrite, original func(text string) string
	noted             func(*replay, line) // takes the recorder's notes
	wait              func() context.Context
}

// url is the address of a recorded path.
func (r *replay) url(path string) string {
	return strings.TrimSuffix(r.server.Ready.Bus, "/") + r.ids.replace(path)
}

func (r *replay) run(before map[int]func(*replay)) {
	r.t.Helper()
	lines := recording(r.t, r.name)
	for i, l := range lines {
		if f := before[l.n]; f != nil {
			f(r)
		}
		if l.conn == "-" {
			r.noted(r, l)
		}
		if l.conn == "-" || skipped(l) {
			continue
		}
		if err := r.step(l, lines[i+1:]); err != nil {
			r.t.Fatalf("%s: %v", l.at(), err)
		}
	}
	r.leftovers()
}

// skipped are the connections of SDKs, which no one can play but they.
func skipped(l line) bool {
	switch l.name() {
	case "N", "N1", "N2", "P", "PC", "PL", "c1", "c2", "c3":
		return true
	}
	return false
}

func (r *replay) step(l line, rest []line) error {
	ctx := r.wait()
	s := r.sockets[l.conn]
	switch l.dir {
	case "open":
		return r.open(ctx, l, rest)
	case "w>e":
		if s == nil {
			return nil // of a connection that ours has ended: a difference that was noted
		}
		return r.send(ctx, s, l, rest)
	case "e>w":
		if s == nil {
			return nil
		}
		r.expect(s, l)
	case "w-ping":
		if s != nil {
			return s.ws.Ping(ctx)
		}
	case "w-close":
		if s == nil {
			return nil
		}
		var c struct{ Code int }
		if err := json.Unmarshal(l.frame, &c); err != nil {
			return err
		}
		if c.Code == 1006 {
			_ = s.ws.CloseNow() // it is to look like a lost link
			return nil
		}
		go s.ws.Close(websocket.StatusNormalClosure, "") //nolint:errcheck // the peer may be gone
	case "e-close", "e-pong", "e-http", "e-error":
	default:
		return fmt.Errorf("unknown direction %s", l.dir)
	}
	return nil
}

func (r *replay) open(ctx context.Context, l line, rest []line) error {
	var o struct{ Path string }
	if err := json.Unmarshal(l.frame, &o); err != nil {
		return err
	}
	want := http.StatusSwitchingProtocols
	for _, next := range rest {
		if next.conn == l.conn && next.dir == "e-http" {
			var h struct{ Status int }
			if err := json.Unmarshal(next.frame, &h); err != nil {
				return err
			}
			want = h.Status
		}
	}
	s, status, err := rawDial(ctx, r.url(o.Path), nil)
	if err != nil {
		return err
	}
	if status != want {
		r.note(l, "status", fmt.Sprint(want), fmt.Sprint(status))
	}
	if s != nil {
		r.sockets[l.conn] = s
	}
	return nil
}

func (r *replay) send(ctx context.Context, s *socket, l line, rest []line) error {
	text := l.whole()
	if l.size == 0 {
		text = []byte(r.rewrite(r.ids.replace(string(text))))
	}
	if err := s.send(ctx, text, l.binary); err != nil {
		return r.failed(ctx, s, l, rest, err)
	}
	if string(l.text) == `{"type":"ping"}` {
		s.pings++
		return nil
	}
	if !l.raw() {
		return nil
	}
	if err := s.settle(ctx); err != nil {
		return r.failed(ctx, s, l, rest, err)
	}
	return nil
}

// failed is for a frame that could not be sent: ours has closed the
// connection. The engine must have, too.
func (r *replay) failed(ctx context.Context, s *socket, l line, rest []line, err error) error {
	if s.take(ctx, func([]message) int { return -1 }); ctx.Err() != nil {
		return err
	}
	i := slices.IndexFunc(rest, func(next line) bool { return next.conn == l.conn })
	if i < 0 || rest[i].dir != "e-close" {
		r.note(l, "closed", "open", "closed")
	}
	return nil
}

// over reports whether the bus has closed the connection.
func (s *socket) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// expect waits for the frame that the engine sent at this place. Frames of
// several calls may come in any order.
func (r *replay) expect(s *socket, l line) {
	if permitted(l, "missing") {
		if reason, _ := find(difference{at: l.at(), path: "missing"}); reason == graced {
			r.spared = append(r.spared, r.frame(l.whole(), l.binary))
		}
		r.note(l, "missing", string(l.text), "")
		return
	}
	if string(l.text) == `{"type":"pong"}` {
		if err := s.settle(r.wait()); err != nil {
			r.note(l, "missing", string(l.text), "")
		}
		return
	}
	want := r.frame(l.whole(), l.binary)
	m, ok := s.take(r.wait(), func(frames []message) int {
		return slices.IndexFunc(frames, func(m message) bool { return r.ids.meant(want, r.frame(m.text, m.binary), l) })
	})
	if !ok {
		s.mu.Lock()
		var have []string
		for _, m := range s.frames {
			have = append(have, clip(string(m.text)))
		}
		s.mu.Unlock()
		r.note(l, "missing", string(l.text), "")
		r.t.Logf("%s: nothing like %s among\n%s", l.at(), clip(string(l.text)), strings.Join(have, "\n"))
		return
	}
	got := r.frame(m.text, m.binary)
	if notBuilt(l) {
		if !notFound(got) {
			r.note(l, "", clip(string(l.text)), r.ids.anonymous(string(m.text)))
		}
		r.t.Logf("%s is not built or comes later: not compared", l.at())
		return
	}
	for _, d := range r.ids.compare(want, got) {
		r.note(l, d.path, d.want, d.got)
	}
}

// frame is a message as a value: what it holds if it is JSON, else its text.
func (r *replay) frame(text []byte, binary bool) any {
	text = squeezed(text)
	text = []byte(r.original(string(text)))
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var v any
	if binary || dec.Decode(&v) != nil {
		return fmt.Sprintf("binary %v, %d bytes: %s", binary, len(text), clip(string(text)))
	}
	return v
}

// squeezed names the length of a long run of x, of which large messages are
// made, in place of it.
func squeezed(text []byte) []byte {
	from := bytes.Index(text, long)
	if from < 0 {
		return text
	}
	to := from
	for to < len(text) && text[to] == 'x' {
		to++
	}
	return append(fmt.Appendf(bytes.Clone(text[:from]), "<%d x>", to-from), text[to:]...)
}

var long = bytes.Repeat([]byte("x"), 1000)

// leftovers are frames that ours sent and the engine did not.
func (r *replay) leftovers() {
	for name, s := range r.sockets {
		if !s.over() && len(name) == 1 {
			_ = s.settle(r.wait()) // it may close meanwhile; then no more will come either
		}
		s.mu.Lock()
		for _, m := range s.frames {
			got := r.frame(m.text, m.binary)
			if strings.Contains(string(m.text), `"trigger":"cron"`) || slices.ContainsFunc(r.spared, func(want any) bool { return len(r.ids.try(want, got)) == 0 }) {
				continue // the clock goes on; what may come or not
			}
			l := line{recording: r.name, conn: name}
			extra := string(m.text)
			if f, ok := got.(map[string]any); ok && f["type"] == "invokefunction" {
				extra = text(withoutEnvelope(f))
			}
			r.note(l, "extra", "", r.ids.anonymous(extra))
		}
		s.mu.Unlock()
	}
}

func clip(s string) string {
	if len(s) > 400 {
		return s[:400] + "…"
	}
	return s
}
