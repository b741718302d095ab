package registry_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/registry"
)

func newClock() clock.Clock { return clock.NewFake(start) }

func TestWorkerNames(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	serve(t, r, "state-worker", "state::get")
	connect(r, "a")
	register(t, r, "a", "orders::price") // before the announce, as SDKs do
	for id, name := range map[string]string{"state::get": "state-worker", "orders::price": "orders"} {
		if e, ok := r.Lookup("default", id); !ok || e.WorkerName != name {
			t.Errorf("%s belongs to %q, want %q", id, e.WorkerName, name)
		}
	}
	if !r.Announce("a", registry.Announcement{Name: "  shop\u202e\x00" + strings.Repeat("é", 300)}) {
		t.Error("the connection is not known")
	}
	if e, _ := r.Lookup("default", "orders::price"); e.WorkerName != "  shop"+strings.Repeat("é", 274) || e.WorkerID != "A" {
		t.Errorf("got %q, %q", e.WorkerName, e.WorkerID)
	}
	if r.Announce("gone", registry.Announcement{}) {
		t.Error("a connection that has gone announced")
	}
	r.SetStatus("gone", registry.StatusSuspect)
	if _, ok := r.Worker("gone"); ok {
		t.Error("a connection that has gone is a worker")
	}
}

func TestFixNamespace(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	connect(r, "a")
	type result struct {
		Now       string
		Fixed, OK bool
	}
	var got []result
	for _, step := range []struct{ connection, namespace string }{{"a", "shop"}, {"a", "default"}, {"gone", "x"}} {
		now, fixed, ok := r.FixNamespace(step.connection, step.namespace)
		got = append(got, result{now, fixed, ok})
	}
	if diff := cmp.Diff([]result{{"shop", true, true}, {"shop", false, true}, {}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestMetaOf(t *testing.T) {
	t.Parallel()
	for metadata, want := range map[string]bus.Meta{
		``:                              {},
		`{"public":true}`:               {},
		`{"internal":true,"slow":true}`: {Internal: true, Slow: true},
		`{"idempotent":true,"sensitive":true,"timeout_ms":5}`: {Idempotent: true, Sensitive: true, TimeoutMS: 5},
		`{"internal":true,"slow":"yes","timeout_ms":"x"}`:     {Internal: true},
		`{"internal":"true","idempotent":1}`:                  {},
		`"text"`:                                              {},
		`[1]`:                                                 {},
	} {
		if got := registry.MetaOf(json.RawMessage(metadata)); got != want {
			t.Errorf("MetaOf(%s) = %+v, want %+v", metadata, got, want)
		}
	}
}
