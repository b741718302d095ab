package registry_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/iii-aws/harness/engine/registry"
	"github.com/iii-aws/harness/engine/state"
)

func TestStickyFailsClosed(t *testing.T) {
	t.Parallel()
	for _, id := range append(registry.DefaultSticky(), "own::sticky") {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			store := newStore(t)
			r := open(t, store)
			serve(t, r, "builtin", id)
			connect(r, "lax", "strict")
			want(t, r, id, "builtin")
			register(t, r, "lax", id)
			register(t, r, "strict", id)
			want(t, r, id, "strict")
			r.Disconnect("strict")
			want(t, r, id, "away") // neither lax nor the built-in one
			r.Disconnect("lax")
			want(t, r, id, "away")

			r = open(t, store) // the bus starts again
			serve(t, r, "builtin", id)
			want(t, r, id, "away")
			connect(r, "strict")
			register(t, r, "strict", id)
			want(t, r, id, "strict")
			if !r.Unregister("strict", "default", id) {
				t.Error("strict has an entry to remove")
			}
			want(t, r, id, "away")

			released, now, ok, err := r.Release(t.Context(), "default", id)
			if err != nil || !released || !ok || now.WorkerName != "builtin" {
				t.Errorf("release gave %v, %+v, %v, %v", released, now, ok, err)
			}
			want(t, r, id, "builtin")
			r = open(t, store)
			serve(t, r, "builtin", id)
			want(t, r, id, "builtin")
		})
	}
}

func TestReleaseWhileTheReplacementServes(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	serve(t, r, "builtin", policy)
	connect(r, "a")
	register(t, r, "a", policy)
	if released, now, ok, err := r.Release(t.Context(), "default", policy); err != nil || !released || !ok || now.Connection != "a" {
		t.Errorf("release gave %v, %+v, %v, %v", released, now, ok, err)
	}
	want(t, r, policy, "a")
	r.Disconnect("a")
	want(t, r, policy, "builtin")
	if released, _, _, err := r.Release(t.Context(), "default", policy); err != nil || released {
		t.Errorf("second release gave %v, %v", released, err)
	}
	if released, _, ok, err := r.Release(t.Context(), "default", "plain::id"); err != nil || released || ok {
		t.Errorf("release of a plain id gave %v, %v, %v", released, ok, err)
	}
}

func TestAReplacementThatIsNotStoredDoesNotServe(t *testing.T) {
	t.Parallel()
	store := &faulty{Store: newStore(t), writes: true}
	r := open(t, store)
	serve(t, r, "builtin", policy)
	connect(r, "a")
	if err := r.Register(t.Context(), "a", "default", policy, registry.Function{}); !errors.Is(err, errDisk) {
		t.Fatalf("got %v, want the store's error", err)
	}
	want(t, r, policy, "builtin")
	register(t, r, "a", "plain::id") // needs no store
	store.writes = false
	register(t, r, "a", policy)
	store.writes = true
	register(t, r, "a", policy) // is stored already
	r.Disconnect("a")
	if _, _, _, err := r.Release(t.Context(), "default", policy); !errors.Is(err, errDisk) {
		t.Errorf("got %v, want the store's error", err)
	}
	want(t, r, policy, "away")
}

func TestMarksThatCannotBeRead(t *testing.T) {
	t.Parallel()
	store := &faulty{Store: newStore(t), lists: true}
	cfg := registry.Config{State: store, Clock: newClock()}
	if _, err := registry.New(t.Context(), cfg); !errors.Is(err, errDisk) {
		t.Errorf("got %v, want the store's error", err)
	}
	store.lists = false
	if _, err := state.Do(t.Context(), store, state.Set(registry.Scope, "default/x", json.RawMessage("1"))); err != nil {
		t.Fatal(err)
	}
	if _, err := registry.New(t.Context(), cfg); err == nil {
		t.Error("a mark that is none was passed over: the id it names would open")
	}
}

func TestAnIdThatIsNoLongerSticky(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	r := open(t, store)
	connect(r, "a")
	register(t, r, "a", "own::sticky")
	r.Disconnect("a")
	want(t, r, "own::sticky", "away")
	r, err := registry.New(t.Context(), registry.Config{State: store, Clock: newClock()})
	if err != nil {
		t.Fatal(err)
	}
	serve(t, r, "builtin", "own::sticky")
	want(t, r, "own::sticky", "builtin")
}
