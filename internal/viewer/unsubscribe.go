package viewer

import (
	"context"
	"errors"

	"github.com/iii-aws/harness/engine/bus"
)

// Unsubscribe ends the subscription of a connection; if that has none, those
// that the same principal made under the browser id on other connections. It
// answers Hub.Browsers. To end what does not exist is no error.
func (h *Hub) Unsubscribe(ctx context.Context, sub Subscription) (int, error) {
	own := Row{BrowserID: sub.Browser, Connection: sub.Connection, SessionID: sub.Session}
	done, err := h.change(ctx, own.place())
	if err != nil {
		return 0, err
	}
	defer done()
	var rows []Row
	now, ok, err := h.row(ctx, own)
	switch {
	case err != nil:
		return 0, err
	case ok:
		rows = []Row{now.Row}
	default:
		listed, err := h.rows(ctx, sub.Session)
		if err != nil {
			return 0, err
		}
		for _, r := range listed {
			if !r.All && r.BrowserID == sub.Browser && r.Principal.ID == sub.Principal.ID && r.Principal.Actor() == sub.Principal.Actor() {
				rows = append(rows, r.Row)
			}
		}
	}
	for _, r := range rows {
		if err := h.end(ctx, r); err != nil {
			return 0, err
		}
	}
	return h.Browsers(), nil
}

// Forget ends the subscriptions of a connection that is gone for good, and those
// that are being made. Those that another process took end when something is
// posted to them.
func (h *Hub) Forget(ctx context.Context, connection string) error {
	h.mu.Lock()
	h.gone.add(connection)
	rows := h.subs.of(connection)
	h.mu.Unlock()
	var errs []error
	for _, r := range rows {
		errs = append(errs, h.end(ctx, r))
	}
	return errors.Join(errs...)
}

// end removes a row and ends its pumps.
func (h *Hub) end(ctx context.Context, r Row) error {
	if err := h.remove(ctx, r); err != nil {
		return err
	}
	h.mu.Lock()
	h.subs.remove(r)
	h.mu.Unlock()
	is := func(other Row) bool { return other.ID == r.ID }
	if r.SessionID == "" {
		h.each(func(s *session) { s.detach(is) })
		return nil
	}
	if s := h.live(r.SessionID); s != nil {
		s.detach(is)
		h.release(s)
	}
	return nil
}

// evict ends a subscription whose connection does not take pushes.
func (h *Hub) evict(ctx context.Context, r Row, cause error) {
	h.Logger.Debug("subscription removed", "session", r.SessionID, "browser", r.BrowserID, "cause", cause)
	rows := []Row{r}
	if r.All {
		rows = append(rows, r.parent())
	}
	var errs []error
	for _, r := range rows {
		errs = append(errs, h.end(ctx, r))
	}
	if errors.Is(cause, bus.ErrGone) {
		errs = append(errs, h.Forget(ctx, r.Connection))
	}
	if err := errors.Join(errs...); err != nil && ctx.Err() == nil {
		h.Logger.Warn("subscription not removed", "session", r.SessionID, "error", err)
	}
}
