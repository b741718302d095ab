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

// request asks the HTTP side of dev.
func (s *server) request(method, path, body string, headers ...string) (status int, header http.Header, text string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.ready.HTTP+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return res.StatusCode, res.Header, string(b)
}

// routed waits until the HTTP side knows a path.
func (s *server) routed(path string) {
	s.t.Helper()
	for status := 404; status == 404; {
		status, _, _ = s.request("BREW", path, "")
	}
}

// answerCalls answers every call that a worker is given.
func (w *rawWorker) answerCalls(answer func(function string, call map[string]any) string) {
	go func() {
		for {
			_, data, err := w.ws.Read(context.Background())
			if err != nil {
				return
			}
			var f map[string]any
			if json.Unmarshal(data, &f) != nil || f["type"] != "invokefunction" {
				continue
			}
			text := `{"type":"invocationresult","invocation_id":"` + f["invocation_id"].(string) + `",` + answer(f["function_id"].(string), f) + `}`
			if err := w.ws.Write(context.Background(), websocket.MessageText, []byte(text)); err != nil {
				return
			}
		}
	}()
}

// TestRoutes repeats the http part of the recording 11-trigger-fire on dev.
func TestRoutes(t *testing.T) {
	s := startWith(t, "http: {middleware: [auth::check], hosts: [dev.example]}\n")
	w := s.connect("w")
	w.send(`{"type":"registerfunction","id":"ora::http"}`, `{"type":"registerfunction","id":"auth::check"}`,
		`{"type":"registertrigger","id":"t1","trigger_type":"http","function_id":"ora::http","config":{"api_path":"ora/fire/:id","http_method":"POST"},"metadata":{"why":"http"}}`)
	s.served("ora::http")
	s.served("auth::check")
	s.routed("/ora/fire/7")
	w.send(`{"type":"registertrigger","id":"t2","trigger_type":"http","function_id":"ora::http","config":{}}`)
	if f := w.until("triggerregistrationresult"); f["error"].(map[string]any)["message"] != "api_path is required for http triggers" {
		t.Errorf("got %v", f)
	}
	w.send(`{"type":"registertrigger","id":"t3","trigger_type":"http","function_id":"turn::sweep","config":{"api_path":"sweep"}}`)
	if f := w.until("triggerregistrationresult"); f["error"].(map[string]any)["code"] != "FORBIDDEN" {
		t.Errorf("an internal function: %v", f)
	}
	calls := make(chan map[string]any, 10)
	w.answerCalls(func(function string, call map[string]any) string {
		calls <- call
		if function == "auth::check" {
			if _, ok := call["data"].(map[string]any)["request"].(map[string]any)["headers"].(map[string]any)["x-stop"]; ok {
				return `"result":{"action":"respond","response":{"status_code":401,"body":"no"}}`
			}
			return `"result":{"action":"continue"}`
		}
		return `"result":{"status_code":201,"headers":{"x-a":"1"},"body":{"hi":1}}`
	})
	status, header, body := s.request("POST", "/ora/fire/7?q=1&q=2", `{"b":1}`, "Content-Type", "application/json", "Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	if status != 201 || body != `{"hi":1}` || header.Get("X-A") != "1" || header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("got %d %v %s", status, header, body)
	}
	if call := <-calls; call["function_id"] != "auth::check" {
		t.Errorf("first came %v", call)
	}
	call := <-calls
	data, metadata := call["data"].(map[string]any), call["metadata"].(map[string]any)
	if data["query_params"].(map[string]any)["q"] != "2" || data["path_params"].(map[string]any)["id"] != "7" || data["path"] != "ora/fire/:id" || data["body"].(map[string]any)["b"] != 1.0 ||
		metadata["why"] != "http" || metadata["principal"].(map[string]any)["id"] != "local" || !strings.HasPrefix(call["traceparent"].(string), "00-0af7651916cd43dd8448eb211c80319c-") {
		t.Errorf("got %v", call)
	}
	for _, tt := range []struct {
		method, path string
		headers      []string
		status       int
		body         string
	}{
		{"POST", "/ora/fire/7", []string{"X-Stop", "1"}, 401, `"no"`},
		{"GET", "/ora/fire/7", nil, 405, ""},
		{"GET", "/ora/none", nil, 404, `{"error":{"code":"NOT_FOUND","message":"Not Found"}}`},
		{"OPTIONS", "/ora/fire/7", []string{"Origin", "https://evil.example", "Access-Control-Request-Method", "POST"}, 405, ""},
		{"POST", "/ora/fire/7", []string{"Host", "evil.example"}, 403, `{"error":{"code":"FORBIDDEN","message":"The request names a host that is not this machine"}}`},
		{"POST", "/ora/fire/7", []string{"Host", "dev.example"}, 201, `{"hi":1}`},
	} {
		if status, _, body := s.request(tt.method, tt.path, "", tt.headers...); status != tt.status || body != tt.body {
			t.Errorf("%s %s %v: got %d %s", tt.method, tt.path, tt.headers, status, body)
		}
	}
	list := s.want(exitDone, "call", "engine::triggers::info", `{"id":"http"}`, "--json")
	if !strings.Contains(list.stdout, "api_path") || !strings.Contains(list.stdout, `"instance_count":1`) {
		t.Errorf("got %s", list.stdout)
	}
	_ = w.ws.CloseNow()
}

func TestUploads(t *testing.T) {
	s := startWith(t, "policy: rules\n")
	a := s.want(exitDone, "call", "blob::create_upload", `{"size":5,"mime":"text/plain"}`, "--json")
	var to struct{ ID, URL, Method string }
	if err := json.Unmarshal([]byte(a.stdout), &to); err != nil {
		t.Fatal(err)
	}
	path, ok := strings.CutPrefix(to.URL, s.ready.HTTP)
	if !ok {
		t.Fatalf("%s is not on %s", to.URL, s.ready.HTTP)
	}
	for _, want := range []int{201, 404} {
		if status, _, body := s.request(to.Method, path, "hello", "Content-Type", "text/plain"); status != want {
			t.Errorf("got %d %s, want %d", status, body, want)
		}
	}
	if status, _, _ := s.request("PUT", path, "hello", "Content-Type", "text/plain", "Host", "evil.example"); status != 403 {
		t.Errorf("by another name: %d", status)
	}
	if a := s.want(exitDone, "call", "blob::read", `{"id":"`+to.ID+`"}`, "--json"); !strings.Contains(a.stdout, "aGVsbG8=") {
		t.Errorf("got %s", a.stdout)
	}
	if strings.Contains(s.log.String(), path) {
		t.Errorf("the address is in the log: %s", s.log)
	}
}

// open opens one end of a channel that a function was given.
func (s *server) open(ref any, dir string) *websocket.Conn {
	s.t.Helper()
	r := ref.(map[string]any)
	ws, _, err := websocket.Dial(s.t.Context(), s.ready.Bus+"ws/channels/"+r["channel_id"].(string)+"?key="+r["access_key"].(string)+"&dir="+dir, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = ws.CloseNow() })
	return ws
}

// TestARouteStreams: a worker reads the body of a request and writes its answer on channel sockets.
func TestARouteStreams(t *testing.T) {
	if os.Getenv(modeVariable) == "strict" {
		t.Skip("API Gateway has no channels")
	}
	s := startWith(t, "policy: rules\n")
	w := s.connect("w")
	w.send(`{"type":"registerfunction","id":"up::case"}`,
		`{"type":"registertrigger","id":"t1","trigger_type":"http","function_id":"up::case","config":{"api_path":"/up","http_method":"POST"}}`)
	s.routed("/up")
	type response struct {
		status int
		header http.Header
		body   string
	}
	done := make(chan response, 1)
	go func() {
		status, header, body := s.request("POST", "/up", "some text", "Content-Type", "text/plain")
		done <- response{status, header, body}
	}()
	call := w.until("invokefunction")
	data := call["data"].(map[string]any)
	if data["body"] != nil {
		t.Errorf("a body of text: %v", data["body"])
	}
	_, body, err := s.open(data["request_body"], "read").Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.send(`{"type":"invocationresult","invocation_id":"` + call["invocation_id"].(string) + `","function_id":"up::case"}`) // nothing, before the answer
	out := s.open(data["response"], "write")
	for _, text := range []string{`{"type":"set_status","status_code":201}`, `{"type":"set_headers","headers":{"content-type":"text/plain"}}`} {
		if err := out.Write(t.Context(), websocket.MessageText, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	for _, word := range strings.Fields(strings.ToUpper(string(body))) {
		if err := out.Write(t.Context(), websocket.MessageBinary, []byte(word)); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Close(websocket.StatusNormalClosure, "stream_complete"); err != nil {
		t.Fatal(err)
	}
	if got := <-done; got.status != 201 || got.body != "SOMETEXT" || got.header.Get("Content-Type") != "text/plain" {
		t.Errorf("got %+v", got)
	}
}
