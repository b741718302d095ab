package sdk

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// visit asks a route of a server.
func visit(t testing.TB, s *Server, method, path, kind, body string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(within(t), method, s.Ready.HTTP+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", kind)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, res.Header, string(b)
}

// TestHTTPTrigger has stock workers answer requests: by what they return, and, where there are channels, by a stream.
func TestHTTPTrigger(t *testing.T) {
	repeats(t, "11-trigger-fire")
	each(t, func(t *testing.T, l Language, s *Server) {
		w := attach(t, l, s, "web")
		// Tests of a server share its routes.
		path := fmt.Sprintf("web/%s/fire", l)
		w.function("web::hold", "hold")
		w.do("trigger", args{"key": "k", "type": "http", "function_id": "web::hold", "config": args{"api_path": path + "/:id", "http_method": "POST"}, "metadata": args{"why": "http"}})
		listed(t, s, "web::hold", 1)
		type answer struct {
			status int
			header http.Header
			body   string
		}
		done := make(chan answer, 1)
		go func() {
			status, header, body := visit(t, s, "POST", "/"+path+"/7?q=1&q=2", "application/json", `{"b":1}`)
			done <- answer{status, header, body}
		}()
		e := w.called("web::hold")
		var data struct {
			Body    json.RawMessage   `json:"body"`
			Path    string            `json:"path"`
			Params  map[string]string `json:"path_params"`
			Query   map[string]string `json:"query_params"`
			Trigger json.RawMessage   `json:"trigger"`
		}
		if err := json.Unmarshal(e.Data, &data); err != nil {
			t.Fatal(err)
		}
		same(t, "body", data.Body, `{"b":1}`)
		same(t, "trigger", data.Trigger, `{"type":"http","path":"`+path+`/:id","method":"POST"}`)
		if data.Path != path+"/:id" || data.Params["id"] != "7" || data.Query["q"] != "2" || !strings.Contains(string(e.Metadata), `"why"`) {
			t.Errorf("got %s, %s", e.Data, e.Metadata)
		}
		w.do("release", args{"call": e.Call, "result": args{"status_code": 201, "headers": args{"x-a": "1"}, "body": args{"hi": 1}}})
		if got := <-done; got.status != 201 || got.header.Get("X-A") != "1" || got.body != `{"hi":1}` {
			t.Errorf("got %+v", got)
		}
		w.function("web::boom", "boom")
		w.do("trigger", args{"key": "b", "type": "http", "function_id": "web::boom", "config": args{"api_path": path}})
		listed(t, s, "web::boom", 1)
		if status, _, body := visit(t, s, "GET", "/"+path, "", ""); status != 500 || !strings.Contains(body, `"invocation_failed"`) || strings.Contains(body, "kaput") {
			t.Errorf("got %d %s", status, body)
		}
		if s.Ready.Stage != "" {
			return // no channels
		}
		w.function("web::page", "page")
		w.do("trigger", args{"key": "p", "type": "http", "function_id": "web::page", "config": args{"api_path": path, "http_method": "PUT"}})
		listed(t, s, "web::page", 1)
		long := strings.Repeat("some text ", 20000)
		if status, header, body := visit(t, s, "PUT", "/"+path, "text/plain", long); status != 201 || header.Get("Content-Type") != "text/plain" || body != strings.ToUpper(long) {
			t.Errorf("got %d %v, %d bytes", status, header, len(body))
		}
	})
}
