package viewer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/commit"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
)

// Subscription asks for the events of a session, or of all.
type Subscription struct {
	// Browser names the functions that are called:
	// ui::session::event::<browser> and ui::sessions::changed::<browser>.
	Browser    string
	Connection string
	// Session is empty for all that the principal may see.
	Session   string
	Batch     bool
	Principal bus.Principal
	// Position is where to go on; nil for live events alone.
	Position *Position
}

// Subscribed is the answer.
type Subscribed struct {
	// Position is where the log was: what comes behind it is live. Nil for all
	// sessions.
	Position *Position
	// Reset says why the position asked for cannot be continued from; the
	// subscription is then live from Position on.
	Reset Reset
	// Browsers is as Hub.Browsers.
	Browsers int
}

// Subscribe replays from the position to the end of the log and then stores the
// subscription, in place of one of the same connection, browser and session.
// Who may see the session is for the caller to check. Errors: bus.ErrGone, those
// of the ports, and that of ctx; there is no subscription then.
func (h *Hub) Subscribe(ctx context.Context, sub Subscription) (Subscribed, error) {
	row := Row{
		ID: h.IDs.UUID(), BrowserID: sub.Browser, Connection: sub.Connection, SessionID: sub.Session,
		Batch: sub.Batch, Principal: sub.Principal, AtMS: h.now(),
	}
	done, err := h.change(ctx, row.place())
	if err != nil {
		return Subscribed{}, err
	}
	defer done()
	if sub.Session == "" {
		return h.subscribeAll(ctx, row)
	}
	s := h.acquire(sub.Session)
	defer h.release(s)
	former := s.detach(func(r Row) bool { return r.Connection == row.Connection && r.BrowserID == row.BrowserID })
	if err := s.await(ctx, former); err != nil {
		return Subscribed{}, err
	}
	out, err := s.subscribe(ctx, row, sub.Position)
	out.Browsers = h.Browsers()
	return out, err
}

// subscribe replays, stores the row and serves it.
func (s *session) subscribe(ctx context.Context, row Row, from *Position) (Subscribed, error) {
	head, err := s.look(ctx)
	if err != nil {
		return Subscribed{}, err
	}
	next, reset := start(from, head)
	if next <= head.Tail {
		got, err := s.read(ctx, next)
		if err != nil {
			return Subscribed{}, err
		}
		if len(got) == 0 || got[0].seq != next {
			next, reset = head.Tail+1, Expired
		}
	}
	row.NextSeq, row.Epoch = next, head.Epoch
	if row.NextSeq, err = s.replay(ctx, row); err != nil {
		return Subscribed{}, err
	}
	if err := s.hub.store(ctx, row); err != nil {
		return Subscribed{}, err
	}
	s.serve(ctx, row)
	return Subscribed{
		Position: &Position{Epoch: head.Epoch, Seq: max(head.Tail, row.NextSeq-1)},
		Reset:    reset,
	}, nil
}

// replay posts the events from the row's next on, and answers where it ended:
// behind the last event, or where the time was up or a post failed. What is left
// goes on in the background.
func (s *session) replay(ctx context.Context, row Row) (int64, error) {
	p := &pump{s: s, row: row, eventsOnly: true, running: true, at: spot{next: row.NextSeq}}
	limited, cancel := s.hub.limit(ctx, s.hub.ReplayLimit)
	defer cancel()
	for {
		err := p.once(limited)
		switch {
		case err == nil:
		case errors.Is(err, bus.ErrGone), errors.Is(err, errUnfit), ctx.Err() != nil:
			return 0, fmt.Errorf("viewer: replay: %w", err)
		default: // errAtRest if all was posted
			return p.at.next, nil
		}
	}
}

// store writes a row, and then tells a step that may run elsewhere to look.
func (h *Hub) store(ctx context.Context, row Row) error {
	stored := h.State.Submit(ctx, []state.Write{h.write(row)})
	raised := h.raise(ctx, row.SessionID, stored)
	if _, err := stored.Wait(ctx); err != nil {
		return fmt.Errorf("viewer: store subscription: %w", err)
	}
	if _, err := raised.Wait(ctx); err != nil {
		h.Logger.Warn("control item not raised", "session", row.SessionID, "error", err)
	}
	return h.admit(ctx, row)
}

// admit takes a stored row into the registry. Where its connection was forgotten
// meanwhile, nobody would forget the row: it is removed. Errors: bus.ErrGone
// then, and those of the store.
func (h *Hub) admit(ctx context.Context, row Row) error {
	h.mu.Lock()
	gone := h.gone.has[row.Connection]
	if !gone {
		h.subs.add(row)
	}
	h.mu.Unlock()
	if !gone {
		return nil
	}
	return errors.Join(fmt.Errorf("viewer: subscribe: %w", bus.ErrGone), h.end(ctx, row))
}

// raise makes a running step look at what has changed around its session.
func (h *Hub) raise(ctx context.Context, session string, after ...commit.Ticket) *state.Pending {
	return h.State.Submit(ctx, []state.Write{state.Update(agent.ScopeControl, session, state.Op{
		Type: state.OpIncrement, Path: json.RawMessage(`"rev"`), By: json.RawMessage(`1`),
	})}, after...)
}

// serve serves a row that was just stored: whoever comes second, the step or
// this, reads the log once more. It leaves the row to a step that runs
// elsewhere.
func (s *session) serve(ctx context.Context, row Row) {
	if s.elsewhere(ctx) {
		return
	}
	s.mu.Lock()
	s.gen++
	s.attach(row, false)
	s.mu.Unlock()
	if _, err := s.look(ctx); err != nil {
		s.hub.Logger.Warn("log not read", "session", s.id, "error", err)
	}
	s.linger(ctx)
}

// elsewhere reports whether a step of another process holds the turn. If that
// is not known it does not: an event twice is better than none.
func (s *session) elsewhere(ctx context.Context) bool {
	s.mu.Lock()
	here := s.step != nil
	s.mu.Unlock()
	if here || s.hub.Elsewhere == nil {
		return false
	}
	held, err := s.hub.Elsewhere(ctx, s.id)
	if err != nil {
		s.hub.Logger.Warn("turn not read", "session", s.id, "error", err)
		return false
	}
	return held
}

// linger lets the pumps finish, if the process may freeze.
func (s *session) linger(ctx context.Context) {
	if !s.hub.Freezes {
		return
	}
	if err := s.settle(ctx); err != nil {
		s.hub.Logger.Info("viewers lag behind", "session", s.id, "error", err)
	}
}

// subscribeAll stores a row of all sessions. Steps that run see it at once.
func (h *Hub) subscribeAll(ctx context.Context, row Row) (Subscribed, error) {
	if _, err := state.Do(ctx, h.State, h.write(row)); err != nil {
		return Subscribed{}, fmt.Errorf("viewer: store subscription: %w", err)
	}
	if err := h.admit(ctx, row); err != nil {
		return Subscribed{}, err
	}
	h.each(func(s *session) {
		s.detach(func(r Row) bool { return false })
		h.hold(s)
		if !h.start("load", func() {
			defer h.release(s)
			if err := s.load(h.base, false); err != nil && h.base.Err() == nil {
				h.Logger.Warn("viewers not read", "session", s.id, "error", err)
			}
		}) {
			h.release(s)
		}
	})
	return Subscribed{Browsers: h.Browsers()}, nil
}
