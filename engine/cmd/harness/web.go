package main

import (
	"net"
	"net/http"

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
	return s.triggers.Provide(web.Type(), s.web)
}

// httpServer serves what is on the HTTP side. On the loopback interface it answers to the names of this machine and
// those that the config adds; who has it listen elsewhere means it to be reached by any name.
func (s *stack) httpServer(l net.Listener) *http.Server {
	var h http.Handler = s.web
	if at, ok := l.Addr().(*net.TCPAddr); ok && at.IP.IsLoopback() {
		h = web.ForHosts(h, s.config.HTTP.Hosts)
	}
	return web.HTTPServer(h, s.logger)
}
