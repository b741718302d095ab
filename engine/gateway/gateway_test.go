package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/iii-aws/harness/engine/access"
	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/embedded"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/registry"
	"github.com/iii-aws/harness/engine/router"
	"github.com/iii-aws/harness/engine/trigger"
)

// lockedLog is a log for several goroutines.
type lockedLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// rig is a gateway over a real bus.
type rig struct {
	t      *testing.T
	server *Server
	router *router.Router
	tokens *access.Tokens
	clock  *clock.Fake
	log    *lockedLog
	http   *httptest.Server
}

func newRig(t *testing.T, change func(*Config)) *rig {
	t.Helper()
	r := &rig{t: t, clock: clock.NewFake(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)), log: &lockedLog{}}
	db, err := embedded.Open(t.Context(), embedded.Options{Dir: t.TempDir(), NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	reg, err := registry.New(t.Context(), registry.Config{State: db.State(), Clock: r.clock})
	if err != nil {
		t.Fatal(err)
	}
	table, err := trigger.NewTable(t.Context(), trigger.Config{State: db.State(), Registry: reg, IDs: clock.Random()})
	if err != nil {
		t.Fatal(err)
	}
	may := NewAccess()
	r.router, err = router.New(router.Config{Registry: reg, State: db.State(), Clock: r.clock, IDs: clock.Random(), Access: may, Triggers: table})
	if err != nil {
		t.Fatal(err)
	}
	echo := bus.Raw(func(_ context.Context, c *bus.Call) (json.RawMessage, error) { return bus.Encode(c.Principal) })
	large := bus.Raw(func(_ context.Context, c *bus.Call) (json.RawMessage, error) {
		var n int
		if err := json.Unmarshal(c.Data, &n); err != nil {
			return nil, err
		}
		return bus.Encode(strings.Repeat("ü", n/2))
	})
	size := bus.Raw(func(_ context.Context, c *bus.Call) (json.RawMessage, error) { return bus.Encode(len(c.Data)) })
	r.tokens = access.NewTokens(db.State(), r.clock, clock.Random())
	cfg := Config{Router: r.router, Tokens: r.tokens, Clock: r.clock, IDs: clock.Random(), Logger: log, Origins: []string{"http://console.local"}}
	if change != nil {
		change(&cfg)
	}
	r.server = New(cfg)
	all := map[string]bus.Endpoint{"echo::who": echo, "state::set": echo, "echo::large": large, "echo::size": size}
	for id, e := range r.router.Endpoints() {
		all[id] = e
	}
	for id, e := range r.server.Endpoints() {
		all[id] = e
	}
	described := map[string]registry.Function{}
	for id := range all {
		described[id] = registry.Function{}
	}
	if err := r.router.Serve(registry.Builtin{Name: "echo"}, described, all); err != nil {
		t.Fatal(err)
	}
	may.Use(r.server)
	r.http = httptest.NewServer(r.server)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := r.server.Close(ctx); err != nil {
			t.Error(err)
		}
		r.http.Close()
		if err := errors.Join(r.router.Close(ctx), db.Close()); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *rig) token(role bus.Role, change func(*access.Token)) string {
	r.t.Helper()
	tok := access.Token{Role: role}
	if change != nil {
		change(&tok)
	}
	_, secret, err := r.tokens.Create(r.t.Context(), tok)
	if err != nil {
		r.t.Fatal(err)
	}
	return secret
}

// status is what the upgrade of a request is answered with.
func (r *rig) status(header http.Header, path string) int {
	r.t.Helper()
	ws, resp, err := websocket.Dial(r.t.Context(), strings.Replace(r.http.URL, "http", "ws", 1)+path, &websocket.DialOptions{HTTPHeader: header, Host: header.Get("Host")})
	if err == nil {
		_ = ws.CloseNow()
		return http.StatusSwitchingProtocols
	}
	if resp == nil {
		r.t.Fatal(err)
	}
	return resp.StatusCode
}

func TestWhoMayConnect(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	strictly := newRig(t, func(c *Config) { c.RequireToken = true })
	bearer := func(secret string) http.Header { return http.Header{"Authorization": {"Bearer " + secret}} }
	expired := r.token(bus.RoleClient, func(k *access.Token) { k.ExpiresAt = r.clock.Now().UnixMilli() - 1 })
	for _, tt := range []struct {
		name   string
		r      *rig
		header http.Header
		path   string
		want   int
	}{
		{"loopback without a token", r, http.Header{}, "/", 101},
		{"loopback without a token where one is required", strictly, http.Header{}, "/", 401},
		{"a page of another origin", r, http.Header{"Origin": {"https://evil.example"}}, "/", 403},
		{"a page of no origin", r, http.Header{"Origin": {"null"}}, "/", 403},
		{"a page of this machine, another port", r, http.Header{"Origin": {"http://127.0.0.1:9"}}, "/", 403},
		{"two origins", r, http.Header{"Origin": {"http://console.local", "https://evil.example"}}, "/", 403},
		{"an own page", r, http.Header{"Origin": {"http://console.local"}}, "/", 101},
		{"a name that was pointed here", r, http.Header{"Host": {"evil.example"}}, "/", 403},
		{"a token", strictly, bearer(strictly.token(bus.RoleClient, nil)), "/", 101},
		{"a token from a page", r, http.Header{"Authorization": {"bearer " + r.token(bus.RoleClient, nil)}, "Origin": {"https://app.example"}}, "/", 101},
		{"a token in the query", strictly, http.Header{}, "/?token=" + strictly.token(bus.RoleClient, nil), 101},
		{"a wrong token is no local peer", r, bearer("hrn_wrong_token"), "/", 401},
		{"an expired token", r, bearer(expired), "/", 401},
		{"another path", r, http.Header{}, "/otel", 404},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.r.status(tt.header, tt.path); got != tt.want {
				t.Errorf("status %d, want %d", got, tt.want)
			}
		})
	}
	if log := r.log.String() + strictly.log.String(); strings.Contains(log, "hrn_") {
		t.Errorf("a token is in the log: %s", log)
	}
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]bool{"127.0.0.1:5": true, "[::1]:5": true, "127.9.9.9:5": true, "10.0.0.1:5": false, "nonsense": false, "x:5": false} {
		if loopback(addr) != want {
			t.Errorf("loopback(%s) = %v", addr, !want)
		}
	}
	for host, want := range map[string]bool{"localhost:1": true, "LOCALHOST": true, "127.0.0.1": true, "[::1]:9": true, "[::1]": true, "evil.example:80": false, "10.0.0.1": false, "": false} {
		if loopbackHost(host) != want {
			t.Errorf("loopbackHost(%s) = %v", host, !want)
		}
	}
}

// socket is a raw client.
type socket struct {
	t  *testing.T
	ws *websocket.Conn
}

func (r *rig) open(secret string) *socket {
	r.t.Helper()
	header := http.Header{}
	if secret != "" {
		header.Set("Authorization", "Bearer "+secret)
	}
	ws, _, err := websocket.Dial(r.t.Context(), strings.Replace(r.http.URL, "http", "ws", 1)+"/", &websocket.DialOptions{HTTPHeader: header})
	if err != nil {
		r.t.Fatal(err)
	}
	s := &socket{r.t, ws}
	r.t.Cleanup(func() { _ = ws.CloseNow() })
	if _, ok := s.read().(*protocol.WorkerRegistered); !ok {
		r.t.Fatal("the first frame is not workerregistered")
	}
	return s
}

func (s *socket) send(text string) {
	s.t.Helper()
	if err := s.ws.Write(s.t.Context(), websocket.MessageText, []byte(text)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *socket) read() protocol.Frame {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 20*time.Second)
	defer cancel()
	_, data, err := s.ws.Read(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	f, err := protocol.Decode(data)
	if err != nil {
		s.t.Fatal(err)
	}
	return f
}

// closed is the close code that ends the socket.
func (s *socket) closed() websocket.StatusCode {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 20*time.Second)
	defer cancel()
	for {
		if _, _, err := s.ws.Read(ctx); err != nil {
			return websocket.CloseStatus(err)
		}
	}
}

const uuid = "6f0c1c1e-0000-4000-8000-000000000001"

func invoke(id string) string {
	return `{"type":"invokefunction","invocation_id":"` + uuid + `","function_id":"` + id + `","data":{}}`
}

func TestCallsCarryThePrincipalOfTheConnection(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	local := r.open("")
	local.send(strings.Replace(invoke("echo::who"), `"data":{}`, `"data":{},"metadata":{"principal":{"id":"root","role":"operator"}}`, 1))
	if f := local.read().(*protocol.InvocationResult); f.Error != nil || string(f.Result) != `{"id":"local","role":"client"}` {
		t.Errorf("result %s, %v", f.Result, f.Error)
	}
	client := r.open(r.token(bus.RoleClient, nil))
	client.send(invoke("state::set"))
	if f := client.read().(*protocol.InvocationResult); f.Error == nil || f.Error.Code != protocol.CodeForbidden || !strings.Contains(f.Error.Message, "--call") {
		t.Errorf("error %v", f.Error)
	}
	client.send("  ")
	client.send(`{"type":"nonsense"}`)
	client.send(`{"type":"workerregistered","worker_id":"x"}`)
	client.send(`{"type":"pong"}`)
	client.send(`{"type":"registertriggertype","id":"t","description":"d"}`)
	client.send(`{"type":"ping"}`)
	if _, ok := client.read().(*protocol.Pong); !ok {
		t.Error("no pong: a bad frame ended the connection")
	}
}

func TestRegistrationsWaitForTheNamespace(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	s := r.open("")
	s.send(`{"type":"registerfunction","id":"my::fn"}`)
	s.send(`{"type":"ping"}`)
	s.read()
	caller := r.open("")
	caller.send(invoke("my::fn"))
	if f := caller.read().(*protocol.InvocationResult); f.Error == nil || f.Error.Code != protocol.CodeFunctionNotFound {
		t.Errorf("before the namespace is known: %+v", f)
	}
	r.clock.BlockUntil(2) // both connections wait for an announce
	r.clock.Advance(AnnounceGrace)
	served(t, s, caller)
	// An announce fixes it at once; what follows is handled at once.
	s.send(`{"type":"unregisterfunction","id":"my::fn"}`)
	s.send(`{"type":"registertrigger","id":"t1","trigger_type":"state","function_id":"my::fn","config":{"scope":"x"}}`)
	s.send(`{"type":"unregistertrigger","id":"t1"}`)
	s.send(`{"type":"ping"}`)
	s.read()
	early := r.open("")
	early.send(`{"type":"registerfunction","id":"my::fn"}`)
	early.send(`{"type":"invokefunction","function_id":"engine::workers::register","data":{"name":"w"},"action":{"type":"void"}}`)
	served(t, early, caller)
}

// served calls my::fn until it answers.
func served(t *testing.T, worker, caller *socket) {
	t.Helper()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		for {
			f, ok := worker.read().(*protocol.InvokeFunction)
			if ok {
				b, err := protocol.Encode(&protocol.InvocationResult{InvocationID: f.InvocationID, Result: json.RawMessage(`1`)})
				if err != nil {
					t.Error(err)
				}
				worker.send(string(b))
				return
			}
		}
	}()
	for i := 0; ; i++ {
		caller.send(strings.Replace(invoke("my::fn"), uuid, clock.Random().UUID(), 1))
		if f := caller.read().(*protocol.InvocationResult); f.Error == nil {
			break
		}
	}
	<-answered
}

func TestRefusedRegistration(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	s := r.open(r.token(bus.RoleWorker, func(k *access.Token) { k.Register = []string{"mine::*"} }))
	s.send(`{"type":"invokefunction","function_id":"engine::workers::register","data":{"name":"w","namespace":"shop"},"action":{"type":"void"}}`)
	s.send(`{"type":"registerfunction","id":"yours::fn"}`)
	if f, ok := s.read().(*protocol.RegistrationRejected); !ok || f.FunctionID != "yours::fn" || f.Code != protocol.RejectedFunction {
		t.Errorf("frame %+v", f)
	}
	c := r.open(r.token(bus.RoleClient, nil))
	c.send(strings.Replace(invoke("engine::workers::register"), `"data":{}`, `"data":{"namespace":"shop"}`, 1))
	if f := c.read().(*protocol.InvocationResult); f.Error == nil || f.Error.Code != protocol.CodeForbidden {
		t.Errorf("a client in a namespace of its own: %+v", f)
	}
	c.send(`{"type":"invokefunction","function_id":"engine::workers::register","data":{"name":"c"},"action":{"type":"void"}}`)
	c.send(`{"type":"registertrigger","id":"t1","trigger_type":"state","function_id":"run::start","config":{}}`)
	if f, ok := c.read().(*protocol.TriggerRegistrationResult); !ok || f.Error == nil || f.Error.Code != protocol.CodeForbidden {
		t.Errorf("a client's state trigger: %+v", f)
	}
	c.send(`{"type":"registertrigger","id":"t2","trigger_type":"stream","function_id":"state::set","config":{"stream_name":"x"}}`)
	if f, ok := c.read().(*protocol.TriggerRegistrationResult); !ok || f.Error == nil || f.Error.Code != protocol.CodeForbidden {
		t.Errorf("a trigger of a function that may not be called: %+v", f)
	}
}

func TestRevokedAndExpiredTokensCloseTheirSockets(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	tok, secret, err := r.tokens.Create(t.Context(), access.Token{Role: bus.RoleClient})
	if err != nil {
		t.Fatal(err)
	}
	s, other := r.open(secret), r.open("")
	if _, err := r.tokens.Revoke(t.Context(), tok.ID); err != nil {
		t.Fatal(err)
	}
	if code := s.closed(); code != websocket.StatusPolicyViolation {
		t.Errorf("closed with %d", code)
	}
	other.send(`{"type":"ping"}`)
	other.read()
	brief := r.open(r.token(bus.RoleClient, func(k *access.Token) { k.ExpiresAt = r.clock.Now().Add(time.Minute).UnixMilli() }))
	r.clock.Advance(time.Minute)
	brief.send(invoke("echo::who"))
	if code := brief.closed(); code != websocket.StatusPolicyViolation {
		t.Errorf("closed with %d", code)
	}
}

func TestCloseEndsSocketsWithGoingAway(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	s := r.open("")
	ended := make(chan websocket.StatusCode, 1)
	go func() { ended <- s.closed() }()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := r.server.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if code := <-ended; code != websocket.StatusGoingAway {
		t.Errorf("closed with %d, want 1001", code)
	}
	ws, _, err := websocket.Dial(t.Context(), strings.Replace(r.http.URL, "http", "ws", 1)+"/", nil)
	if err == nil {
		late := &socket{t, ws}
		if code := late.closed(); code != websocket.StatusGoingAway {
			t.Errorf("a late socket was closed with %d", code)
		}
	}
}

func TestCloseCutsWhatDoesNotEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	s := r.open("") // it never reads, so it never answers a close
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.server.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	s.closed()
}

func TestAccessWithoutAConnection(t *testing.T) {
	t.Parallel()
	a := NewAccess()
	c := router.Caller{Connection: "gone"}
	for name, err := range map[string]error{
		"call": a.Call(c, "", "a::b"), "register": a.Register(c, "", "a::b"), "namespace": a.Namespace(c, "x"), "bind": a.Bind(c, "state", "", "a::b"),
	} {
		if bus.Code(err) != protocol.CodeForbidden {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestSendAfterTheEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.open("")
	var c *conn
	for c == nil {
		r.server.mu.Lock()
		for _, x := range r.server.conns {
			c = x
		}
		r.server.mu.Unlock()
	}
	if c.RemoteIP() != "127.0.0.1" || c.MayActForOthers() {
		t.Errorf("conn %+v", c)
	}
	if err := c.Send(t.Context(), &protocol.InvocationResult{InvocationID: "no uuid"}); err == nil {
		t.Error("a frame that cannot be written was sent")
	}
	c.cancel()
	if err := c.Send(t.Context(), &protocol.Ping{}); !errors.Is(err, bus.ErrGone) {
		t.Errorf("error %v, want gone", err)
	}
}
