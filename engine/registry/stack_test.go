package registry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/registry"
)

func TestMostRecentRegistrationServes(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	serve(t, r, "orders", "orders::price")
	connect(r, "a", "b", "c")
	want(t, r, "orders::price", "builtin")
	register(t, r, "a", "orders::price")
	want(t, r, "orders::price", "a")
	register(t, r, "b", "orders::price")
	want(t, r, "orders::price", "b")
	register(t, r, "a", "orders::price") // again: to the top
	want(t, r, "orders::price", "a")
	register(t, r, "c", "orders::price")
	if r.Unregister("b", "default", "orders::price") != true || r.Unregister("b", "default", "orders::price") != false {
		t.Error("b has one entry to remove")
	}
	want(t, r, "orders::price", "c")
	r.Disconnect("c")
	want(t, r, "orders::price", "a")
	r.Disconnect("a")
	want(t, r, "orders::price", "builtin")
	if r.Unregister("gone", "default", "orders::price") || r.Unregister("b", "default", "nope") {
		t.Error("nothing to remove was removed")
	}
	r.Disconnect("nobody")
	want(t, r, "nobody::serves", "nobody")
}

func TestNamespacesAreStrict(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	connect(r, "a")
	if err := r.Register(t.Context(), "a", "shop", "x::y", registry.Function{}); err != nil {
		t.Fatal(err)
	}
	want(t, r, "x::y", "nobody")
	register(t, r, "a", "x::z")
	if err := r.Register(t.Context(), "a", "shop", "x::z", registry.Function{}); err != nil {
		t.Fatal(err)
	}
	if got := r.Namespaces("x::z"); !slices.Equal(got, []string{"default", "shop"}) {
		t.Errorf("got %v", got)
	}
	if got := r.Namespaces("x::y"); !slices.Equal(got, []string{"shop"}) {
		t.Errorf("got %v", got)
	}
	if !r.Owns("a", "x::y") || r.Owns("a", "no") || r.Owns("b", "x::y") {
		t.Error("Owns is wrong")
	}
	r.Disconnect("a")
	if got := r.Namespaces("x::z"); len(got) > 0 {
		t.Errorf("got %v after the connection has gone", got)
	}
}

func TestWhatCannotBeRegistered(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	connect(r, "a")
	var reserved *registry.ReservedError
	if err := r.Register(t.Context(), "a", "default", "engine::foo", registry.Function{}); !errors.As(err, &reserved) || bus.Code(err) != "FORBIDDEN" {
		t.Errorf("engine::foo: %v", err)
	}
	var gone *registry.UnknownConnectionError
	for _, id := range []string{"x::y", policy} {
		if err := r.Register(t.Context(), "z", "default", id, registry.Function{}); !errors.As(err, &gone) || bus.Code(err) != "invocation_stopped" {
			t.Errorf("%s from a connection that has gone: %v", id, err)
		}
	}
	serve(t, r, "one", "w::f")
	h := map[string]bus.Handler{"w::f": func(context.Context, *bus.Call) (json.RawMessage, error) { return nil, nil }}
	for name, err := range map[string]error{
		"two workers":     r.RegisterBuiltin(registry.Builtin{Name: "two"}, map[string]registry.Function{"w::f": {}}, h),
		"no handler":      r.RegisterBuiltin(registry.Builtin{Name: "two"}, map[string]registry.Function{"w::g": {}}, h),
		"no name":         r.RegisterBuiltin(registry.Builtin{}, nil, nil),
		"no dependencies": func() error { _, err := registry.New(t.Context(), registry.Config{}); return err }(),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := r.RegisterBuiltin(registry.Builtin{Name: "one"}, map[string]registry.Function{"w::f": {}}, h); err != nil {
		t.Errorf("the same worker again: %v", err)
	}
}

// model is the rules of a stack in the plainest form.
type model struct {
	base                     bool
	above                    []string
	sticky, replaced, closed bool
}

func (m *model) server() string {
	switch {
	case m.closed:
		return "away"
	case len(m.above) > 0:
		return m.above[len(m.above)-1]
	case m.base:
		return "builtin"
	}
	return "nobody"
}

func (m *model) remove(connection string) {
	i := slices.Index(m.above, connection)
	if i < 0 {
		return
	}
	if m.replaced && !m.closed && i == len(m.above)-1 {
		m.closed = true
	}
	m.above = slices.Delete(m.above, i, i+1)
}

func (m *model) add(connection string) {
	if i := slices.Index(m.above, connection); i >= 0 {
		m.above = slices.Delete(m.above, i, i+1)
	}
	m.above = append(m.above, connection)
	m.closed, m.replaced = false, m.replaced || m.sticky
}

// TestStackAgainstModel runs random histories, with restarts of the bus.
func TestStackAgainstModel(t *testing.T) {
	t.Parallel()
	ids := map[string]bool{"a::plain": false, "b::plain": false, policy: true, "own::sticky": true}
	names := []string{"c1", "c2", "c3", "c4"}
	for seed := range uint64(12) {
		random := rand.New(rand.NewPCG(seed, 1))
		store := newStore(t)
		r := open(t, store)
		models := map[string]*model{}
		var keys []string
		for id, sticky := range ids {
			models[id] = &model{base: id != "b::plain", sticky: sticky}
			keys = append(keys, id)
		}
		slices.Sort(keys)
		boot := func() {
			serve(t, r, "builtin", "a::plain", policy, "own::sticky")
			connect(r, names...)
		}
		boot()
		var history []string
		for range 150 {
			id, connection := keys[random.IntN(len(keys))], names[random.IntN(len(names))]
			m := models[id]
			switch n := random.IntN(20); {
			case n < 9:
				history = append(history, connection+" registers "+id)
				register(t, r, connection, id)
				m.add(connection)
			case n < 13:
				history = append(history, connection+" unregisters "+id)
				r.Unregister(connection, "default", id)
				m.remove(connection)
			case n < 17:
				history = append(history, connection+" leaves")
				r.Disconnect(connection)
				connect(r, connection)
				for _, m := range models {
					m.remove(connection)
				}
			case n < 19:
				history = append(history, "release "+id)
				released, _, _, err := r.Release(t.Context(), "default", id)
				if err != nil || released != m.replaced {
					t.Fatalf("seed %d: released %v, %v, want %v after %v", seed, released, err, m.replaced, history)
				}
				m.replaced, m.closed = false, false
			default:
				history = append(history, "restart")
				r = open(t, store)
				boot()
				for _, m := range models {
					m.above, m.closed = nil, m.replaced
				}
			}
			for _, id := range keys {
				if got, want := server(r, id), models[id].server(); got != want {
					t.Fatalf("seed %d: %s is served by %s, want %s after %v", seed, id, got, want, history)
				}
			}
			var listed []string
			for _, e := range r.List("") {
				listed = append(listed, e.FunctionID)
			}
			var served []string
			for _, id := range keys {
				if s := models[id].server(); s != "away" && s != "nobody" {
					served = append(served, id)
				}
			}
			if diff := cmp.Diff(served, listed); diff != "" {
				t.Fatalf("seed %d: listed (-want +got):\n%s after %v", seed, diff, history)
			}
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	serve(t, r, "w", "w::f")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			name := fmt.Sprint("c", i)
			for range 50 {
				connect(r, name)
				register(t, r, name, "w::f")
				register(t, r, name, "x::"+name)
				register(t, r, name, policy)
				if server(r, "w::f") == "nobody" || server(r, "x::"+name) != name {
					t.Errorf("%s lost its function", name)
				}
				r.All()
				r.Workers()
				r.Disconnect(name)
			}
		})
	}
	wg.Wait()
	want(t, r, "w::f", "builtin")
	want(t, r, policy, "away")
	if got := len(r.All()); got != 1 {
		t.Errorf("%d functions are left, want 1", got)
	}
}

func TestChanged(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	for _, change := range []func(){
		func() { connect(r, "a") },
		func() { register(t, r, "a", "x::y") },
		func() { r.Unregister("a", "default", "x::y") },
		func() { r.Announce("a", registry.Announcement{Name: "n"}) },
		func() { r.FixNamespace("a", "shop") },
		func() { r.SetStatus("a", registry.StatusSuspect) },
		func() { r.Disconnect("a") },
		func() { serve(t, r, "w", "w::f") },
	} {
		c := r.Changed()
		select {
		case <-c:
			t.Fatal("signalled before the change")
		default:
		}
		change()
		select {
		case <-c:
		default:
			t.Error("a change was not signalled")
		}
	}
	c := r.Changed()
	r.Disconnect("a")
	r.Unregister("a", "default", "x::y")
	select {
	case <-c:
		t.Error("signalled without a change")
	default:
	}
}

func BenchmarkLookup(b *testing.B) {
	r := newRegistry(b)
	var ids []string
	for i := range 500 {
		ids = append(ids, fmt.Sprintf("worker%d::function%d", i%20, i))
	}
	serve(b, r, "w", ids...)
	connect(r, "a")
	register(b, r, "a", ids[7])
	b.ReportAllocs()
	b.Run("builtin", func(b *testing.B) {
		for b.Loop() {
			if _, ok := r.Lookup("default", ids[3]); !ok {
				b.Fatal("not found")
			}
		}
	})
	b.Run("resolve", func(b *testing.B) {
		for b.Loop() {
			if reg, _ := r.Resolve("default", ids[7]); reg == nil {
				b.Fatal("not found")
			}
		}
	})
}
