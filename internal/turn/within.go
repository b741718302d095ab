package turn

import (
	"context"
	"encoding/json"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
)

// within calls a function and waits no longer than the invocation's timeout by
// the injected clock, whether the bus keeps it or not.
func (t *Turn) within(ctx context.Context, in bus.Invocation) (json.RawMessage, error) {
	if in.Timeout == 0 {
		in.Timeout = bus.DefaultTimeout
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		data json.RawMessage
		err  error
	}
	done := make(chan answer, 1)
	go func() {
		defer func() {
			if v := recover(); v != nil {
				done <- answer{err: panicError(v)}
			}
		}()
		data, err := t.Bus.Invoke(ctx, in)
		done <- answer{data, err}
	}()
	timer := t.Clock.NewTimer(in.Timeout)
	defer timer.Stop()
	select {
	case a := <-done:
		return a.data, a.err
	case <-timer.C():
		return nil, &bus.Error{Code: protocol.CodeTimeout, Message: "Timeout: " + in.FunctionID + " did not answer within " + in.Timeout.String()}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// limited is a context that ends after d by the injected clock.
func (t *Turn) limited(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := t.Clock.NewTimer(d)
	go func() {
		defer timer.Stop()
		select {
		case <-timer.C():
			cancel(context.DeadlineExceeded)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}
