package sdk

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/client"
)

// driven is a stock worker in a test.
type driven struct {
	*Worker
	t testing.TB
}

// attach starts a stock worker and connects it to a server, with the default
// settings of its SDK; to a strict one as one would to API Gateway: with a
// token, and without telemetry.
func attach(t testing.TB, l Language, s *Server, name string) *driven {
	t.Helper()
	return attachAt(t, l, s, s.Ready.Bus, name)
}

// attachAt connects to a server by another address.
func attachAt(t testing.TB, l Language, s *Server, url, name string) *driven {
	t.Helper()
	options := args{"workerName": name}
	var env []string
	if s.Ready.Stage != "" {
		options["headers"] = args{"Authorization": "Bearer " + s.Ready.Token}
		env = []string{"OTEL_ENABLED=false"}
	}
	w := start(t, l, env...)
	w.do("connect", args{"url": url, "options": options})
	return w
}

// start starts a stock worker that is not connected yet.
func start(t testing.TB, l Language, env ...string) *driven {
	t.Helper()
	w, err := StartWorker(l, t.TempDir(), env...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.Kill()
		if t.Failed() {
			t.Logf("the %s worker said:\n%s", l, w.Log)
		}
	})
	return &driven{w, t}
}

type args = map[string]any

// do carries out an operation that must succeed.
func (w *driven) do(op string, a args) json.RawMessage {
	w.t.Helper()
	out, err := w.Do(within(w.t), op, a)
	if err != nil {
		w.t.Fatalf("%s %s %v: %v", w.Language, op, a, err)
	}
	return out
}

// fails carries out an operation that the SDK must end with an error of this
// code and message.
func (w *driven) fails(op string, a args, code, message string) {
	w.t.Helper()
	out, err := w.Do(within(w.t), op, a)
	var f *Failure
	if !errors.As(err, &f) {
		w.t.Fatalf("%s %s %v: got %s, %v; want the error %s", w.Language, op, a, out, err, code)
	}
	if diff := cmp.Diff(Failure{Name: "InvocationError", Code: code, Message: code + ": " + message}, *f); diff != "" {
		w.t.Errorf("%s %s %v (-want +got):\n%s", w.Language, op, a, diff)
	}
}

// function registers a function.
func (w *driven) function(id, does string) { w.do("function", args{"id": id, "does": does}) }

// call calls a function and returns its result.
func (w *driven) call(id string, payload any) json.RawMessage {
	w.t.Helper()
	return w.do("call", args{"function_id": id, "payload": payload})
}

// called awaits a call of a function.
func (w *driven) called(id string) Event {
	w.t.Helper()
	return w.await(fmt.Sprintf("a call of %s", id), func(e Event) bool { return e.Event == "called" && e.FunctionID == id })
}

func (w *driven) await(what string, match func(Event) bool) Event {
	w.t.Helper()
	e, err := w.Await(within(w.t), match)
	if err != nil {
		w.t.Fatalf("%s: %s: %v", w.Language, what, err)
	}
	return e
}

// same wants a value, as JSON.
func same(t testing.TB, what string, got json.RawMessage, want string) {
	t.Helper()
	var g, w any
	if err := errors.Join(json.Unmarshal(got, &g), json.Unmarshal([]byte(want), &w)); err != nil {
		t.Fatalf("%s: %v: %s, %s", what, err, got, want)
	}
	if diff := cmp.Diff(w, g); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// dial is a Go client with the operator's token.
func dial(t testing.TB, s *Server) *client.Client {
	t.Helper()
	c, err := client.Dial(within(t), client.Options{URL: s.Ready.Bus, Token: s.Ready.Token, Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// invoke calls a function of the bus and decodes the result.
func invoke(t testing.TB, c bus.Invoker, id, data string, result any) {
	t.Helper()
	out, err := c.Invoke(within(t), bus.Invocation{FunctionID: id, Data: json.RawMessage(data)})
	if err == nil && result != nil && len(out) > 0 {
		err = json.Unmarshal(out, result)
	}
	if err != nil {
		t.Fatalf("%s %s: %v", id, data, err)
	}
}

// served waits until a function is on the bus, or has left it.
func served(t testing.TB, c bus.Invoker, id string, want bool) {
	t.Helper()
	ctx := within(t)
	for {
		var list struct {
			Functions []struct {
				ID string `json:"function_id"`
			} `json:"functions"`
		}
		invoke(t, c, "engine::functions::list", `{"prefix":`+quote(id)+`,"include_internal":true}`, &list)
		found := false
		for _, f := range list.Functions {
			found = found || f.ID == id
		}
		if found == want {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("%s: served %v, want %v", id, found, want)
		}
	}
}

// left waits until a worker is gone for good.
func left(t testing.TB, c bus.Invoker, name string) {
	t.Helper()
	ctx := within(t)
	for {
		var list struct {
			Workers []json.RawMessage `json:"workers"`
		}
		invoke(t, c, "engine::workers::list", `{"search":`+quote(name)+`}`, &list)
		if len(list.Workers) == 0 {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("%s is still there: %s", name, list.Workers)
		}
	}
}

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// each runs a test for both SDKs, against a server of its own as it is by
// default and as API Gateway is.
func each(t *testing.T, test func(t *testing.T, l Language, s *Server)) {
	t.Parallel()
	for _, l := range Languages {
		on(t, l, false, test)
		on(t, l, true, test)
	}
}

// pair is each for tests that take long: the default server for one SDK, the
// strict one for the other.
func pair(t *testing.T, test func(t *testing.T, l Language, s *Server)) {
	t.Parallel()
	on(t, Node, false, test)
	on(t, Python, true, test)
}

func on(t *testing.T, l Language, strict bool, test func(t *testing.T, l Language, s *Server)) {
	name, flags := "local", []string(nil)
	if strict {
		name, flags = "strict", []string{"--strict"}
	}
	t.Run(string(l)+" "+name, func(t *testing.T) {
		stock(t, l)
		t.Parallel()
		test(t, l, serve(t, "", flags...))
	})
}
