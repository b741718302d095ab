package viewer

import (
	"context"

	"github.com/iii-aws/harness/engine/bus"
)

// conn lets one post at a time through to a connection.
type conn struct {
	turn  chan struct{}
	users int // guarded by Hub.mu
}

// post posts when no other post to the connection is in flight. Errors: those
// of bus.Poster, and that of ctx.
func (h *Hub) post(ctx context.Context, p bus.Push) error {
	h.mu.Lock()
	c := h.conns[p.Connection]
	if c == nil {
		c = &conn{turn: make(chan struct{}, 1)}
		h.conns[p.Connection] = c
	}
	c.users++
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if c.users--; c.users == 0 {
			delete(h.conns, p.Connection)
		}
	}()
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-c.turn }()
	return h.Poster.Post(ctx, p)
}
