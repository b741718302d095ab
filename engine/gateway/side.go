package gateway

import (
	"errors"
	"net/http"
)

// AdmitSide decides about a request for a socket that has a guard of its own,
// such as the key of a channel: only pages of foreign origins are refused,
// unless they have a token. The status is for a refused one.
func (s *Server) AdmitSide(r *http.Request) (status int, err error) {
	origin := r.Header.Values("Origin")
	if len(origin) == 0 || s.own(origin) {
		return 0, nil
	}
	if token(r) == "" {
		return http.StatusForbidden, errors.New("pages of this origin need a token")
	}
	_, status, err = s.admit(r)
	return status, err
}

// AdmitLocal is AdmitSide for sockets that only peers on this machine may open.
func (s *Server) AdmitLocal(r *http.Request) (status int, err error) {
	if !loopback(r.RemoteAddr) {
		return http.StatusForbidden, errors.New("only peers on the loopback interface")
	}
	return s.AdmitSide(r)
}
