package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/client"
)

// link passes bytes to a server, until it is cut.
type link struct {
	net.Listener
	to    string
	mu    sync.Mutex
	conns []net.Conn
}

func newLink(t *testing.T, to string) *link {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	k := &link{Listener: l, to: to}
	t.Cleanup(func() {
		_ = l.Close()
		k.cut()
	})
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return // the test is over
			}
			far, err := net.Dial("tcp", k.to)
			if err != nil {
				_ = near.Close()
				continue
			}
			k.mu.Lock()
			k.conns = append(k.conns, near, far)
			k.mu.Unlock()
			for _, pair := range [][2]net.Conn{{near, far}, {far, near}} {
				go func() {
					_, _ = io.Copy(pair[0], pair[1])
					_ = pair[0].Close()
				}()
			}
		}
	}()
	return k
}

// cut ends every connection without a closing handshake.
func (k *link) cut() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.conns {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = c.Close()
	}
	k.conns = nil
}

// TestCallOutlivesACutOfBothItsEnds cuts the caller and the worker while a call
// runs. Both come back, and the result reaches the caller; it ran once.
func TestCallOutlivesACutOfBothItsEnds(t *testing.T) {
	t.Parallel()
	s := startDev(t, t.TempDir())
	u, err := url.Parse(s.ready.Bus)
	if err != nil {
		t.Fatal(err)
	}
	k := newLink(t, s.address(t))
	u.Host = k.Addr().String()
	back := make(chan string, 8)
	connect := func(name string) *client.Client {
		c, err := client.Dial(t.Context(), client.Options{URL: u.String(), Token: s.ready.Token, Name: name, OnConnect: func(_ context.Context, first bool) {
			if !first {
				back <- name
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	worker, caller := connect("worker"), connect("caller")
	started, release := make(chan struct{}, 8), make(chan struct{})
	worker.Handle("mine::slow", bus.Raw(func(context.Context, *bus.Call) (json.RawMessage, error) {
		started <- struct{}{}
		<-release
		return json.RawMessage(`"done"`), nil
	}))
	s.served("mine::slow")
	type outcome struct {
		value json.RawMessage
		err   error
	}
	ended := make(chan outcome, 1)
	go func() {
		v, err := caller.Invoke(context.Background(), bus.Invocation{FunctionID: "mine::slow", Timeout: time.Minute})
		ended <- outcome{v, err}
	}()
	<-started
	k.cut()
	for range 2 {
		<-back
	}
	close(release)
	if o := <-ended; o.err != nil || string(o.value) != `"done"` {
		t.Errorf("result %s, %v", o.value, o.err)
	}
	if len(started) != 0 {
		t.Error("it ran again")
	}
	if v, err := caller.Invoke(t.Context(), bus.Invocation{FunctionID: "mine::slow"}); err != nil || string(v) != `"done"` {
		t.Errorf("the next call: %s, %v", v, err)
	}
}
