package gateway

import (
	"bufio"
	"net"
	"net/http"
	"sync"
)

// corkLimit is how many bytes of small frames wait for their fellows.
const corkLimit = 64 << 10

// wire is the connection under a WebSocket. It refuses frames by their headers,
// which the WebSocket library does not show, and gathers writes.
type wire struct {
	net.Conn

	// Only the reader of the socket uses these.
	frames frames
	early  []byte     // read, but not yet handed on
	broken *violation // to be reported by the next Read
	over   bool       // one was reported: what breaks a limit is skipped

	mu     sync.Mutex
	corked bool
	held   []byte
}

// Read gives the bytes of the stream without the frames that break a limit. The
// first one ends a Read with its *violation; a closing handshake may go on
// behind it.
func (w *wire) Read(p []byte) (int, error) {
	for {
		if v := w.broken; v != nil {
			w.broken, w.over = nil, true
			return 0, v
		}
		var n int
		if len(w.early) > 0 {
			n = copy(p, w.early)
			w.early = w.early[n:]
		} else {
			var err error
			if n, err = w.Conn.Read(p); n == 0 {
				return 0, err // what came with an error comes again at the next Read
			}
		}
		if kept := w.sieve(p[:n]); kept > 0 {
			return kept, nil
		}
	}
}

// sieve moves what may be handed on to the front of p.
func (w *wire) sieve(p []byte) (kept int) {
	for at := 0; at < len(p); {
		start := kept
		n, v := w.frames.skim(p[at:])
		kept += copy(p[kept:], p[at:at+n])
		at += n
		if w.frames.skipped {
			kept = start
		}
		if v != nil && !w.over {
			w.broken = v
			w.early = append(append([]byte(nil), p[at:]...), w.early...)
			return kept
		}
	}
	return kept
}

// Write sends, or holds back while corked.
func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.corked {
		return w.Conn.Write(p)
	}
	if len(w.held)+len(p) > corkLimit {
		if err := w.flush(); err != nil {
			return 0, err
		}
		if len(p) > corkLimit {
			return w.Conn.Write(p)
		}
	}
	w.held = append(w.held, p...)
	return len(p), nil
}

// cork holds small writes back until uncork.
func (w *wire) cork() {
	w.mu.Lock()
	w.corked = true
	w.mu.Unlock()
}

// uncork sends what was held back, in one write.
func (w *wire) uncork() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.corked = false
	return w.flush()
}

func (w *wire) flush() error {
	if len(w.held) == 0 {
		return nil
	}
	_, err := w.Conn.Write(w.held)
	w.held = w.held[:0]
	return err
}

// hijacker hands the library a wire in the place of the connection.
type hijacker struct {
	http.ResponseWriter
	limits limits
	wire   *wire // once hijacked
}

// Hijack implements http.Hijacker.
func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	w := &wire{Conn: conn, frames: frames{limits: h.limits}}
	if n := rw.Reader.Buffered(); n > 0 {
		early, err := rw.Reader.Peek(n)
		if err != nil {
			return nil, nil, err
		}
		w.early = append(w.early, early...)
	}
	// Small frames must not wait for the acknowledgement of earlier ones.
	if tcp, ok := conn.(interface{ SetNoDelay(bool) error }); ok {
		if err := tcp.SetNoDelay(true); err != nil {
			return nil, nil, err
		}
	}
	h.wire = w
	return w, bufio.NewReadWriter(bufio.NewReader(w), bufio.NewWriter(w)), nil
}
