package web_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/iii-aws/harness/engine/web"
)

// watched is a listener that knows the last deadline for reading from its only connection.
type watched struct {
	net.Listener
	mu       sync.Mutex
	deadline time.Time
}

type watchedConn struct {
	net.Conn
	of *watched
}

func (w *watched) Accept() (net.Conn, error) {
	c, err := w.Listener.Accept()
	return watchedConn{c, w}, err
}

func (c watchedConn) SetReadDeadline(t time.Time) error {
	c.of.mu.Lock()
	c.of.deadline = t
	c.of.mu.Unlock()
	return c.Conn.SetReadDeadline(t)
}

// TestAnAnswerMayTakeItsTime: the limit that the server has for reading a request ends with the request.
func TestAnAnswerMayTakeItsTime(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ method, kind, body string }{
		{"GET", "", ""}, {"POST", "application/json", "{}"}, {"POST", "text/plain", "x"},
	} {
		g := newRig(t)
		g.route(`{"api_path":"a","http_method":"` + tt.method + `"}`)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		w := &watched{Listener: l}
		g.on("f::g", func(ctx context.Context, data json.RawMessage) (string, error) {
			if got, err := g.read(ctx, data); err != nil || got != tt.body {
				t.Errorf("got %q, %v", got, err)
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			if !w.deadline.IsZero() {
				t.Errorf("%+v: the connection is read until %v", tt, w.deadline)
			}
			return "{}", nil
		})
		srv := web.HTTPServer(g.Server, slog.New(slog.DiscardHandler))
		if srv.ReadTimeout == 0 || srv.ReadHeaderTimeout == 0 || srv.IdleTimeout == 0 || srv.MaxHeaderBytes == 0 {
			t.Errorf("a limit is missing: %+v", srv)
		}
		done := make(chan error, 1)
		go func() { done <- srv.Serve(w) }()
		req, err := http.NewRequestWithContext(t.Context(), tt.method, "http://"+l.Addr().String()+"/a", strings.NewReader(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", tt.kind)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(res.Body); err != nil || string(b) != "{}" {
			t.Errorf("got %s, %v", b, err)
		}
		_ = res.Body.Close()
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		<-done
	}
}
