package viewer

import (
	"context"
	"fmt"
	"sync"

	"github.com/iii-aws/harness/engine/stream"
	"github.com/iii-aws/harness/internal/agent"
)

// Step serves the viewers of one session for the step that holds its turn. Its
// methods may be called from several goroutines; but for Flush and Refresh none
// waits for anything. What is told first is posted first.
type Step struct {
	s     *session
	lease int64
	// loaded is closed when the rows were read once.
	loaded chan struct{}
	end    sync.Once
}

// Open begins to serve the viewers of a session for a step that holds the turn
// with that lease. It does not block: viewers that the rows name are served as
// soon as these were read. A step that was opened with a lower lease counts as
// superseded: its deltas go nowhere. End it by Flush or Close.
func (h *Hub) Open(session string, lease int64) *Step {
	st := &Step{s: h.acquire(session), lease: lease, loaded: make(chan struct{})}
	st.begin()
	if !h.start("open", func() {
		defer close(st.loaded)
		if err := st.s.load(h.base, true); err != nil && h.base.Err() == nil {
			h.Logger.Warn("viewers not read", "session", session, "error", err)
		}
	}) {
		close(st.loaded)
	}
	return st
}

// begin takes the place of the step before, if that one is not newer.
func (st *Step) begin() {
	s := st.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.step == nil || s.step.lease <= st.lease {
		s.step, s.draft = st, nil
	}
}

// Notify says that the log reaches up to the head's tail.
func (st *Step) Notify(head stream.Head) { st.s.notify(head) }

// Delta takes an update of the message being streamed; it goes out behind the
// events notified of before. The updates of a message come in order: a delta
// stands where the one before it ended.
func (st *Step) Delta(u agent.MessageUpdate) {
	if st.current() {
		st.s.delta(u)
	}
}

func (st *Step) current() bool {
	st.s.mu.Lock()
	defer st.s.mu.Unlock()
	return st.s.step == st
}

// Refresh reads the rows again, for subscriptions that another process took:
// when the control item's rev rose.
func (st *Step) Refresh(ctx context.Context) error { return st.s.load(ctx, false) }

// Flush ends the step: it waits until what was told is posted, at most for
// Config.FlushLimit, and stores how far each viewer got. Viewers that lag are
// served on in the background, unless the process freezes. Errors: that of
// ctx, *LagError, and those of the ports; in each case the step has ended.
func (st *Step) Flush(ctx context.Context) error {
	err := st.flush(ctx)
	if saved := st.close(ctx); err == nil {
		err = saved
	}
	return err
}

func (st *Step) flush(ctx context.Context) error {
	select {
	case <-st.loaded:
	case <-ctx.Done():
		return ctx.Err()
	}
	if !st.s.hub.Alone {
		// What was stored before this is read by the subscription itself, what
		// was stored after its last look at the log is read here.
		if err := st.s.load(ctx, false); err != nil {
			return err
		}
	}
	return st.s.settle(ctx)
}

// Close ends the step at once, as one does that was superseded or failed. It is
// safe behind Flush.
func (st *Step) Close() {
	ctx, cancel := context.WithCancel(st.s.hub.base)
	cancel() // what is not stored yet is stored beside
	if err := st.close(ctx); err != nil {
		st.s.hub.Logger.Debug("step closed without waiting", "session", st.s.id, "error", err)
	}
}

// close ends the step and stores how far its viewers got. It waits for that
// only if the process freezes.
func (st *Step) close(ctx context.Context) error {
	var err error
	st.end.Do(func() {
		s := st.s
		s.mu.Lock()
		if s.step == st {
			s.step, s.draft = nil, nil
		}
		var moved []*pump
		for _, p := range s.pumps {
			if s.step == nil && p.moved() {
				moved = append(moved, p)
			}
		}
		s.mu.Unlock()
		err = s.save(ctx, moved)
		s.hub.release(s)
	})
	return err
}

// LagError tells that viewers did not keep up until a step ended.
type LagError struct {
	Session string
	Viewers int
}

// Error is the text of the error.
func (e *LagError) Error() string {
	return fmt.Sprintf("viewer: %d viewers of session %q lag behind", e.Viewers, e.Session)
}

// ErrorCode is viewers_lag.
func (e *LagError) ErrorCode() string { return "viewers_lag" }

// Retryable reports that there is nothing to repeat: they catch up with the next event.
func (e *LagError) Retryable() bool { return false }
