package viewer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
)

// Row is a stored subscription.
type Row struct {
	// ID is new with every subscription, so that what ends an old one leaves
	// its successor alone.
	ID         string `json:"id"`
	BrowserID  string `json:"browser_id"`
	Connection string `json:"connection"`
	// SessionID is empty for all sessions.
	SessionID string `json:"session_id,omitempty"`
	// All marks the row that keeps the place of a viewer of all sessions in
	// one of them.
	All bool `json:"all,omitempty"`
	// Batch: the viewer takes several events in one push.
	Batch bool `json:"batch,omitempty"`
	// NextSeq is the next event it gets, of the log with that epoch. An empty
	// epoch is a log that did not exist yet.
	NextSeq   int64         `json:"next_seq"`
	Epoch     string        `json:"epoch"`
	Principal bus.Principal `json:"principal"`
	// AtMS is when it was made, in epoch milliseconds.
	AtMS int64 `json:"at_ms"`
}

// scope is where the row is stored. The rows of all sessions are where those of
// a session without an id would be, which none is.
func (r Row) scope() string { return agent.ScopeSubscriptions + r.SessionID }

// key is the row's key: what it is for, and for whom. A connection has one row
// per browser id and kind.
func (r Row) key() string {
	kind := "s/"
	if r.All {
		kind = "a/"
	}
	return kind + r.Connection + "/" + r.BrowserID
}

// within is the row that keeps the place of a viewer of all sessions in one.
func (r Row) within(session string) Row {
	r.SessionID, r.All = session, true
	return r
}

// parent is the row of all sessions that a row of one session belongs to.
func (r Row) parent() Row {
	r.SessionID, r.All = "", false
	return r
}

// stored is a row as it was read.
type stored struct {
	Row
	version int64
	expires time.Time
}

// rows lists a scope. Rows that cannot be read are left out: they are of newer
// code, or nobody's.
func (h *Hub) rows(ctx context.Context, session string) ([]stored, error) {
	items, err := h.State.List(ctx, agent.ScopeSubscriptions+session, state.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("viewer: list subscriptions: %w", err)
	}
	out := make([]stored, 0, len(items))
	for _, it := range items {
		r := stored{version: it.Version, expires: it.Expires}
		if json.Unmarshal(it.Value, &r.Row) != nil || r.Connection == "" || r.SessionID != session {
			continue
		}
		out = append(out, r)
	}
	return out, nil
}

// row reads one row again.
func (h *Hub) row(ctx context.Context, want Row) (stored, bool, error) {
	it, ok, err := h.State.Get(ctx, state.Key{Scope: want.scope(), Key: want.key()})
	if err != nil || !ok {
		return stored{}, false, err
	}
	r := stored{version: it.Version, expires: it.Expires}
	if json.Unmarshal(it.Value, &r.Row) != nil {
		return stored{}, false, nil
	}
	return r, true, nil
}

// write is the write that stores a row.
func (h *Hub) write(r Row) state.Write {
	data, err := json.Marshal(r)
	if err != nil {
		panic("viewer: a row that is no JSON: " + err.Error()) // strings and numbers only
	}
	w := state.Set(r.scope(), r.key(), data)
	w.Expires = h.Clock.Now().Add(h.RowTTL)
	return w
}

// remove deletes a row if it still is this subscription.
func (h *Hub) remove(ctx context.Context, r Row) error {
	for range casTries {
		now, ok, err := h.row(ctx, r)
		if err != nil {
			return fmt.Errorf("viewer: read subscription: %w", err)
		}
		if !ok || now.ID != r.ID {
			return nil
		}
		_, err = state.Do(ctx, h.State, state.Delete(r.scope(), r.key()).IfVersion(now.version))
		if !isConflict(err) {
			return err
		}
	}
	return nil
}

// advance stores how far a subscription got, if it still is the same and no
// other process got further.
func (h *Hub) advance(ctx context.Context, r Row) error {
	for range casTries {
		now, ok, err := h.row(ctx, r)
		if err != nil {
			return fmt.Errorf("viewer: read subscription: %w", err)
		}
		if ok && (now.ID != r.ID || now.Epoch == r.Epoch && now.NextSeq >= r.NextSeq) {
			return nil
		}
		w := h.write(r)
		switch {
		case ok:
			w = w.IfVersion(now.version)
		case r.All:
			w = w.IfAbsent()
		default:
			return nil // unsubscribed
		}
		if _, err = state.Do(ctx, h.State, w); !isConflict(err) {
			return err
		}
	}
	return nil
}

// keep renews a row of all sessions, which nothing else writes.
func (h *Hub) keep(ctx context.Context, r stored) {
	if r.expires.IsZero() || r.expires.Sub(h.Clock.Now()) > h.RowTTL/2 {
		return
	}
	// Nobody waits: a lost renewal is made up by the next.
	h.State.Submit(ctx, []state.Write{h.write(r.Row).IfVersion(r.version)})
}

func (h *Hub) now() int64 { return clock.Millis(h.Clock.Now()) }

// isConflict reports whether a write lost to another writer.
func isConflict(err error) bool {
	var c *state.ConflictError
	return errors.As(err, &c)
}
