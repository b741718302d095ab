package gateway

import (
	"errors"
	"net"
	"net/http"
	"strings"

	"github.com/iii-aws/harness/engine/access"
)

// admit decides who a request is. The status is for a refused one.
func (s *Server) admit(r *http.Request) (*access.Grant, int, error) {
	if secret := token(r); secret != "" {
		g, err := s.cfg.Tokens.Authenticate(r.Context(), secret)
		var auth *access.AuthError
		switch {
		case err == nil:
			return g, 0, nil
		case errors.As(err, &auth):
			return nil, http.StatusUnauthorized, err
		default:
			return nil, http.StatusServiceUnavailable, err
		}
	}
	if s.cfg.RequireToken {
		return nil, http.StatusUnauthorized, errors.New("a token is required")
	}
	if !loopback(r.RemoteAddr) {
		return nil, http.StatusUnauthorized, errors.New("a peer that is not on the loopback interface needs a token")
	}
	if origin := r.Header.Values("Origin"); len(origin) > 0 && !s.own(origin) {
		return nil, http.StatusForbidden, errors.New("pages of this origin need a token")
	}
	if !loopbackHost(r.Host) {
		return nil, http.StatusForbidden, errors.New("the request names a host that is not this machine")
	}
	return access.Local(), 0, nil
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

func token(r *http.Request) string {
	if h := r.Header.Get("Authorization"); len(h) > 7 && strings.EqualFold(h[:7], "Bearer ") {
		return strings.TrimSpace(h[7:])
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
