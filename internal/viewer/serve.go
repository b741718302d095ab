package viewer

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/iii-aws/harness/engine/bus"
)

// Serve lets the viewers of a session have what was stored behind the steps'
// back. A step that runs does it, else this process. Errors: those of the
// ports; the same call may then be made again.
func (h *Hub) Serve(ctx context.Context, session string) error {
	s := h.acquire(session)
	defer h.release(s)
	if s.elsewhere(ctx) {
		_, err := h.raise(ctx, session).Wait(ctx)
		return err
	}
	if err := s.load(ctx, false); err != nil {
		return err
	}
	s.linger(ctx)
	return nil
}

// Announce tells the viewers of all sessions of a new one that they may see:
// ui::sessions::changed::<browser id> with {added: [session], removed: []}. A
// viewer hears of a session once, as far as this process knows. One that does
// not serve that function hears nothing; a connection that is gone is
// forgotten. It returns when all were told, or after Config.FlushLimit; slow
// ones are told in the background.
func (h *Hub) Announce(ctx context.Context, session string) error {
	rows, err := h.rows(ctx, "")
	if err != nil {
		return err
	}
	data, err := bus.Encode(changed{Added: []string{session}, Removed: []string{}})
	if err != nil {
		return err
	}
	s := h.acquire(session)
	defer h.release(s)
	sees := s.audience()
	told := make(chan struct{}, len(rows))
	waiting := 0
	for _, r := range rows {
		ok, err := sees(ctx, r.Row)
		if err != nil {
			return err
		}
		if !ok || !h.remember(r.ID+"/"+session) {
			continue
		}
		if h.start("announce", func() {
			defer func() { told <- struct{}{} }()
			h.announce(r.Row, data)
		}) {
			waiting++
		}
	}
	limit := h.Clock.NewTimer(h.FlushLimit)
	defer limit.Stop()
	for ; waiting > 0; waiting-- {
		select {
		case <-told:
		case <-limit.C():
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

type changed struct {
	Added   []string `json:"added"`
	Removed []string `json:"removed"`
}

func (h *Hub) announce(r Row, data json.RawMessage) {
	err := h.post(h.base, bus.Push{
		Connection: r.Connection, FunctionID: "ui::sessions::changed::" + r.BrowserID, Data: data,
	})
	switch {
	case errors.Is(err, bus.ErrGone):
		h.evict(h.base, r, err)
	case err != nil && h.base.Err() == nil:
		h.Logger.Info("new session not announced", "browser", r.BrowserID, "error", err)
	}
}

func (h *Hub) remember(text string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.told.add(text)
}
