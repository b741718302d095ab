package gateway

import (
	"errors"
	"net"
	"net/http"
	"strings"

	"github.com/iii-aws/harness/engine/access"
)

// admission is who a request is.
type admission struct {
	grant *access.Grant
	// subprotocol is what the answer must echo, empty for none.
	subprotocol string
}

// admit decides who a request is. The status is for a refused one. A token goes
// before a ticket, which is used up.
func (s *Server) admit(r *http.Request) (admission, int, error) {
	secret := token(r)
	ticket, subprotocol := ticketOf(r)
	switch {
	case secret != "":
		g, err := s.cfg.Tokens.Authenticate(r.Context(), secret)
		return admission{g, subprotocol}, refusal(err), err
	case ticket != "":
		g, err := s.cfg.Tokens.Redeem(r.Context(), ticket)
		return admission{g, subprotocol}, refusal(err), err
	}
	status, err := s.local(r)
	return admission{grant: access.Local()}, status, err
}

// refusal is the status of a token that gives nothing.
func refusal(err error) int {
	var auth *access.AuthError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &auth):
		return http.StatusUnauthorized
	}
	return http.StatusServiceUnavailable
}

// local refuses what is no peer on this machine that may do without a token.
func (s *Server) local(r *http.Request) (int, error) {
	if s.cfg.RequireToken {
		return http.StatusUnauthorized, errors.New("a token is required")
	}
	if !loopback(r.RemoteAddr) {
		return http.StatusUnauthorized, errors.New("a peer that is not on the loopback interface needs a token")
	}
	if origin := r.Header.Values("Origin"); len(origin) > 0 && !s.own(origin) {
		return http.StatusForbidden, errors.New("pages of this origin need a token")
	}
	if !loopbackHost(r.Host) {
		return http.StatusForbidden, errors.New("the request names a host that is not this machine")
	}
	return 0, nil
}

// own reports whether the only Origin is one of the server's own pages.
func (s *Server) own(origins []string) bool {
	if len(origins) != 1 {
		return false
	}
	for _, o := range s.cfg.Origins {
		if origins[0] == o {
			return true
		}
	}
	return false
}

// bearer is the token of the Authorization header.
func bearer(r *http.Request) string {
	if h := r.Header.Get("Authorization"); len(h) > 7 && strings.EqualFold(h[:7], "Bearer ") {
		return strings.TrimSpace(h[7:])
	}
	return ""
}

func token(r *http.Request) string {
	if secret := bearer(r); secret != "" {
		return secret
	}
	return r.URL.Query().Get("token")
}

func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// loopbackHost stops a name that was pointed at this machine after a page was
// loaded from elsewhere.
func loopbackHost(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
