package web_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/web"
)

func TestConfigs(t *testing.T) {
	t.Parallel()
	many := strings.Repeat("/x", 64)
	for config, want := range map[string]string{
		`{"api_path":"ora/x","http_method":"GET"}`: "",
		`{"api_path":"/a/:b_1/c/","http_method":"options","condition_function_id":"f::c","middleware_function_ids":["f::m"],"more":1}`: "",
		`{"api_path":"/"}`:                      "",
		`{"api_path":"` + many + `"}`:           "",
		`{}`:                                    "api_path is required for http triggers",
		`{"api_path":""}`:                       "api_path is required for http triggers",
		`null`:                                  "Failed to parse trigger config: invalid type: null, expected an object",
		`"x"`:                                   "Failed to parse trigger config: invalid type: string \"x\", expected an object",
		`{"api_path":1}`:                        "Failed to parse trigger config: invalid type: integer `1`, expected a string",
		`{"api_path":"x","http_method":"BREW"}`: "http_method must be one of GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS",
		`{"api_path":"x","middleware_function_ids":"m"}`:                                     "Failed to parse trigger config: invalid type: string \"m\", expected a sequence",
		`{"api_path":"x","middleware_function_ids":[""]}`:                                    "middleware_function_ids must be at most 16 ids of functions",
		`{"api_path":"x","middleware_function_ids":["m"` + strings.Repeat(`,"m"`, 16) + `]}`: "middleware_function_ids must be at most 16 ids of functions",
		`{"api_path":"a?b"}`:                               "api_path must be a path of at most 2048 bytes, without query, fragment and control characters",
		`{"api_path":"a\u0000"}`:                           "api_path must be a path of at most 2048 bytes, without query, fragment and control characters",
		`{"api_path":"` + strings.Repeat("x", 2049) + `"}`: "api_path must be a path of at most 2048 bytes, without query, fragment and control characters",
		`{"api_path":"x` + many + `"}`:                     "api_path must have at most 64 segments",
		`{"api_path":"a//b"}`:                              "the segments of api_path must not be empty, . or ..",
		`{"api_path":"a/../b"}`:                            "the segments of api_path must not be empty, . or ..",
		`{"api_path":"/:"}`:                                "the parameters of api_path must have different names of letters, digits and underscores",
		`{"api_path":"/:a-b"}`:                             "the parameters of api_path must have different names of letters, digits and underscores",
		`{"api_path":"/:a/:a"}`:                            "the parameters of api_path must have different names of letters, digits and underscores",
		`{"api_path":"/_harness/x"}`:                       "api_path must not begin with _harness, which is the server's own",
	} {
		err := newRig(t).Bind(t.Context(), binding("t", config))
		if want == "" {
			if err != nil {
				t.Errorf("%s: %v", config, err)
			}
			continue
		}
		if diff := cmp.Diff(&bus.Error{Code: "trigger_registration_failed", Message: want}, err); diff != "" {
			t.Errorf("%s (-want +got):\n%s", config, diff)
		}
	}
}

func TestFinding(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	for _, route := range []string{"GET /", "GET a", "POST /a", "GET a/:x", "GET a/b", "GET a/:x/c", "GET a/b/d", "POST a/only", "PUT p/:q", "HEAD h", "OPTIONS o", "GET t/", "DELETE sp ace/:x"} {
		method, path, _ := strings.Cut(route, " ")
		g.route(`{"api_path":"` + path + `","http_method":"` + method + `"}`)
	}
	g.on("f::g", returns(`{"headers":{"x-route":"f"}}`))
	for request, want := range map[string]string{
		"GET /": "GET / {}", "GET /a": "GET a {}", "POST /a": "POST /a {}", "GET /a/1": `GET a/:x {"x":"1"}`, "GET /a/b": "GET a/b {}", "GET /a/b/c": `GET a/:x/c {"x":"b"}`,
		"GET /a/b/d": "GET a/b/d {}", "GET /a/1/d": "404", "GET /a/only": `GET a/:x {"x":"only"}`, "POST /a/only": "POST a/only {}", "POST /a/b": "405 GET, HEAD",
		"DELETE /a": "405 GET, HEAD, POST", "GET /p/1": "405 PUT", "HEAD /a": "GET a {}", "HEAD /h": "HEAD h {}", "GET /h": "405 HEAD", "OPTIONS /a": "405 GET, HEAD, POST",
		"OPTIONS /o": "OPTIONS o {}", "GET /a/": "404", "GET /t/": "GET t/ {}", "GET /t": "404", "GET //a": "404", "GET /a/%2Fx%20y": `GET a/:x {"x":"/x y"}`, "GET /a/%C3%A9": `GET a/:x {"x":"é"}`,
		"GET /a/%FF": `GET a/:x {"x":"\ufffd"}`, "DELETE /sp%20ace/:x": `DELETE sp ace/:x {"x":":x"}`, "GET /a/..": `GET a/:x {"x":".."}`, "BREW /a": "405 GET, HEAD, POST",
		"GET /_harness/x": "404", "GET /x" + strings.Repeat("/y", 64): "404",
	} {
		method, path, _ := strings.Cut(request, " ")
		a := g.do(method, path, "")
		got := fmt.Sprint(a.status)
		switch a.status {
		case 200:
			var p struct {
				Trigger struct{ Path, Method string }
				Params  map[string]string `json:"path_params"`
				Method  string
			}
			decode(t, string(g.lastCall().firing.Payload), &p)
			got = p.Trigger.Method + " " + p.Trigger.Path + " " + encode(t, p.Params)
			if p.Method != method {
				t.Errorf("%s: method %s", request, p.Method)
			}
		case 405:
			got += " " + a.header.Get("Allow")
			if a.body != "" || a.header.Get("Content-Length") != "0" {
				t.Errorf("%s: body %q", request, a.body)
			}
		case 404:
			if a.body != `{"error":{"code":"NOT_FOUND","message":"Not Found"}}` || a.header.Get("Content-Type") != "application/json" {
				t.Errorf("%s: %+v", request, a)
			}
		}
		if unescaped := strings.ReplaceAll(want, `\ufffd`, "\ufffd"); got != unescaped {
			t.Errorf("%s: got %s, want %s", request, got, unescaped)
		}
	}
}

func TestTheLatestBindingServes(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.on("f::g", returns(`{"body":"first"}`))
	g.on("f::second", returns(`{"body":"second"}`))
	first := g.route(`{"api_path":"a/:x"}`)
	second := binding("second", `{"api_path":"/a/:x","http_method":"get"}`)
	second.FunctionID = "f::second"
	bind := func() {
		t.Helper()
		if err := g.Bind(t.Context(), second); err != nil {
			t.Fatal(err)
		}
	}
	want := func(path, body string) {
		t.Helper()
		if a := g.do("GET", path, ""); a.body != body {
			t.Errorf("%s: got %q, want %q", path, a.body, body)
		}
	}
	bind()
	want("/a/1", `"second"`)
	g.Unbind("second")
	want("/a/1", `"first"`)
	bind()
	// The same id: it moves to another path, or stays where it was.
	second.Config = []byte(`{"api_path":"b/:y"}`)
	bind()
	want("/a/1", `"first"`)
	want("/b/1", `"second"`)
	second.Config = []byte(`{"api_path":"a/:other"}`)
	conflict := &bus.Error{Code: "trigger_registration_failed", Message: "Route 'GET a/:other' conflicts with already-registered route 'GET a/:x': " +
		"routes with identical structure but different path-parameter names are not supported"}
	if diff := cmp.Diff(conflict, g.Bind(t.Context(), second)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	want("/b/1", `"second"`)
	second.Config = []byte(`{"api_path":"a/:other","http_method":"POST"}`)
	bind() // another method
	stranger := binding("stranger", `{"api_path":"a/:x"}`)
	stranger.Principal.ID = "bob"
	if err := g.Bind(t.Context(), stranger); bus.Code(err) != "trigger_registration_failed" || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a route of somebody else: %v", err)
	}
	g.Unbind(first.ID)
	g.Unbind("nobody")
	if a := g.do("GET", "/a/1", ""); a.status != 405 {
		t.Errorf("got %+v", a)
	}
	if err := g.Bind(t.Context(), stranger); err != nil {
		t.Errorf("a route that is free again: %v", err)
	}
	// One binding alone may rename its parameters.
	stranger.Config = []byte(`{"api_path":"a/:renamed"}`)
	if err := g.Bind(t.Context(), stranger); err != nil {
		t.Error(err)
	}
}

func TestManyRoutes(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	for i := range 4096 {
		if err := g.Bind(t.Context(), binding(fmt.Sprint(i), fmt.Sprintf(`{"api_path":"r/%d"}`, i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.Bind(t.Context(), binding("more", `{"api_path":"r/more"}`)); bus.Code(err) != "trigger_registration_failed" {
		t.Errorf("got %v", err)
	}
	if err := g.Bind(t.Context(), binding("7", `{"api_path":"r/seven"}`)); err != nil {
		t.Errorf("a replacement: %v", err)
	}
}

func TestHosts(t *testing.T) {
	t.Parallel()
	h := web.ForHosts(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }), []string{"Dev.example"})
	for host, want := range map[string]int{
		"127.0.0.1:3111": 204, "localhost": 204, "LOCALHOST.:3111": 204, "[::1]:3111": 204, "[::1]": 204, "127.9.9.9": 204, "dev.example:80": 204,
		"evil.example": 403, "10.0.0.1": 403, "": 403, "localhost.evil.example": 403, "a.dev.example": 403,
	} {
		w := &recorder{header: http.Header{}}
		h.ServeHTTP(w, &http.Request{Host: host})
		if w.status != want {
			t.Errorf("%q: %d, want %d", host, w.status, want)
		}
	}
}

func FuzzRoutes(f *testing.F) {
	f.Add("ora/fire/:id", "/ora/fire/7")
	f.Add("/", "/")
	f.Add("a//b", "/a//b")
	f.Add("/:a/:b/", "/%2F/é/")
	f.Add(":x", "/_harness")
	f.Fuzz(func(t *testing.T, path, request string) {
		s, err := web.New(web.Config{Caller: &rig{}, Clock: start0, IDs: ids0})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Bind(t.Context(), binding("t", `{"api_path":`+encode(t, path)+`}`)); err != nil {
			if bus.Code(err) != "trigger_registration_failed" {
				t.Errorf("%q: %v", path, err)
			}
			return
		}
		params, found := s.Find("GET", request)
		if !found {
			return
		}
		// A path that is found reads as the route with its parameters filled in.
		want, got := strings.Split(strings.TrimPrefix(path, "/"), "/"), strings.Split(strings.TrimPrefix(request, "/"), "/")
		if len(want) != len(got) || strings.HasPrefix(request, "/_harness/") {
			t.Fatalf("%q leads to %q", request, path)
		}
		for _, s := range want {
			if name, param := strings.CutPrefix(s, ":"); param {
				if value, ok := params[name]; !ok || value == "" {
					t.Errorf("%q at %q: no %s in %v", request, path, name, params)
				}
			}
		}
	})
}
