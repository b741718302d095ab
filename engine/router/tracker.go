package router

import "sync"

// tracker counts what runs.
type tracker struct {
	mu      sync.Mutex
	n       int
	waiting chan struct{} // closed when nothing runs any more; nil while nobody waits for that
}

func (t *tracker) start() {
	t.mu.Lock()
	t.n++
	t.mu.Unlock()
}

func (t *tracker) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n--
	if t.n == 0 && t.waiting != nil {
		close(t.waiting)
		t.waiting = nil
	}
}

// idle is closed once nothing runs.
func (t *tracker) idle() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n == 0 {
		done := make(chan struct{})
		close(done)
		return done
	}
	if t.waiting == nil {
		t.waiting = make(chan struct{})
	}
	return t.waiting
}

// background runs f on a goroutine of its own; Close waits for it.
func (r *Router) background(f func()) {
	r.running.start()
	go func() {
		defer r.running.end()
		f()
	}()
}
