package turn

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/internal/turn/step"
)

// repeats is how often a call to an idempotent target is repeated when the
// connection was lost after it was sent.
const repeats = 2

// landed is how a call that was dispatched ended.
type landed struct {
	outcome step.Outcome
	// awaiting: the result will be stored as a row.
	awaiting bool
	deadline int64
	took     time.Duration
}

// dispatch calls the target of a call that is marked started. It is only
// reached through [batch.dispatchWithHook].
func (c checker) dispatch(ctx context.Context, run string, call step.Call) landed {
	begun, startMS := c.t.Clock.Monotonic(), c.t.nowMS()
	timeout, meta := c.deadline(call.FunctionID)
	in := bus.Invocation{
		FunctionID: call.FunctionID, Data: call.Arguments.Raw, Principal: &c.principal, Timeout: timeout, IdempotencyKey: call.ID,
		Reply: &bus.Reply{SessionID: c.session, FunctionCallID: call.ID, Run: run, AfterMS: c.t.cfg.WaitForCall.Milliseconds()},
	}
	l := landed{deadline: startMS + timeout.Milliseconds()}
	if c.foreignBlob(ctx, call) {
		l.outcome = step.Failure{Code: "not_found", Function: call.FunctionID, Message: "This session has no such blob."}.Outcome()
		return l
	}
	for try := 0; ; try++ {
		raw, err := c.t.within(ctx, in)
		if err != nil && meta.Idempotent && try < repeats && step.Ambiguous(bus.Code(err)) {
			continue
		}
		l.awaiting = errors.Is(err, bus.ErrAwaiting)
		if !l.awaiting {
			l.outcome = c.result(ctx, call, meta, raw, err)
		}
		l.took = c.t.Clock.Monotonic() - begun
		return l
	}
}

// deadline is how long a target may take, and what is known about it.
func (c checker) deadline(functionID string) (time.Duration, bus.Meta) {
	entry, _ := c.t.Directory.Lookup(bus.DefaultNamespace, functionID)
	if ms := entry.Meta.TimeoutMS; ms > 0 {
		return time.Duration(ms) * time.Millisecond, entry.Meta
	}
	return c.t.cfg.CallTimeout, entry.Meta
}

// result makes the result that the model gets of what a target answered.
func (c checker) result(ctx context.Context, call step.Call, meta bus.Meta, reply json.RawMessage, err error) step.Outcome {
	switch {
	case err != nil:
		code, message := describe(err)
		return c.fit(ctx, step.FromError(call, code, message))
	case meta.Sensitive:
		return step.FromReply(encode("The call succeeded. Its result is sensitive and is not shown."))
	}
	if shown, special := c.shown(ctx, call, reply); special {
		return c.fit(ctx, shown)
	}
	if drained, ok := c.drained(ctx, reply); ok {
		return c.fit(ctx, drained)
	}
	return c.fit(ctx, step.FromReply(reply))
}
