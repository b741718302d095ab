package web

import (
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Times and sizes of connections.
const (
	headerTimeout  = 10 * time.Second
	requestTimeout = time.Minute // for a body that nobody reads; others have their own
	idleTimeout    = 2 * time.Minute
	headerBytes    = 64 << 10
)

// HTTPServer is a server for h whose clients must send their headers in time, and not too many.
func HTTPServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: headerTimeout, ReadTimeout: requestTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: headerBytes,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// ForHosts refuses requests that name another host than this machine or one of hosts. It is for servers on the loopback
// interface: a web page may have its own name pointed there, and would then be of the same origin as the server.
func ForHosts(h http.Handler, hosts []string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := hostName(r.Host)
		if !isLoopback(name) && !slices.ContainsFunc(hosts, func(host string) bool { return strings.EqualFold(host, name) }) {
			writeError(w, http.StatusForbidden, failure{Code: "FORBIDDEN", Message: "The request names a host that is not this machine"})
			return
		}
		h.ServeHTTP(w, r)
	})
}

// hostName is the host of a Host header, in lower case.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}

func isLoopback(name string) bool {
	addr, err := netip.ParseAddr(name)
	return name == "localhost" || err == nil && addr.IsLoopback()
}
