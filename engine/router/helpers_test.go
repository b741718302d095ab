package router_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/commit"
	"github.com/iii-aws/harness/engine/embedded"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/queue"
	"github.com/iii-aws/harness/engine/registry"
	"github.com/iii-aws/harness/engine/router"
	"github.com/iii-aws/harness/engine/state"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const (
	id1         = "0d1f0000-0000-4000-8000-00000000000a"
	traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
)

// rig is a router with a fake clock.
type rig struct {
	*router.Router
	t        testing.TB
	registry *registry.Registry
	state    *faultyState
	queue    *fakeQueue
	clock    *clock.Fake
	log      *logLines
}

// option changes the config of a rig.
type option func(*router.Config)

func newRig(t testing.TB, options ...option) *rig {
	t.Helper()
	db, err := embedded.Open(context.Background(), embedded.Options{Dir: t.TempDir(), NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	g := &rig{
		t: t, state: &faultyState{Store: db.State()}, queue: &fakeQueue{configs: map[string]queue.Config{"mail": {Name: "mail"}, "turn-step": {Name: "turn-step", Internal: true}}},
		clock: clock.NewFake(start), log: &logLines{},
	}
	logger := slog.New(slog.NewTextHandler(g.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if g.registry, err = registry.New(t.Context(), registry.Config{State: g.state, Clock: g.clock, Logger: logger}); err != nil {
		t.Fatal(err)
	}
	cfg := router.Config{Grace: -1, Registry: g.registry, State: g.state, Queue: g.queue, Clock: g.clock, IDs: clock.Sequence(7), Logger: logger}
	for _, o := range options {
		o(&cfg)
	}
	if g.Router, err = router.New(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := g.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// serve registers one function of a built-in worker that is named after the first part of the id.
func (g *rig) serve(id string, meta bus.Meta, h bus.Handler) {
	g.t.Helper()
	worker, _, _ := strings.Cut(id, "::")
	err := g.Serve(registry.Builtin{Name: worker}, map[string]registry.Function{id: {Meta: meta}}, map[string]bus.Endpoint{id: bus.Raw(h)})
	if err != nil {
		g.t.Fatal(err)
	}
}

// echo answers with the call as the handler sees it.
func echo(_ context.Context, c *bus.Call) (json.RawMessage, error) {
	return bus.Encode(map[string]any{
		"data": c.Data, "metadata": c.Metadata, "principal": c.Principal, "worker": c.Worker, "connection": c.Connection,
		"key": c.IdempotencyKey, "id": c.InvocationID, "traceparent": c.Traceparent, "baggage": c.Baggage, "namespace": c.Namespace,
		"deadline": !c.Deadline.IsZero(),
	})
}

// conn is a connection that keeps what it is sent.
type conn struct {
	id        string
	principal bus.Principal
	actAs     bool

	// onSend takes a frame in place of the list, within Send.
	onSend func(protocol.Frame)

	mu     sync.Mutex
	fail   error
	frames []protocol.Frame
	more   chan struct{}
	fixed  string
	closed bool
	cut    bool
	unsent []protocol.Frame
}

// connect attaches a connection; its worker id is a UUID made of its name.
func (g *rig) connect(name string) *conn {
	return g.connectAs(name, bus.Principal{ID: "p-" + name, Role: bus.RoleWorker, WorkspaceID: "ws"})
}

func (g *rig) connectAs(name string, p bus.Principal) *conn {
	c := &conn{id: name, principal: p, more: make(chan struct{}, 1024)}
	g.Attach(c)
	return c
}

func (c *conn) ID() string               { return c.id }
func (c *conn) WorkerID() string         { return "worker-" + c.id }
func (c *conn) Principal() bus.Principal { return c.principal }
func (c *conn) MayActForOthers() bool    { return c.actAs }
func (c *conn) RemoteIP() string         { return "127.0.0.1" }
func (c *conn) NamespaceFixed(ns string) { c.fixed = ns }
func (c *conn) ReattachToken() string    { return "token-" + c.id }
func (c *conn) Cut() bool                { return c.cut }

func (c *conn) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
}

// Unsent ends the connection: what it was sent and nobody has looked at yet was not written.
func (c *conn) Unsent() []protocol.Frame {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail = bus.ErrGone
	return c.unsent
}

func (c *conn) Send(ctx context.Context, f protocol.Frame) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	fail := c.fail
	c.mu.Unlock()
	if fail != nil {
		return fail
	}
	if _, err := protocol.Encode(f); err != nil {
		return err
	}
	if c.onSend != nil {
		c.onSend(f)
		return nil
	}
	c.mu.Lock()
	c.frames = append(c.frames, f)
	c.mu.Unlock()
	c.more <- struct{}{}
	return nil
}

// failWith lets every Send fail.
func (c *conn) failWith(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail = err
}

// next is the next frame that the connection was sent.
func (c *conn) next(t testing.TB) protocol.Frame {
	t.Helper()
	select {
	case <-c.more:
	case <-time.After(10 * time.Second):
		t.Fatalf("%s was sent nothing", c.id)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.frames[0]
	c.frames = c.frames[1:]
	return f
}

// text is the next frame as it is on the wire.
func (c *conn) text(t testing.TB) string {
	t.Helper()
	b, err := protocol.Encode(c.next(t))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// call is the next frame, which must be a call.
func (c *conn) call(t testing.TB) *protocol.InvokeFunction {
	t.Helper()
	f, ok := c.next(t).(*protocol.InvokeFunction)
	if !ok {
		t.Fatalf("%s was sent a %T, want a call", c.id, f)
	}
	return f
}

// silent fails if the connection was sent anything.
func (c *conn) silent(t testing.TB) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.frames {
		b, _ := protocol.Encode(f)
		t.Errorf("%s was sent %s, want nothing", c.id, b)
	}
}

// register registers functions of a connection.
func (g *rig) register(c *conn, ids ...string) {
	for _, id := range ids {
		g.RegisterFunction(g.t.Context(), c, &protocol.RegisterFunction{ID: id})
	}
}

// send decodes a frame that a connection sends and hands it to the router.
func (g *rig) send(c *conn, text string) {
	g.t.Helper()
	f, err := protocol.Decode([]byte(text))
	if err != nil {
		g.t.Fatalf("%s: %v", text, err)
	}
	ctx := context.Background()
	switch f := f.(type) {
	case *protocol.InvokeFunction:
		g.HandleInvoke(ctx, c, f)
	case *protocol.InvocationResult:
		g.HandleResult(c, f)
	case *protocol.RegisterFunction:
		g.RegisterFunction(ctx, c, f)
	case *protocol.UnregisterFunction:
		g.UnregisterFunction(c, f)
	case *protocol.RegisterTrigger:
		g.RegisterTrigger(ctx, c, f)
	case *protocol.UnregisterTrigger:
		g.UnregisterTrigger(c, f)
	default:
		g.t.Fatalf("no such frame: %T", f)
	}
}

// answer answers a call with a result.
func (g *rig) answer(c *conn, call *protocol.InvokeFunction, result string) {
	g.HandleResult(c, &protocol.InvocationResult{InvocationID: call.InvocationID, FunctionID: call.FunctionID, Result: json.RawMessage(result)})
}

// row waits for a row of call_results.
func (g *rig) row(key string) string {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), 10*time.Second)
	defer cancel()
	k := state.Key{Scope: "call_results", Key: key}
	for range g.state.Watch(ctx, k) {
		if item, ok, err := g.state.Get(ctx, k); err == nil && ok {
			return string(item.Value)
		}
	}
	g.t.Fatalf("no row %s", key)
	return ""
}

func (g *rig) noRow(key string) {
	g.t.Helper()
	if item, ok, err := g.state.Get(g.t.Context(), state.Key{Scope: "call_results", Key: key}); ok || err != nil {
		g.t.Errorf("row %s: %s, %v, want none", key, item.Value, err)
	}
}

// logLines keeps what is logged.
type logLines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logLines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logLines) has(part string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), part)
}

// faultyState fails the writes of call_results as it is told.
type faultyState struct {
	state.Store
	mu   sync.Mutex
	errs []error
}

func (f *faultyState) failWith(errs ...error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errs = errs
}

func (f *faultyState) Submit(ctx context.Context, w []state.Write, after ...commit.Ticket) *state.Pending {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.errs) > 0 && w[0].Scope == "call_results" {
		err := f.errs[0]
		f.errs = f.errs[1:]
		return commit.Resolved[[]state.Change](nil, err)
	}
	return f.Store.Submit(ctx, w, after...)
}

// fakeQueue keeps what it is sent.
type fakeQueue struct {
	queue.Queue
	configs map[string]queue.Config

	mu   sync.Mutex
	sent []queue.Message
	err  error
}

func (q *fakeQueue) Config(name string) (queue.Config, bool) {
	c, ok := q.configs[name]
	return c, ok
}

func (q *fakeQueue) Submit(_ context.Context, m queue.Message, _ ...commit.Ticket) *commit.Promise[queue.Sent] {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, ok := q.configs[m.Queue]; !ok {
		return commit.Resolved(queue.Sent{}, error(&queue.UnknownError{Queue: m.Queue}))
	}
	if q.err != nil {
		return commit.Resolved(queue.Sent{}, q.err)
	}
	q.sent = append(q.sent, m)
	return commit.Resolved(queue.Sent{ID: fmt.Sprint("m", len(q.sent))}, nil)
}

// refuse is an Access that refuses some ids, whatever is asked.
type refuse map[string]bool

func (r refuse) decide(id string) error {
	if r[id] {
		return &bus.Error{Code: "FORBIDDEN", Message: id + " is not in the list"}
	}
	return nil
}

func (r refuse) Call(_ router.Caller, _, id string) error     { return r.decide(id) }
func (r refuse) Register(_ router.Caller, _, id string) error { return r.decide(id) }
func (r refuse) Namespace(_ router.Caller, ns string) error   { return r.decide(ns) }
func (r refuse) Bind(_ router.Caller, kind, _, id string) error {
	return errors.Join(r.decide(kind), r.decide(id))
}

func withAccess(a router.Access) option { return func(c *router.Config) { c.Access = a } }

func builtin(name string) registry.Builtin { return registry.Builtin{Name: name} }

func functions(ids ...string) map[string]registry.Function {
	m := map[string]registry.Function{}
	for _, id := range ids {
		m[id] = registry.Function{}
	}
	return m
}
