package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/iii-aws/harness/engine/access"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/redact"
	"github.com/iii-aws/harness/engine/router"
)

// Times of a connection.
const (
	HandshakeTimeout = 10 * time.Second
	AnnounceGrace    = 5 * time.Second
	WriteTimeout     = 30 * time.Second
)

// Config is what a Server needs.
type Config struct {
	Router *router.Router
	Tokens *access.Tokens
	Clock  clock.Clock
	IDs    clock.IDs
	Logger *slog.Logger
	// RequireToken ends the local exception.
	RequireToken bool
	// Origins of pages that may connect without a token.
	Origins []string
}

// Server upgrades requests and serves their sockets.
type Server struct {
	cfg  Config
	base context.Context
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu     sync.Mutex
	conns  map[string]*conn
	closed bool
}

// New makes a server. Serve it as an http.Handler; Close it when done.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg, conns: map[string]*conn{}}
	s.base, s.stop = context.WithCancel(context.Background())
	cfg.Tokens.OnRevoke(s.revoke)
	return s
}

// ServeHTTP upgrades one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/" {
		http.Error(w, "not found", http.StatusNotFound)
		return
	}
	grant, status, err := s.admit(r)
	if err != nil {
		s.cfg.Logger.Warn("connection refused", "remote", r.RemoteAddr, "status", status, "reason", redact.Text(err.Error()))
		http.Error(w, http.StatusText(status), status)
		return
	}
	// Origins were judged by admit, which knows of tokens.
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true, CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		s.cfg.Logger.Warn("upgrade failed", "remote", r.RemoteAddr, "error", err)
		return
	}
	ws.SetReadLimit(protocol.MaxMessage)
	c := s.newConn(ws, grant, r.RemoteAddr)
	if !s.add(c) {
		c.close(websocket.StatusGoingAway, "shutting down")
		return
	}
	defer s.remove(c)
	c.serve()
}

func (s *Server) add(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.conns[c.id] = c
	s.wg.Add(1)
	return true
}

func (s *Server) remove(c *conn) {
	s.mu.Lock()
	delete(s.conns, c.id)
	s.mu.Unlock()
	s.wg.Done()
}

// find is the connection with an id, nil if it is gone.
func (s *Server) find(id string) *conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns[id]
}

// revoke closes the connections of a token.
func (s *Server) revoke(tokenID string) {
	s.mu.Lock()
	var gone []*conn
	for _, c := range s.conns {
		if c.grant.TokenID == tokenID {
			gone = append(gone, c)
		}
	}
	s.mu.Unlock()
	for _, c := range gone {
		c.close(websocket.StatusPolicyViolation, "token revoked")
	}
}

// Close closes every socket with 1001 and waits for them until ctx ends.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	conns := make([]*conn, 0, len(s.conns))
	for _, c := range s.conns {
		conns = append(conns, c)
	}
	s.mu.Unlock()
	for _, c := range conns {
		go c.close(websocket.StatusGoingAway, "shutting down")
	}
	done := make(chan struct{})
	go func() {
		s.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		s.stop()
		return nil
	case <-ctx.Done():
		s.stop() // cuts what did not close
		<-done
		return errors.Join(errors.New("gateway: sockets were cut"), ctx.Err())
	}
}
