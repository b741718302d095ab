package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// startWith runs dev with the text of a config file.
func startWith(t *testing.T, config string, flags ...string) *server {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return startDev(t, dir, flags...)
}

// rawWorker is a raw connection to the bus.
type rawWorker struct {
	t  *testing.T
	ws *websocket.Conn
}

// connect announces a worker, so that its registrations count at once.
func (s *server) connect(name string) *rawWorker {
	s.t.Helper()
	ws := s.socket(s.t)
	ws.SetReadLimit(-1)
	w := &rawWorker{s.t, ws}
	w.send(`{"type":"invokefunction","function_id":"engine::workers::register","data":{"name":"` + name + `"},"action":{"type":"void"}}`)
	w.until("workerregistered")
	return w
}

func (w *rawWorker) send(frames ...string) {
	w.t.Helper()
	for _, f := range frames {
		if err := w.ws.Write(w.t.Context(), websocket.MessageText, []byte(f)); err != nil {
			w.t.Fatal(err)
		}
	}
}

// served waits until the bus serves a function.
func (s *server) served(id string) {
	s.t.Helper()
	for s.want(exitDone, "functions", id).stdout == "" {
	}
}

// until is the next frame of a type.
func (w *rawWorker) until(kind string) map[string]any {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 30*time.Second)
	defer cancel()
	for {
		_, data, err := w.ws.Read(ctx)
		if err != nil {
			w.t.Fatalf("no %s: %v", kind, err)
		}
		var f map[string]any
		if err := json.Unmarshal(data, &f); err != nil {
			w.t.Fatal(err)
		}
		if f["type"] == kind {
			return f
		}
	}
}

func TestAFunctionOfAWebServer(t *testing.T) {
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		b, err := json.Marshal(map[string]any{"got": json.RawMessage(body), "function": r.Header.Get("x-iii-Function-Path")})
		if err != nil {
			t.Error(err)
		}
		_, _ = w.Write(b)
	}))
	defer site.Close()
	s := startWith(t, "remote: {plain_http: true, private_networks: [127.0.0.0/8]}\n")
	w := s.connect("w")
	w.send(`{"type":"registerfunction","id":"ext::notify","invocation":{"url":"` + site.URL + `/secret"}}`)
	s.served("ext::notify")
	a := s.want(exitDone, "call", "ext::notify", `{"a":1}`, "--json")
	if !strings.Contains(a.stdout, `"a":1`) || !strings.Contains(a.stdout, `"function":"ext::notify"`) || !strings.Contains(a.stdout, `"_caller_worker_id"`) {
		t.Errorf("got %s", a.stdout)
	}
	if a := s.want(exitDone, "call", "engine::functions::info", `{"function_id":"ext::notify"}`, "--json"); strings.Contains(a.stdout, "secret") {
		t.Errorf("the list shows the url: %s", a.stdout)
	}
	site.Close()
	if a := s.want(exitFailed, "call", "ext::notify", `{}`); !strings.Contains(a.stderr, "http_request_failed") || strings.Contains(a.stderr+s.log.String(), "secret") {
		t.Errorf("got %s", a.stderr)
	}
}

func TestByDefaultNoFunctionLeadsInside(t *testing.T) {
	s := startWith(t, "policy: rules\n")
	w := s.connect("w")
	for _, invocation := range []string{
		`{"url":"http://x.example"}`, `{"url":"https://127.0.0.1:1"}`, `{"url":"https://169.254.169.254/latest"}`,
		`{"url":"https://x.example","auth":{"type":"bearer","token_key":"HOME"}}`,
	} {
		w.send(`{"type":"registerfunction","id":"ext::f","invocation":` + invocation + `}`)
		if f := w.until("registrationrejected"); f["code"] != "FUNCTION_NAMESPACE_CONFLICT" || f["function_id"] != "ext::f" {
			t.Errorf("%s: %v", invocation, f)
		}
	}
	s.want(exitFailed, "call", "ext::f", `{}`)
}
