package router

import (
	"context"
	"errors"
	"fmt"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
)

// Post implements bus.Poster.
func (r *Router) Post(ctx context.Context, push bus.Push) error {
	p := r.peer(push.Connection)
	if p == nil {
		return bus.ErrGone
	}
	if !r.cfg.Registry.Owns(push.Connection, push.FunctionID) {
		return bus.ErrNotRegistered
	}
	err := p.conn.Send(ctx, &protocol.InvokeFunction{FunctionID: push.FunctionID, Data: push.Data})
	if err != nil && !errors.Is(err, bus.ErrGone) {
		return fmt.Errorf("router: post %s: %w", push.FunctionID, err)
	}
	return err
}
