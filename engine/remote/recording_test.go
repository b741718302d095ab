package remote

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/protocol"
)

// recordedBase is where the server of the recording was.
const recordedBase = "http://127.0.0.1:49321"

// TestRecordedCalls registers and calls as 22-http-backed does, and wants the requests and answers that it has. Ours
// differ in the invocation id of the request, which is the call's own, in x-iii-trace-id, which we send, and in the
// messages of http_request_failed, which name no path.
func TestRecordedCalls(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 1)
	s := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/500":
			respond(500, `{"error":{"code":"x","message":"y"}}`)(w, r)
		case "/404":
			respond(404, "")(w, r)
		case "/txt":
			respond(200, "hello")(w, r)
		case "/empty":
			respond(200, "")(w, r)
		case "/slow":
			asked <- struct{}{}
			<-r.Context().Done()
		default:
			respond(200, `{"ok":true}`)(w, r)
		}
	})
	cfg := opened()
	fake := cfg.Clock.(*clock.Fake)
	cfg.Keys, cfg.Getenv = []string{"HOME", "NOPE"}, func(name string) string { return map[string]string{"HOME": "/home/someone"}[name] }
	c := newCaller(t, cfg)
	functions := map[string]json.RawMessage{}
	var body string // of the request that is recorded behind the call
	var result *protocol.InvocationResult
	var failure *bus.Error
	compared, owner := 0, true
	for _, l := range recorded(t) {
		switch f := l.frame.(type) {
		case *protocol.RegisterFunction:
			raw := json.RawMessage(strings.ReplaceAll(string(f.Invocation), recordedBase, s.URL))
			if err := c.Check(raw); err == nil {
				functions[f.ID] = raw
			}
		case *protocol.InvokeFunction:
			if !strings.HasPrefix(f.FunctionID, "ora::") || !owner {
				continue
			}
			result, failure = &protocol.InvocationResult{}, nil
			raw, ok := functions[f.FunctionID]
			if !ok { // refused at its registration
				failure = protocol.FunctionNotFound(f.FunctionID, "", nil)
				continue
			}
			data, err := protocol.SetMember(f.Data, protocol.CallerWorkerID, json.RawMessage(`"c1d41688-1910-4893-955c-fc71ff6c88f2"`))
			if err != nil {
				t.Fatal(err)
			}
			if f.FunctionID == "ora::hslow" {
				go func() {
					<-asked
					fake.Advance(time.Second)
				}()
			}
			body = string(data)
			call := &bus.Call{FunctionID: f.FunctionID, InvocationID: f.InvocationID, Data: data, Traceparent: f.Traceparent}
			out, err := c.Call(t.Context(), raw, call)
			result.Result, failure = out, bus.AsError(err)
		case *protocol.InvocationResult:
			if !strings.HasPrefix(f.FunctionID, "ora::") || !owner {
				continue
			}
			compared++
			if f.Error != nil && f.Error.Code == "http_request_failed" {
				head := "error sending request for url ("
				if failure == nil || !strings.HasPrefix(failure.Message, head) || strings.Contains(failure.Message, "/slow") {
					t.Errorf("%s: got %v", f.FunctionID, failure)
					continue
				}
				failure.Message = f.Error.Message
			}
			if diff := cmp.Diff(f.Error, failure); diff != "" || string(f.Result) != string(result.Result) {
				t.Errorf("%s: got %s, want %s (-want +got):\n%s", f.FunctionID, result.Result, f.Result, diff)
			}
		case nil:
			if owner = owner && l.note != "owner leaves"; l.request == nil {
				continue
			}
			got, raw := s.last()
			var want, have any
			if err := json.Unmarshal([]byte(l.request.Body), &want); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(raw), &have); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, have); diff != "" || raw != body || got.Method != l.request.Method || got.RequestURI != l.request.URL {
				t.Errorf("%s %s (-want +got):\n%s", got.Method, got.RequestURI, diff)
			}
			for name, value := range l.request.Headers {
				got := got.Header.Get(name)
				switch name {
				case "host", "x-iii-invocation-id", "content-length", "x-iii-timestamp", "x-iii-signature":
					if name != "host" && name != "content-length" && (got == "" || len(got) != len(value)) {
						t.Errorf("%s: got %q, want something like %q", name, got, value)
					}
				default:
					if got != value {
						t.Errorf("%s: got %q, want %q", name, got, value)
					}
				}
			}
		}
	}
	if compared != 10 || len(functions) != 8 {
		t.Errorf("%d answers compared, %d functions registered", compared, len(functions))
	}
}

func (s *server) last() (*http.Request, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.got[len(s.got)-1], s.bodies[len(s.bodies)-1]
}

// recordedLine is a frame, or the note about a request that the server got.
type recordedLine struct {
	frame   protocol.Frame
	note    string
	request *recordedRequest
}

type recordedRequest struct {
	URL, Method, Body string
	Headers           map[string]string
}

func recorded(t testing.TB) []recordedLine {
	t.Helper()
	file, err := os.Open("../sdk/testdata/frames/22-http-backed.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var all []recordedLine
	scan := bufio.NewScanner(file)
	for scan.Scan() {
		var row struct {
			Dir   string
			Frame json.RawMessage
		}
		if err := json.Unmarshal(scan.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		var l recordedLine
		switch row.Dir {
		case "w>e", "e>w":
			if l.frame, err = protocol.Decode(row.Frame); err != nil {
				t.Fatal(err)
			}
		case "note":
			var n struct{ Note string }
			if err := json.Unmarshal(row.Frame, &n); err != nil {
				t.Fatal(err)
			}
			l.note = n.Note
			if text, ok := strings.CutPrefix(n.Note, "http server got "); ok {
				if err := json.Unmarshal([]byte(text), &l.request); err != nil {
					t.Fatal(err)
				}
			}
		default:
			continue
		}
		all = append(all, l)
	}
	if err := scan.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}
