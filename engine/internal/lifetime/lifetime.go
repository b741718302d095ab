// Package lifetime ends what runs beside each other: it counts work, refuses
// new work once it has ended, and waits for what is left.
package lifetime

import (
	"context"
	"sync"
)

// Lifetime is that of a component. It is safe for concurrent use.
type Lifetime struct {
	base context.Context
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu    sync.Mutex
	ended bool
}

// New begins one. Close it.
func New() *Lifetime {
	l := &Lifetime{}
	l.base, l.stop = context.WithCancel(context.Background())
	return l
}

// Context ends with Close.
func (l *Lifetime) Context() context.Context { return l.base }

// Begin counts work, whose end calls End; false once the lifetime has ended.
func (l *Lifetime) Begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return false
	}
	l.wg.Add(1)
	return true
}

// End is the end of work that has begun.
func (l *Lifetime) End() { l.wg.Done() }

// Go runs f as work on a goroutine; false once the lifetime has ended.
func (l *Lifetime) Go(f func()) bool {
	if !l.Begin() {
		return false
	}
	go func() {
		defer l.End()
		f()
	}()
	return true
}

// Close ends the context and refuses new work. It waits for what runs until ctx
// ends; the error is then that of ctx. It may be called again.
func (l *Lifetime) Close(ctx context.Context) error {
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	l.stop()
	done := make(chan struct{})
	go func() {
		l.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
