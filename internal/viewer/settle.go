package viewer

import (
	"context"
	"sync"
)

// settle waits until all pumps are at rest, at most for Config.FlushLimit.
// Errors: *LagError, that of ctx.
func (s *session) settle(ctx context.Context) error {
	busy, rested := s.resting()
	if busy == 0 {
		return nil
	}
	limit := s.hub.Clock.NewTimer(s.hub.FlushLimit)
	defer limit.Stop()
	for busy > 0 {
		select {
		case <-rested:
		case <-limit.C():
			return &LagError{Session: s.id, Viewers: busy}
		case <-ctx.Done():
			return ctx.Err()
		}
		busy, rested = s.resting()
	}
	return nil
}

// save stores how far pumps got. It waits for that only if the process freezes;
// else the session stays in memory until it is done. Errors: that of ctx.
func (s *session) save(ctx context.Context, moved []*pump) error {
	var wg sync.WaitGroup
	for _, p := range moved {
		s.hub.hold(s)
		wg.Add(1)
		if !s.hub.start("save", func() {
			defer wg.Done()
			defer s.hub.release(s)
			p.save(s.hub.base)
		}) {
			wg.Done()
			s.hub.release(s)
		}
	}
	if !s.hub.Freezes || len(moved) == 0 {
		return nil
	}
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
