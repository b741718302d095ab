package embedded

import (
	"context"
	"sync"
)

// hub wakes those who watch a key.
type hub struct {
	mu       sync.Mutex
	watchers map[string]map[chan struct{}]struct{}
}

// watch gives a channel that signals once now and after each notify of key,
// once or more per burst. It is closed when ctx ends.
func (h *hub) watch(ctx context.Context, key string) <-chan struct{} {
	c := make(chan struct{}, 1)
	c <- struct{}{}
	h.mu.Lock()
	if h.watchers == nil {
		h.watchers = make(map[string]map[chan struct{}]struct{})
	}
	if h.watchers[key] == nil {
		h.watchers[key] = make(map[chan struct{}]struct{})
	}
	h.watchers[key][c] = struct{}{}
	h.mu.Unlock()
	context.AfterFunc(ctx, func() { h.drop(key, c) })
	return c
}

func (h *hub) drop(key string, c chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.watchers[key], c)
	if len(h.watchers[key]) == 0 {
		delete(h.watchers, key)
	}
	close(c)
}

// notify never blocks: a watcher that has not taken its last signal needs no
// second one.
func (h *hub) notify(key []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.watchers[string(key)] {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}
