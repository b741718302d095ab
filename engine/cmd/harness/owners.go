package main

import (
	"context"
	"fmt"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/internal/agent"
)

// owners keeps the records of sessions to those who may see the session. What
// the harness has nothing to do with is everybody's who may call the function.
type owners struct {
	owns func(ctx context.Context, p bus.Principal, session string) (bool, error)
}

// Read implements state.Guard for values.
func (o owners) Read(ctx context.Context, call *bus.Call, scope, key string) (bool, error) {
	return o.reads(ctx, call.Principal, scope, key)
}

func (o owners) reads(ctx context.Context, p bus.Principal, scope, key string) (bool, error) {
	session, owned := agent.SessionOf(scope, key)
	if !owned || p.SeesAll() {
		return true, nil
	}
	if session == "" {
		return false, nil
	}
	return o.owns(ctx, p, session)
}

// Write implements state.Guard for values.
func (o owners) Write(ctx context.Context, call *bus.Call, scope, key string) error {
	may, err := o.reads(ctx, call.Principal, scope, key)
	if err != nil || may {
		return err
	}
	return &bus.Error{Code: protocol.CodeForbidden, Message: fmt.Sprintf("scope %s belongs to the harness: %q may write the records of its own sessions only", scope, call.Principal.ID)}
}

// logs does the same for streams: nobody but an operator writes to the log of a
// session.
type logs struct{ owners }

// Read implements state.Guard for streams.
func (l logs) Read(ctx context.Context, call *bus.Call, stream, group string) (bool, error) {
	if !agent.SessionStream(stream) || call.Principal.SeesAll() {
		return true, nil
	}
	return l.owns(ctx, call.Principal, group)
}

// Write implements state.Guard for streams.
func (logs) Write(_ context.Context, call *bus.Call, stream, _ string) error {
	if !agent.SessionStream(stream) || call.Principal.SeesAll() {
		return nil
	}
	return &bus.Error{Code: protocol.CodeForbidden, Message: fmt.Sprintf("stream %s is the log of sessions: only the harness writes to it", stream)}
}
