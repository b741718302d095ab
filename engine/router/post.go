package router

import (
	"context"
	"errors"
	"fmt"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
)

// Post implements bus.Poster. A push to a worker that is away waits until it is back, or gone.
func (r *Router) Post(ctx context.Context, push bus.Push) error {
	for {
		p := r.peer(push.Connection)
		if p == nil {
			return bus.ErrGone
		}
		on, now := p.state()
		if now == attached {
			if !r.cfg.Registry.Owns(on.conn.ID(), push.FunctionID) {
				return bus.ErrNotRegistered
			}
			err := on.conn.Send(ctx, &protocol.InvokeFunction{FunctionID: push.FunctionID, Data: push.Data})
			switch {
			case err == nil:
				return nil
			case !errors.Is(err, bus.ErrGone):
				return fmt.Errorf("router: post %s: %w", push.FunctionID, err)
			}
		}
		select {
		case <-p.since(on, now):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// state is the connection of the worker and how it stands to it.
func (p *peer) state() (*link, phase) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.link.Load(), p.phase
}

var alreadyChanged = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// since is closed once the state is another than the one given.
func (p *peer) since(on *link, then phase) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.link.Load() != on || p.phase != then {
		return alreadyChanged
	}
	return p.change()
}
