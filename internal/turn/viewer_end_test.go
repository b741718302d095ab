package turn

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/engine/stream"
	"github.com/iii-aws/harness/internal/agent"
)

// watched is a viewer session that keeps how it was used.
type watched struct {
	// flush is what Flush does; nil ends it well.
	flush func(context.Context) error
	// notify is what Notify does before it counts as over.
	notify func()

	mu    sync.Mutex
	calls []string
}

func (s *watched) note(call string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, call)
}

func (s *watched) count(call string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if c == call {
			n++
		}
	}
	return n
}

func (s *watched) Notify(stream.Head) {
	if s.notify != nil {
		s.notify()
	}
	s.note("notify")
}

func (s *watched) Delta(agent.MessageUpdate)     {}
func (s *watched) Refresh(context.Context) error { return nil }
func (s *watched) Close()                        { s.note("close") }

func (s *watched) Flush(ctx context.Context) error {
	if s.flush != nil {
		if err := s.flush(ctx); err != nil {
			return err
		}
	}
	s.note("flush")
	return nil
}

// watch gives a turn viewer sessions that end as flush says.
func watch(tr *Turn, flush func(context.Context) error) func() []*watched {
	var mu sync.Mutex
	var all []*watched
	tr.Viewer = ViewerFunc(func(string, int64) ViewerSession {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, &watched{flush: flush})
		return all[len(all)-1]
	})
	return func() []*watched {
		mu.Lock()
		defer mu.Unlock()
		return append([]*watched(nil), all...)
	}
}

// A delivery that fails leaves no viewer session open, whatever it got to.
func TestViewersOfAFailedDeliveryAreLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	opened := watch(w.proc.turn, nil)
	writes := 0
	f := w.proc.fault
	f.mu.Lock()
	f.hook = func(op string, _ any) error {
		if op != "state:"+agent.ScopeTurnState {
			return nil
		}
		if writes++; writes == 2 { // the first one is that of run::start
			return &state.StorageError{Op: "submit", Retry: true, Err: errors.New("disk")}
		}
		return nil
	}
	f.mu.Unlock()
	w.model.plays(says("one"), says("two"))
	w.start("s1", "go")
	w.advanceToEnd()
	w.quiet()
	all := opened()
	if len(all) < 2 {
		t.Fatalf("%d deliveries, want one that failed and one that did not", len(all))
	}
	for i, s := range all {
		if s.count("flush")+s.count("close") == 0 {
			t.Errorf("delivery %d left its viewers open: %v", i, s.calls)
		}
	}
}

// Viewers that cannot be flushed are left all the same.
func TestViewersOfAFlushThatPanicsAreLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	opened := watch(w.proc.turn, func(context.Context) error { panic("boom") })
	w.model.plays(says("one"))
	w.start("s1", "go")
	w.ended("s1")
	w.eventually("the close", func() bool {
		all := opened()
		return len(all) > 0 && all[len(all)-1].count("close") == 1
	})
}

// The courier tells nothing to viewers that were left.
func TestViewersAreLeftBehindTheLastWord(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.proc.kill()
	p := w.bootIdle()
	w.start("s1", "go")
	rec, err := p.turn.load(t.Context(), "s1")
	w.check(err)
	d := p.turn.drive(t.Context(), &bus.Call{Principal: alice}, rec)
	told := make(chan struct{})
	s := &watched{notify: func() {
		close(told)
		<-d.ctx.Done()
	}}
	p.turn.Viewer = ViewerFunc(func(string, int64) ViewerSession { return s })
	w.check(d.take())
	<-told
	d.close()
	if diff := cmp.Diff([]string{"notify", "close"}, s.calls); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
