package registry_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/commit"
	"github.com/iii-aws/harness/engine/embedded"
	"github.com/iii-aws/harness/engine/registry"
	"github.com/iii-aws/harness/engine/state"
)

const policy = "policy::check_permissions"

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func newStore(t testing.TB) state.Store {
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
	return db.State()
}

func open(t testing.TB, s state.Store) *registry.Registry {
	t.Helper()
	r, err := registry.New(t.Context(), registry.Config{State: s, Clock: clock.NewFake(start), Version: "9.9", Sticky: []string{"own::sticky"}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func newRegistry(t testing.TB) *registry.Registry { return open(t, newStore(t)) }

// connect adds connections, whose worker ids are their names in upper case.
func connect(r *registry.Registry, names ...string) {
	for _, name := range names {
		r.Connect(name, strings.ToUpper(name), "127.0.0.1", bus.Principal{ID: "p-" + name})
	}
}

func register(t testing.TB, r *registry.Registry, connection, id string) {
	t.Helper()
	if err := r.Register(t.Context(), connection, "default", id, registry.Function{}); err != nil {
		t.Fatalf("%s registers %s: %v", connection, id, err)
	}
}

func serve(t testing.TB, r *registry.Registry, worker string, ids ...string) {
	t.Helper()
	functions, handlers := map[string]registry.Function{}, map[string]bus.Handler{}
	for _, id := range ids {
		functions[id] = registry.Function{Description: "built in"}
		handlers[id] = func(context.Context, *bus.Call) (json.RawMessage, error) { return nil, nil }
	}
	if err := r.RegisterBuiltin(registry.Builtin{Name: worker}, functions, handlers); err != nil {
		t.Fatal(err)
	}
}

// server is who serves an id: a connection, "builtin", "away" or "nobody".
func server(r *registry.Registry, id string) string {
	reg, st := r.Resolve("default", id)
	switch {
	case reg == nil && st == registry.Away:
		return "away"
	case reg == nil:
		return "nobody"
	case reg.Builtin:
		return "builtin"
	}
	return reg.Connection
}

func want(t testing.TB, r *registry.Registry, id, who string) {
	t.Helper()
	if got := server(r, id); got != who {
		t.Errorf("%s is served by %s, want %s", id, got, who)
	}
	if e, ok := r.Lookup("", id); ok != (who != "away" && who != "nobody") || ok && e.FunctionID != id {
		t.Errorf("Lookup(%s) = %+v, %v while it is served by %s", id, e, ok, who)
	}
}

var errDisk = errors.New("disk")

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
