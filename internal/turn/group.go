package turn

import "sync"

// group runs funcs beside each other and keeps the first panic, so that it ends
// a transition and not the process.
type group struct {
	all   sync.WaitGroup
	mu    sync.Mutex
	first error
}

// run runs f on a goroutine of its own.
func (g *group) run(f func()) {
	g.all.Go(func() {
		if err := caught(f); err != nil {
			g.mu.Lock()
			defer g.mu.Unlock()
			if g.first == nil {
				g.first = err
			}
		}
	})
}

// wait waits for all and gives the first panic.
func (g *group) wait() error {
	g.all.Wait()
	return g.first
}

// caught runs f and gives its panic as an error.
func caught(f func()) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = panicError(v)
		}
	}()
	f()
	return nil
}
