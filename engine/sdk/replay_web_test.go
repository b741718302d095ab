package sdk

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
)

// recordedHTTP is the host that the recorded web requests went to.
const recordedHTTP = "127.0.0.1:3111"

// asked is a web request that is under way.
type asked chan response

type response struct {
	status int
	header http.Header
	body   string
	err    error
}

// ask makes a web request as the recorder made it.
func (r *replay) ask(method, path, contentType, body string) asked {
	done := make(asked, 1)
	req, err := http.NewRequestWithContext(r.wait(), method, r.server.Ready.HTTP+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	for k, v := range map[string]string{"accept": "*/*", "accept-encoding": "gzip, deflate", "accept-language": "*", "connection": "keep-alive", "sec-fetch-mode": "cors", "user-agent": "node"} {
		req.Header.Set(k, v)
	}
	if contentType != "" {
		req.Header.Set("content-type", contentType)
	}
	if contentType == "application/json" {
		req.Header.Set("x-h", "v")
	}
	go func() {
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			done <- response{err: err}
			return
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		done <- response{res.StatusCode, res.Header, string(text), err}
	}()
	return done
}

// answered holds the answer to a web request against what the recorder noted.
func (r *replay) answered(l line, a asked) {
	var note struct{ Note string }
	var want struct {
		Status  int
		Headers map[string]string
		Body    string
	}
	if err := json.Unmarshal(l.frame, &note); err != nil {
		r.t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(note.Note), &want); err != nil {
		r.t.Fatalf("%s: %v", l.at(), err)
	}
	got := <-a
	if got.err != nil || got.status != want.Status || got.body != want.Body {
		r.t.Errorf("%s: got %d %q, %v; want %d %q", l.at(), got.status, got.body, got.err, want.Status, want.Body)
		return
	}
	for _, name := range []string{"content-type", "content-length", "allow", "x-a"} {
		if got.header.Get(name) != want.Headers[name] {
			r.t.Errorf("%s: %s is %q, want %q", l.at(), name, got.header.Get(name), want.Headers[name])
		}
	}
}

// playWeb makes the web requests of the recording of triggers.
func playWeb(r *replay) {
	var under asked
	was := r.noted
	r.noted = func(r *replay, l line) {
		switch l.n {
		case 135:
			under = r.ask("POST", "/ora/fire/7?q=1&q=2", "application/json", `{"b":1}`)
		case 138:
			r.answered(l, under)
			under = r.ask("POST", "/ora/fire/7", "text/plain", "raw")
		case 141:
			r.answered(l, under)
		case 142:
			r.answered(l, r.ask("GET", "/ora/fire/7", "", ""))
		case 143:
			r.answered(l, r.ask("GET", "/ora/none", "", ""))
		default:
			was(r, l)
		}
	}
}
