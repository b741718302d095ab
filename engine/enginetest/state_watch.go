package enginetest

import (
	"context"
	"testing"

	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/state"
)

// signalled waits for a signal of a watch.
func signalled(t *testing.T, c <-chan struct{}) {
	t.Helper()
	select {
	case _, ok := <-c:
		if !ok {
			t.Fatal("the watch has ended")
		}
	case <-deadline(t).Done():
		t.Fatal("no signal")
	}
}

// ended waits until a watch has ended.
func ended(t *testing.T, c <-chan struct{}) {
	t.Helper()
	ctx := deadline(t)
	for {
		select {
		case _, ok := <-c:
			if !ok {
				return
			}
		case <-ctx.Done():
			t.Fatal("the watch goes on")
		}
	}
}

func contextWithCancel(t *testing.T) (context.Context, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	return ctx, cancel
}

var stateWatches = []stateCase{
	{"a watch signals at the start and after changes", func(t *testing.T, s state.Store, _ *clock.Fake) {
		w := s.Watch(t.Context(), state.Key{Scope: "s", Key: "k"})
		signalled(t, w)
		set(t, s, "s", "k", `1`)
		signalled(t, w)
		do(t, s, state.Delete("s", "k"))
		signalled(t, w)
		set(t, s, "s", "k", text(state.InlineLimit+1))
		signalled(t, w)
	}},
	{"a signal means that a read sees the change", func(t *testing.T, s state.Store, _ *clock.Fake) {
		w := s.Watch(t.Context(), state.Key{Scope: "s", Key: "k"})
		signalled(t, w)
		for i := range int64(50) {
			s.Submit(t.Context(), []state.Write{state.Set("s", "k", nil)})
			for get := int64(0); get <= i; {
				signalled(t, w)
				item, _, err := s.Get(t.Context(), state.Key{Scope: "s", Key: "k"})
				if err != nil {
					t.Fatal(err)
				}
				get = item.Version
			}
		}
	}},
	{"every watcher of a key is told", func(t *testing.T, s state.Store, _ *clock.Fake) {
		a := s.Watch(t.Context(), state.Key{Scope: "s", Key: "k"})
		b := s.Watch(t.Context(), state.Key{Scope: "s", Key: "k"})
		signalled(t, a)
		signalled(t, b)
		set(t, s, "s", "k", `1`)
		signalled(t, a)
		signalled(t, b)
	}},
	{"a watch ends with its context, others go on", func(t *testing.T, s state.Store, _ *clock.Fake) {
		ctx, cancel := contextWithCancel(t)
		gone := s.Watch(ctx, state.Key{Scope: "s", Key: "k"})
		stays := s.Watch(t.Context(), state.Key{Scope: "s", Key: "k"})
		signalled(t, stays)
		cancel()
		ended(t, gone)
		set(t, s, "s", "k", `1`)
		signalled(t, stays)
	}},
}
