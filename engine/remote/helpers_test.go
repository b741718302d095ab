package remote

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
)

var start = time.Unix(1796076748, 0)

var loopback = netip.MustParsePrefix("127.0.0.0/8")

// environment is that of the bus.
func environment(name string) string {
	return map[string]string{"HOOK_TOKEN": "hook-secret-1", "HOOK_BAD": "a\nb", "HOOK_SPACE": " padded-secret ", "AWS_SECRET_ACCESS_KEY": "aws-secret-1"}[name]
}

// opened is a config that reaches servers of tests.
func opened() Config {
	return Config{Clock: clock.NewFake(start), Getenv: environment, Keys: []string{"HOOK_*"}, PlainHTTP: true, Networks: []netip.Prefix{loopback}}
}

func newCaller(t testing.TB, cfg Config) *Caller {
	t.Helper()
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// server is a web server that keeps the requests that it gets.
type server struct {
	*httptest.Server
	mu     sync.Mutex
	got    []*http.Request
	bodies []string
}

func newServer(t testing.TB, h http.HandlerFunc) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		s.mu.Lock()
		s.got, s.bodies = append(s.got, r), append(s.bodies, string(body))
		s.mu.Unlock()
		h(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) hits() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.got)
}

// respond answers with a status and a body.
func respond(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func object(t testing.TB, v any) json.RawMessage {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func call(data string) *bus.Call {
	return &bus.Call{FunctionID: "x::http", InvocationID: "0d1f0000-0000-4000-8000-00000000000a", Data: json.RawMessage(data)}
}

// names is a resolver that answers every name with one IPv4 address.
func names(t testing.TB, addr netip.Addr) *net.Resolver {
	t.Helper()
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, dns := net.Pipe()
		go func() {
			defer dns.Close()
			for answerName(dns, addr) == nil {
			}
		}()
		return client, nil
	}}
}

// answerName answers one query of DNS over a stream.
func answerName(conn io.ReadWriter, addr netip.Addr) error {
	var size [2]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return err
	}
	query := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(conn, query); err != nil {
		return err
	}
	end := 12
	for query[end] != 0 {
		end += int(query[end]) + 1
	}
	end += 5 // the root, type and class
	question := query[12:end]
	isA := question[len(question)-3] == 1
	reply := append([]byte{}, query[:2]...)
	reply = append(reply, 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0)
	reply = append(reply, question...)
	if isA {
		reply[7] = 1
		ip := addr.As4()
		reply = append(reply, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
		reply = append(reply, ip[:]...)
	}
	_, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...))
	return err
}
