package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
)

func TestBrowserGetsATicketOverHTTPAndConnects(t *testing.T) {
	t.Parallel()
	s := startDev(t, t.TempDir(), "--require-token")
	made := jsonLines[map[string]any](t, s.want(exitDone, "token", "create", "--role", "client", "--json").stdout)
	secret, _ := made[0]["token"].(string)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.ready.HTTP+"/auth/connect_ticket", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+secret)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var ticket struct{ Ticket string }
	if err := json.NewDecoder(resp.Body).Decode(&ticket); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d, %v", resp.StatusCode, err)
	}
	page := &websocket.DialOptions{HTTPHeader: http.Header{"Origin": {"https://app.example"}}, Subprotocols: []string{"harness.ticket." + ticket.Ticket}}
	ws, _, err := websocket.Dial(t.Context(), s.ready.Bus, page)
	if err != nil {
		t.Fatal(err)
	}
	if err := ws.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Error(err)
	}
	if _, _, err := websocket.Dial(t.Context(), s.ready.Bus, page); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("a used ticket: %v", err)
	}
	if strings.Contains(s.log.String(), ticket.Ticket) {
		t.Error("the ticket is in the log")
	}
}
