package router_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/router"
)

// remote is a web server that answers with what it was asked.
type remote struct {
	// hold, if set, keeps every request until the caller is gone.
	hold chan struct{}
}

func (remote) Check(invocation json.RawMessage) error {
	if strings.Contains(string(invocation), "bad") {
		return bus.Invalid("url", "an https URL")
	}
	return nil
}

func (m remote) Call(ctx context.Context, invocation json.RawMessage, c *bus.Call) (json.RawMessage, error) {
	if m.hold != nil {
		close(m.hold)
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	switch string(c.Data) {
	case `"panic"`:
		panic("secret")
	case `"fail"`:
		return nil, &bus.Error{Code: "http_error", Message: "HTTP 404 Not Found"}
	case "null":
		return nil, nil
	}
	return bus.Encode(map[string]any{"invocation": invocation, "data": c.Data, "id": c.InvocationID, "principal": c.Principal.ID})
}

func withRemote(m router.Remote) option { return func(c *router.Config) { c.Remote = m } }

const httpBacked = `{"type":"registerfunction","id":"x::http","invocation":{"url":"https://x.example"}}`

func TestFunctionsOfAWebServer(t *testing.T) {
	t.Parallel()
	g := newRig(t, withRemote(remote{}))
	a, b := g.connect("a"), g.connect("b")
	g.FixNamespace(a, "default")
	g.FixNamespace(b, "default")
	g.send(a, strings.Replace(httpBacked, "x.example", "bad", 1))
	if got := a.next(t).(*protocol.RegistrationRejected); got.FunctionID != "x::http" {
		t.Errorf("got %+v", got)
	}
	g.send(a, httpBacked)
	a.silent(t)
	if e, ok := g.registry.Lookup("default", "x::http"); !ok || e.Kind != bus.KindHTTP || e.WorkerID != "worker-a" {
		t.Errorf("got %+v", e)
	}
	for data, want := range map[string]string{
		`{"n":1}`: `{"type":"invocationresult","invocation_id":"` + id1 + `","function_id":"x::http","result":{"data":{"_caller_worker_id":"worker-b","n":1},"id":"` + id1 + `","invocation":{"url":"https://x.example"},"principal":"p-b"}}`,
		`null`:    `{"type":"invocationresult","invocation_id":"` + id1 + `","function_id":"x::http"}`,
		`"fail"`:  `{"type":"invocationresult","invocation_id":"` + id1 + `","function_id":"x::http","error":{"code":"http_error","message":"HTTP 404 Not Found"}}`,
		`"panic"`: `{"type":"invocationresult","invocation_id":"` + id1 + `","function_id":"x::http","error":{"code":"invocation_failed","message":"The handler of x::http panicked."}}`,
	} {
		id := clock.Random().UUID()
		g.send(b, `{"type":"invokefunction","invocation_id":"`+id+`","function_id":"x::http","data":`+data+`}`)
		got, wanted := map[string]any{}, map[string]any{}
		if err := errors.Join(json.Unmarshal([]byte(b.text(t)), &got), json.Unmarshal([]byte(strings.ReplaceAll(want, id1, id)), &wanted)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(wanted, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", data, diff)
		}
	}
}

func TestSocketsAndWebServersShareTheStack(t *testing.T) {
	t.Parallel()
	g := newRig(t, withRemote(remote{}))
	a, b, c := g.connect("a"), g.connect("b"), g.connect("c")
	for _, conn := range []*conn{a, b, c} {
		g.FixNamespace(conn, "default")
	}
	invoke := `{"type":"invokefunction","invocation_id":"` + id1 + `","function_id":"x::http","data":{"n":1}}`
	g.send(a, httpBacked)
	g.send(b, `{"type":"registerfunction","id":"x::http"}`) // on top
	g.send(c, invoke)
	if call := b.call(t); call.FunctionID != "x::http" {
		t.Errorf("got %+v", call)
	}
	g.Detach(b)
	if text := c.text(t); !strings.Contains(text, "invocation_stopped") {
		t.Errorf("got %s", text)
	}
	out, err := g.Worker("w").Invoke(t.Context(), bus.Invocation{FunctionID: "x::http", Data: json.RawMessage(`{}`)})
	if err != nil || !strings.Contains(string(out), "x.example") {
		t.Errorf("underneath: %s, %v", out, err)
	}
	g.send(a, `{"type":"registerfunction","id":"x::http"}`) // the same connection serves it itself now
	go func() {
		call := a.call(t)
		g.answer(a, call, `"own"`)
	}()
	if out, err := g.Worker("w").Invoke(t.Context(), bus.Invocation{FunctionID: "x::http", Data: json.RawMessage(`{}`)}); err != nil || string(out) != `"own"` {
		t.Errorf("got %s, %v", out, err)
	}
}

func TestARequestCountsForItsWorkerAndEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	g := newRig(t, withRemote(remote{hold: asked}))
	a := g.connect("a")
	g.FixNamespace(a, "default")
	g.send(a, httpBacked)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := g.Worker("w").Invoke(ctx, bus.Invocation{FunctionID: "x::http", Data: json.RawMessage(`{}`)})
		done <- err
	}()
	<-asked
	if got := g.Active("a"); got != 1 {
		t.Errorf("%d calls, want 1", got)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
