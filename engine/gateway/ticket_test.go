package gateway

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/iii-aws/harness/engine/access"
	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
)

// ask makes a ticket over the bus.
func (s *socket) ask() string {
	s.t.Helper()
	s.send(invoke(FunctionTicket))
	f := s.read().(*protocol.InvocationResult)
	var out access.TicketResponse
	if f.Error != nil || json.Unmarshal(f.Result, &out) != nil || out.Ticket == "" || out.ExpiresAt == 0 {
		s.t.Fatalf("ticket %s, %v", f.Result, f.Error)
	}
	return out.Ticket
}

func (r *rig) dial(path string, header http.Header, protocols ...string) (*websocket.Conn, error) {
	ws, _, err := websocket.Dial(r.t.Context(), strings.Replace(r.http.URL, "http", "ws", 1)+path, &websocket.DialOptions{HTTPHeader: header, Subprotocols: protocols})
	if err == nil {
		r.t.Cleanup(func() { _ = ws.CloseNow() })
	}
	return ws, err
}

func TestBrowserConnectsWithATicket(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.RequireToken = true })
	tok, secret, err := r.tokens.Create(t.Context(), access.Token{Role: bus.RoleClient})
	if err != nil {
		t.Fatal(err)
	}
	asker := r.open(secret)
	page := http.Header{"Origin": {"https://app.example"}}
	ticket := asker.ask()
	ws, err := r.dial("/", page, "other", TicketProtocol+ticket)
	if err != nil {
		t.Fatal(err)
	}
	if ws.Subprotocol() != TicketProtocol+ticket {
		t.Errorf("the answer echoes %q", ws.Subprotocol())
	}
	browser := &socket{t, ws}
	browser.read()
	browser.send(invoke("echo::who"))
	if f := browser.read().(*protocol.InvocationResult); f.Error == nil || f.Error.Code != protocol.CodeForbidden {
		t.Errorf("a ticket gives more than its token: %+v", f)
	}
	browser.send(strings.Replace(invoke(FunctionTicket), uuid, "6f0c1c1e-0000-4000-8000-000000000002", 1))
	if f := browser.read().(*protocol.InvocationResult); f.Error != nil {
		t.Errorf("a ticket of a ticket: %v", f.Error)
	}
	if _, err := r.dial("/", page, TicketProtocol+ticket); err == nil {
		t.Error("a ticket was used twice")
	}
	asker.send(strings.Replace(invoke(FunctionTicket), uuid, "6f0c1c1e-0000-4000-8000-000000000003", 1))
	var out access.TicketResponse
	if err := json.Unmarshal(asker.read().(*protocol.InvocationResult).Result, &out); err != nil {
		t.Fatal(err)
	}
	inQuery, err := r.dial("/?ticket="+out.Ticket, page)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.tokens.Revoke(t.Context(), tok.ID); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*socket{"by subprotocol": browser, "by query": {t, inQuery}} {
		if code := s.closed(); code != websocket.StatusPolicyViolation {
			t.Errorf("%s: revoked, and closed with %d", name, code)
		}
	}
	if log := r.log.String(); strings.Contains(log, "hrt_") {
		t.Errorf("a ticket is in the log: %s", log)
	}
}

func TestTicketNeedsAToken(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	local := r.open("")
	local.send(invoke(FunctionTicket))
	if f := local.read().(*protocol.InvocationResult); f.Error == nil || f.Error.Code != protocol.CodeForbidden {
		t.Errorf("a peer without a token: %+v", f)
	}
	if _, err := r.server.Endpoints()[FunctionTicket].Handle(t.Context(), &bus.Call{Data: []byte(`{}`)}); bus.Code(err) != protocol.CodeForbidden {
		t.Errorf("a caller without a connection: %v", err)
	}
	if got := r.status(http.Header{}, "/?ticket=hrt_00"); got != http.StatusUnauthorized {
		t.Errorf("a wrong ticket from this machine: status %d", got)
	}
}

func TestTicketOverHTTP(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.RequireToken = true })
	h := r.server.TicketHandler()
	post := func(method, secret string) *httptest.ResponseRecorder {
		req := httptest.NewRequest(method, TicketPath, nil)
		if secret != "" {
			req.Header.Set("Authorization", "Bearer "+secret)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		return w
	}
	secret := r.token(bus.RoleClient, nil)
	for _, tt := range []struct {
		method, secret string
		want           int
	}{{"POST", "", 401}, {"POST", "hrn_wrong_token", 401}, {"GET", secret, 405}, {"POST", secret, 200}} {
		if w := post(tt.method, tt.secret); w.Code != tt.want || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s: status %d, want %d", tt.method, w.Code, tt.want)
		}
	}
	var out access.TicketResponse
	if err := json.Unmarshal(post("POST", secret).Body.Bytes(), &out); err != nil {
		t.Fatal(err)
	}
	if _, err := r.dial("/?ticket="+out.Ticket, nil); err != nil {
		t.Error(err)
	}
	for range access.MaxTickets {
		post("POST", secret)
	}
	if w := post("POST", secret); w.Code != http.StatusTooManyRequests {
		t.Errorf("one too many: status %d", w.Code)
	}
}
