package sdk

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// backing is the web server that the recording of HTTP-backed functions had.
type backing struct {
	*httptest.Server
	got chan request
}

// request is one request, as the recorder noted it.
type request struct {
	URL     string            `json:"url"`
	Method  string            `json:"method"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
}

const recordedServer = "http://127.0.0.1:49321"

func newBacking(t testing.TB) *backing {
	b := &backing{got: make(chan request, 64)}
	slow := make(chan struct{})
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		headers := map[string]string{"host": r.Host}
		for k, v := range r.Header {
			headers[strings.ToLower(k)] = strings.Join(v, ", ")
		}
		b.got <- request{r.URL.Path, r.Method, headers, string(body)}
		answer := func(status int, text string) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text) // the bus may have hung up
		}
		switch r.URL.Path {
		case "/500":
			answer(500, `{"error":{"code":"x","message":"y"}}`)
		case "/404":
			answer(404, "")
		case "/txt":
			answer(200, "plain text")
		case "/empty":
			answer(200, "")
		case "/slow":
			select {
			case <-slow:
			case <-r.Context().Done(): // the bus has hung up
			}
		default:
			answer(200, `{"ok":true}`)
		}
	}))
	t.Cleanup(func() {
		close(slow)
		b.Close()
	})
	return b
}

// noted holds what the server got against what the recorder noted there.
func (b *backing) noted(r *replay, l line) {
	var note struct{ Note string }
	if json.Unmarshal(l.frame, &note) != nil {
		return
	}
	text, ok := strings.CutPrefix(note.Note, "http server got ")
	if !ok {
		return
	}
	var want request
	if err := json.Unmarshal([]byte(text), &want); err != nil {
		r.t.Fatalf("%s: %v", l.at(), err)
	}
	var got request
	select {
	case got = <-b.got:
	case <-r.wait().Done():
		r.t.Fatalf("%s: the server heard nothing", l.at())
	}
	// How an HTTP client introduces itself, and the trace id, which is optional (protocol 2.1).
	for _, h := range []map[string]string{want.Headers, got.Headers} {
		for _, name := range []string{"accept", "accept-encoding", "user-agent", "host", "x-iii-trace-id"} {
			delete(h, name)
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(want.Headers)), slices.Sorted(maps.Keys(got.Headers))); diff != "" {
		r.t.Errorf("%s: headers (-recorded +got):\n%s", l.at(), diff)
	}
	for _, name := range []string{"content-type", "x-iii-function-path", "x-svc"} {
		if want.Headers[name] != got.Headers[name] {
			r.t.Errorf("%s: %s is %q, want %q", l.at(), name, got.Headers[name], want.Headers[name])
		}
	}
	if want.URL != got.URL || want.Method != got.Method {
		r.t.Errorf("%s: got %s %s", l.at(), got.Method, got.URL)
	}
	for _, d := range r.ids.compare(r.frame([]byte(want.Body), false), r.frame([]byte(got.Body), false)) {
		r.note(l, d.path, d.want, d.got)
	}
}
