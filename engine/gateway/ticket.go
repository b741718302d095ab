package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/iii-aws/harness/engine/access"
	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/redact"
)

const (
	// FunctionTicket makes a ticket for a browser.
	FunctionTicket = "auth::connect_ticket"
	// TicketPath is where the HTTP side makes one.
	TicketPath = "/auth/connect_ticket"
	// TicketProtocol and the ticket behind it are the subprotocol by which a
	// browser presents it.
	TicketProtocol = "harness.ticket."
)

// Endpoints serves auth::connect_ticket: the ticket carries what the calling
// connection may do, whomever it acts for.
func (s *Server) Endpoints() map[string]bus.Endpoint {
	return map[string]bus.Endpoint{
		FunctionTicket: bus.Typed(func(_ context.Context, call *bus.Call, _ struct{}) (access.TicketResponse, error) {
			c := s.find(call.Connection)
			if c == nil {
				return access.TicketResponse{}, &bus.Error{Code: protocol.CodeForbidden, Message: FunctionTicket + " is for connections with a token"}
			}
			return s.cfg.Tokens.TicketFor(c.grant)
		}),
	}
}

// TicketHandler makes tickets over HTTP: POST with a token in the
// Authorization header.
func (s *Server) TicketHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			http.Error(w, http.StatusText(http.StatusMethodNotAllowed), http.StatusMethodNotAllowed)
			return
		}
		g, err := s.cfg.Tokens.Authenticate(r.Context(), bearer(r))
		var out access.TicketResponse
		if err == nil {
			out, err = s.cfg.Tokens.TicketFor(g)
		}
		var auth *access.AuthError
		switch {
		case err == nil:
			w.Header().Set("Content-Type", "application/json")
			if err := json.NewEncoder(w).Encode(out); err != nil {
				s.cfg.Logger.Debug("ticket not sent", "error", err)
			}
			return
		case errors.As(err, &auth):
			http.Error(w, http.StatusText(http.StatusUnauthorized), http.StatusUnauthorized)
		case bus.Code(err) == access.CodeTooManyTickets:
			http.Error(w, http.StatusText(http.StatusTooManyRequests), http.StatusTooManyRequests)
		default:
			http.Error(w, http.StatusText(http.StatusServiceUnavailable), http.StatusServiceUnavailable)
		}
		s.cfg.Logger.Warn("ticket refused", "remote", r.RemoteAddr, "reason", redact.Text(err.Error()))
	})
}

// ticketOf is the ticket that a request presents and the subprotocol to echo.
func ticketOf(r *http.Request) (ticket, subprotocol string) {
	for _, offered := range r.Header.Values("Sec-WebSocket-Protocol") {
		for _, p := range strings.Split(offered, ",") {
			p = strings.TrimSpace(p)
			if rest, ok := strings.CutPrefix(p, TicketProtocol); ok {
				return rest, p
			}
		}
	}
	return r.URL.Query().Get("ticket"), ""
}
