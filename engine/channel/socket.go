package channel

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/iii-aws/harness/engine/internal/lifetime"
	"github.com/iii-aws/harness/engine/protocol"
)

// SocketPath is below which the ends of channels are opened:
// SocketPath + id + ?key=<key>&dir=read|write.
const SocketPath = "/ws/channels/"

const (
	// maxSocketMessage is the largest message of a writing socket.
	maxSocketMessage = 16 << 20
	// socketWrite is how long a reading socket may take a message.
	socketWrite = 5 * time.Minute
)

// SocketConfig is what Sockets need.
type SocketConfig struct {
	Broker Broker
	Logger *slog.Logger
	// Admit refuses requests that must not even try, such as those of foreign
	// pages; the status is for a refused one. Nil admits all: the key of a
	// channel is its guard.
	Admit func(*http.Request) (status int, err error)
	// Edge makes what the text messages of one channel go through on their way
	// from a writer in the process to a reading socket; nil changes nothing.
	Edge func() func(text []byte) []byte
}

// Sockets serves the ends of channels as WebSockets. Messages are relayed one
// to one, in order, text as text and binary as binary; a full channel makes its
// writer wait. Each end is taken by its first socket; a second one is closed at
// once. A writer that closes, or is lost, ends the channel: its reader gets what
// was written, then a Close without a code. A reader that goes makes the
// writer's next message fail, and its socket is dropped.
type Sockets struct {
	cfg  SocketConfig
	life *lifetime.Lifetime
}

// NewSockets makes a handler. Close it when done.
func NewSockets(cfg SocketConfig) *Sockets {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Sockets{cfg, lifetime.New()}
}

// Close cuts every socket and waits for their end until ctx ends.
func (s *Sockets) Close(ctx context.Context) error { return s.life.Close(ctx) }

// ServeHTTP opens an end. A bad request is a 400, an unknown channel or a wrong
// key a 404.
func (s *Sockets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.life.Begin() {
		http.Error(w, "shutting down", http.StatusServiceUnavailable)
		return
	}
	defer s.life.End()
	if s.cfg.Admit != nil {
		if status, err := s.cfg.Admit(r); err != nil {
			s.cfg.Logger.Warn("channel refused", "remote", r.RemoteAddr, "status", status, "reason", err)
			http.Error(w, http.StatusText(status), status)
			return
		}
	}
	query := r.URL.Query()
	ref := Ref{ChannelID: strings.TrimPrefix(r.URL.Path, SocketPath), AccessKey: query.Get("key"), Direction: protocol.Direction(query.Get("dir"))}
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		http.Error(w, "a WebSocket is expected", http.StatusUpgradeRequired)
		return
	}
	if ref.AccessKey == "" || (ref.Direction != Read && ref.Direction != Write) {
		http.Error(w, "key and dir=read|write are required", http.StatusBadRequest)
		return
	}
	var reader Reader
	var writer Writer
	var err error
	if ref.Direction == Read {
		reader, err = s.cfg.Broker.OpenReader(ref)
	} else {
		writer, err = s.cfg.Broker.OpenWriter(ref)
	}
	switch {
	case errors.Is(err, ErrUnknown):
		http.Error(w, "no such channel", http.StatusNotFound)
		return
	case err != nil && !errors.Is(err, ErrTaken):
		s.cfg.Logger.Error("channel not opened", "error", err)
		http.Error(w, "the channel could not be opened", http.StatusInternalServerError)
		return
	}
	ws, acceptErr := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true, CompressionMode: websocket.CompressionDisabled})
	switch {
	case acceptErr != nil:
		s.cfg.Logger.Warn("channel socket not upgraded", "remote", r.RemoteAddr, "error", acceptErr)
	case err != nil: // taken
		s.shut(ws)
	}
	switch {
	case reader != nil:
		s.read(ws, reader)
	case writer != nil:
		s.write(ws, writer)
	}
}

// shut closes a socket as a channel ends: without a code.
func (s *Sockets) shut(ws *websocket.Conn) {
	if err := ws.Close(websocket.StatusNoStatusRcvd, ""); err != nil {
		s.cfg.Logger.Debug("channel socket not closed", "error", err)
	}
}

// read relays a channel to its reader. Without a socket it leaves at once.
func (s *Sockets) read(ws *websocket.Conn, r Reader) {
	defer func() {
		if err := r.Close(); err != nil {
			s.cfg.Logger.Warn("channel not left", "error", err)
		}
	}()
	if ws == nil {
		return
	}
	defer ws.CloseNow()
	edge := func(text []byte) []byte { return text }
	if s.cfg.Edge != nil {
		edge = s.cfg.Edge()
	}
	ctx := ws.CloseRead(s.life.Context()) // a reader has nothing to say; it ends with its socket
	for {
		m, err := r.Read(ctx)
		if errors.Is(err, io.EOF) {
			s.shut(ws)
			return
		}
		if err == nil && !m.Socket && !m.Binary {
			m.Data = edge(m.Data)
		}
		if err != nil || s.post(ctx, ws, m) != nil {
			return // it has left
		}
	}
}

func (s *Sockets) post(ctx context.Context, ws *websocket.Conn, m Message) error {
	ctx, cancel := context.WithTimeout(ctx, socketWrite)
	defer cancel()
	return ws.Write(ctx, kindOf(m), m.Data)
}

func kindOf(m Message) websocket.MessageType {
	if m.Binary {
		return websocket.MessageBinary
	}
	return websocket.MessageText
}

// write relays what a writer says into a channel.
func (s *Sockets) write(ws *websocket.Conn, w Writer) {
	defer func() {
		if err := w.Close(); err != nil {
			s.cfg.Logger.Warn("channel not ended", "error", err)
		}
	}()
	if ws == nil {
		return
	}
	defer ws.CloseNow()
	ws.SetReadLimit(maxSocketMessage)
	for {
		kind, data, err := ws.Read(s.life.Context())
		if err != nil {
			return // closed, lost, or too large: the channel ends
		}
		if err := w.Write(s.life.Context(), Message{Data: data, Binary: kind == websocket.MessageBinary, Socket: true}); err != nil {
			return // the reader is gone: the socket is dropped
		}
	}
}
