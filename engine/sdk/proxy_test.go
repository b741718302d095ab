package sdk

import (
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// proxy is a link between a worker and the bus that a test can cut.
type proxy struct {
	t      testing.TB
	listen net.Listener
	bus    *url.URL

	mu   sync.Mutex
	down bool
	open map[net.Conn]bool
}

// link starts a proxy before a server.
func link(t testing.TB, s *Server) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	bus, err := url.Parse(s.Ready.Bus)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{t: t, listen: l, bus: bus, open: map[net.Conn]bool{}}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				if !errors.Is(err, net.ErrClosed) {
					t.Error(err)
				}
				return
			}
			wg.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close() // accepted connections are cut next
		p.cut()
		wg.Wait()
	})
	return p
}

// url is the address that the worker gets.
func (p *proxy) url() string {
	u := *p.bus
	u.Host = p.listen.Addr().String()
	return u.String()
}

func (p *proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down {
		return false
	}
	p.open[c] = true
	return true
}

func (p *proxy) serve(c net.Conn) {
	defer c.Close()
	if !p.keep(c) {
		return
	}
	up, err := net.Dial("tcp", p.bus.Host)
	if err != nil {
		return // the server has ended
	}
	defer up.Close()
	if !p.keep(up) {
		return
	}
	var wg sync.WaitGroup
	for _, way := range [][2]net.Conn{{c, up}, {up, c}} {
		wg.Go(func() {
			_, _ = io.Copy(way[0], way[1]) // ends when either is cut
			_ = way[0].Close()
			_ = way[1].Close()
		})
	}
	wg.Wait()
	p.mu.Lock()
	delete(p.open, c)
	delete(p.open, up)
	p.mu.Unlock()
}

// cut ends every connection as a lost link does, and refuses new ones until
// mend.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = true
	for c := range p.open {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // a reset, not a goodbye
		}
		_ = c.Close()
	}
}

func (p *proxy) mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = false
}
