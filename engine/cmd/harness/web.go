package main

import (
	"net"
	"net/http"
	"strings"

	"github.com/iii-aws/harness/engine/blob"
	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/gateway"
	"github.com/iii-aws/harness/engine/web"
)

// openWeb makes the trigger type http. As on API Gateway, a strict bus has no channels.
func (s *stack) openWeb() error {
	cfg := web.Config{Caller: s.dispatch, Clock: s.clock, IDs: s.ids, Logger: s.logger, Middleware: s.config.HTTP.Middleware}
	if s.strict == nil {
		cfg.Channels = s.channels
	}
	var err error
	if s.web, err = web.New(cfg); err != nil {
		return err
	}
	if s.httpURL != "" {
		s.uploads, err = blob.NewUploads(blob.UploadConfig{Store: s.db.Blobs(), Owns: s.owns, Clock: s.clock, IDs: s.ids, URL: s.httpURL})
		if err != nil {
			return err
		}
	}
	return s.triggers.Provide(web.Type(), s.web)
}

// uploadEndpoints are those of uploads, where there is an address that takes them.
func (s *stack) uploadEndpoints() map[string]bus.Endpoint {
	if s.uploads == nil {
		return nil
	}
	return s.uploads.Endpoints()
}

// httpServer serves what is on the HTTP side. On the loopback interface it answers to the names of this machine and
// those that the config adds; who has it listen elsewhere means it to be reached by any name.
func (s *stack) httpServer(l net.Listener) *http.Server {
	tickets := s.gateway.TicketHandler()
	var h http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == gateway.TicketPath:
			tickets.ServeHTTP(w, r)
		case s.uploads != nil && strings.HasPrefix(r.URL.Path, blob.UploadPath):
			s.uploads.ServeHTTP(w, r)
		default:
			s.web.ServeHTTP(w, r)
		}
	})
	if at, ok := l.Addr().(*net.TCPAddr); ok && at.IP.IsLoopback() {
		h = web.ForHosts(h, s.config.HTTP.Hosts)
	}
	return web.HTTPServer(h, s.logger)
}
