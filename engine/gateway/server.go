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
	// NamespaceGrace is how long the namespace of a connection waits for an announce; AnnounceGrace if 0.
	NamespaceGrace time.Duration
	// Origins of pages that may connect without a token.
	Origins []string
	// Strict has the server behave as API Gateway; nil: it does not.
	Strict *Strict
	// Telemetry takes the binary messages of telemetry that come in on worker
	// sockets, in the order they came: kind is OTLP, MTRC or LOGS, payload
	// OTLP/JSON. The socket waits for it. Nil: they are dropped.
	Telemetry func(connection, workerID string, kind string, payload []byte)
}

// HTTPServer serves a handler to peers that may be hostile: one that does not
// send its request, or its next one, within HandshakeTimeout is cut.
func HTTPServer(h http.Handler) *http.Server {
	return &http.Server{Handler: h, ReadHeaderTimeout: HandshakeTimeout, IdleTimeout: HandshakeTimeout, MaxHeaderBytes: 64 << 10}
}

// Server upgrades requests and serves their sockets.
type Server struct {
	cfg  Config
	base context.Context
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu     sync.Mutex
	conns  map[string]*conn
	count  uint64 // of all connections ever
	closed bool
}

// New makes a server. Serve it as an http.Handler; Close it when done.
func New(cfg Config) *Server {
	if cfg.Strict != nil {
		cfg.RequireToken = true
	}
	if cfg.NamespaceGrace == 0 {
		cfg.NamespaceGrace = AnnounceGrace
	}
	s := &Server{cfg: cfg, conns: map[string]*conn{}}
	s.base, s.stop = context.WithCancel(context.Background())
	cfg.Tokens.OnRevoke(s.revoke)
	return s
}

// ServeHTTP upgrades one request and serves its socket until it ends.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != s.path() {
		status := http.StatusNotFound
		if s.cfg.Strict != nil {
			status = http.StatusForbidden
		}
		http.Error(w, http.StatusText(status), status)
		return
	}
	who, status, err := s.admit(r)
	if err != nil {
		s.cfg.Logger.Warn("connection refused", "remote", r.RemoteAddr, "status", status, "reason", redact.Text(err.Error()))
		http.Error(w, http.StatusText(status), status)
		return
	}
	options := &websocket.AcceptOptions{InsecureSkipVerify: true, CompressionMode: websocket.CompressionDisabled}
	if who.subprotocol != "" {
		options.Subprotocols = []string{who.subprotocol}
	}
	// Origins were judged by admit, which knows of tokens.
	under := &hijacker{ResponseWriter: w, limits: s.limits()}
	ws, err := websocket.Accept(under, r, options)
	if err != nil {
		s.cfg.Logger.Warn("upgrade failed", "remote", r.RemoteAddr, "error", err)
		return
	}
	ws.SetReadLimit(-1) // the wire has the limits
	c := s.newConn(ws, under.wire, who.grant, r.RemoteAddr, r.URL.Query().Get("chunks") == "1")
	if !s.add(c) {
		c.close(websocket.StatusGoingAway, "shutting down")
		return
	}
	defer s.remove(c)
	// A token that was revoked before the server knew of its connection.
	if err := s.cfg.Tokens.Live(c.ctx, who.grant); err != nil {
		s.cfg.Logger.Warn("connection refused", "remote", r.RemoteAddr, "reason", redact.Text(err.Error()))
		c.close(websocket.StatusPolicyViolation, "token revoked")
		return
	}
	c.serve()
}

func (s *Server) add(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.conns[c.id] = c
	c.ordinal = s.count
	s.count++
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

// revoke closes the connections of a token. They are heard no more when it
// returns; their closing handshakes go on.
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
		c.revoked.Store(true)
		c.shut(websocket.StatusPolicyViolation, "token revoked")
		go c.close(websocket.StatusPolicyViolation, "token revoked")
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
