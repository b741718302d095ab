package viewer

import "context"

// change takes the right to change the subscription at a place; the func gives
// it back. Errors: that of ctx.
func (h *Hub) change(ctx context.Context, at place) (func(), error) {
	for {
		h.mu.Lock()
		other := h.changing[at]
		if other == nil {
			mine := make(chan struct{})
			h.changing[at] = mine
			h.mu.Unlock()
			return func() {
				h.mu.Lock()
				defer h.mu.Unlock()
				delete(h.changing, at)
				close(mine)
			}, nil
		}
		h.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (h *Hub) isChanging(r Row) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.changing[r.place()] != nil
}

// each calls f on every session in memory.
func (h *Hub) each(f func(*session)) {
	h.mu.Lock()
	var all []*session
	for _, s := range h.sessions {
		s.users++
		all = append(all, s)
	}
	h.mu.Unlock()
	for _, s := range all {
		f(s)
		h.release(s)
	}
}

// detach ends the pumps that f picks, and makes what was listed before old. It
// gives those that were at work.
func (s *session) detach(f func(Row) bool) []*pump {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gen++
	var working []*pump
	for key, p := range s.pumps {
		if !f(p.row) {
			continue
		}
		p.gone = true
		delete(s.pumps, key)
		if p.running {
			working = append(working, p)
		}
	}
	return working
}

// await waits until pumps that were ended have made their last post.
func (s *session) await(ctx context.Context, pumps []*pump) error {
	for {
		s.mu.Lock()
		busy, rested := false, s.rested
		for _, p := range pumps {
			busy = busy || p.running
		}
		s.mu.Unlock()
		if !busy {
			return nil
		}
		select {
		case <-rested:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
