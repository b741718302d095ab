package trigger_test

import (
	"context"
	"encoding/json"
	"errors"
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
	"github.com/iii-aws/harness/engine/registry"
	"github.com/iii-aws/harness/engine/router"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/engine/trigger"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

var errDisk = errors.New("disk")

// rig is a table and a dispatcher whose calls go to functions of the test.
type rig struct {
	*trigger.Table
	*trigger.Dispatcher
	t        testing.TB
	db       *embedded.DB
	store    *faulty
	registry *registry.Registry
	clock    *clock.Fake
	log      *logLines
	calls    *calls
	wire     *wire
}

type option func(*trigger.Config, *trigger.Delivery)

func newRig(t testing.TB, options ...option) *rig {
	t.Helper()
	db, err := embedded.Open(context.Background(), embedded.Options{Dir: t.TempDir(), NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	g := &rig{t: t, db: db, store: &faulty{Store: db.State()}, clock: clock.NewFake(start), log: &logLines{}}
	if g.registry, err = registry.New(t.Context(), registry.Config{State: g.store, Clock: g.clock}); err != nil {
		t.Fatal(err)
	}
	g.calls = &calls{serve: map[string]bus.Handler{}, made: make(chan bus.Invocation, 8192)}
	g.wire = &wire{gone: map[string]bool{}, sent: make(chan string, 8192)}
	g.open(options...)
	return g
}

// open makes the table and the dispatcher, as a start of the bus does.
func (g *rig) open(options ...option) {
	g.t.Helper()
	logger := slog.New(slog.NewTextHandler(g.log, nil))
	cfg := trigger.Config{State: g.store, Registry: g.registry, IDs: clock.Sequence(3), Clock: g.clock, Send: g.wire.send, Logger: logger}
	d := trigger.Delivery{Invoker: g.calls, Clock: g.clock, Logger: logger}
	for _, o := range options {
		o(&cfg, &d)
	}
	var err error
	if g.Table, err = trigger.NewTable(g.t.Context(), cfg); err != nil {
		g.t.Fatal(err)
	}
	d.Table = g.Table
	if g.Dispatcher, err = trigger.NewDispatcher(d); err != nil {
		g.t.Fatal(err)
	}
}

// calls is an Invoker that keeps what is called. Functions that the test does not serve answer nothing.
type calls struct {
	mu    sync.Mutex
	serve map[string]bus.Handler
	made  chan bus.Invocation
}

func (c *calls) on(id string, h bus.Handler) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serve[id] = h
}

func (c *calls) Invoke(ctx context.Context, in bus.Invocation) (json.RawMessage, error) {
	c.mu.Lock()
	h := c.serve[in.FunctionID]
	c.mu.Unlock()
	c.made <- in
	if h == nil {
		return nil, nil
	}
	call := bus.CallFrom(ctx)
	return h(ctx, &bus.Call{FunctionID: in.FunctionID, Data: in.Data, Traceparent: call.Traceparent, Baggage: call.Baggage})
}

// next is the next call that was made.
func (c *calls) next(t testing.TB) bus.Invocation {
	t.Helper()
	select {
	case in := <-c.made:
		return in
	case <-time.After(10 * time.Second):
		t.Fatal("nothing was called")
		return bus.Invocation{}
	}
}

func (c *calls) none(t testing.TB) {
	t.Helper()
	select {
	case in := <-c.made:
		t.Errorf("%s was called with %s", in.FunctionID, in.Data)
	default:
	}
}

func returns(result string, err error) bus.Handler {
	return func(context.Context, *bus.Call) (json.RawMessage, error) { return json.RawMessage(result), err }
}

func socket(name string, role bus.Role) router.Caller {
	return router.Caller{Connection: name, WorkerID: "w-" + name, Namespace: "default", Principal: bus.Principal{ID: "p-" + name, Role: role}}
}

// bind registers a trigger of a connection as its frame says.
func (g *rig) bind(c router.Caller, frame string) error {
	g.t.Helper()
	f, err := protocol.Decode([]byte(frame))
	if err != nil {
		g.t.Fatal(err)
	}
	g.attached(c)
	return g.Register(g.t.Context(), c, f.(*protocol.RegisterTrigger))
}

// attached puts a connection into the registry, unless it is there.
func (g *rig) attached(c router.Caller) {
	if _, ok := g.registry.Worker(c.Connection); !ok {
		g.registry.Connect(c.Connection, c.WorkerID, "", c.Principal)
	}
}

func change(scope, key, old, value string) state.Change {
	c := state.Change{Key: state.Key{Scope: scope, Key: key}, Type: state.Updated, Version: 1}
	if old != "" {
		c.Old = json.RawMessage(old)
	} else {
		c.Type = state.Created
	}
	if value != "" {
		c.New = json.RawMessage(value)
	} else {
		c.Type = state.Deleted
	}
	return c
}

// faulty fails its writes or its lists.
type faulty struct {
	state.Store
	writes, lists bool
}

func (f *faulty) Submit(ctx context.Context, w []state.Write, after ...commit.Ticket) *state.Pending {
	if f.writes {
		return commit.Resolved[[]state.Change](nil, errDisk)
	}
	return f.Store.Submit(ctx, w, after...)
}

func (f *faulty) List(ctx context.Context, scope string, o state.ListOptions) ([]state.Item, error) {
	if f.lists {
		return nil, errDisk
	}
	return f.Store.List(ctx, scope, o)
}

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
