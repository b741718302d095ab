package approval

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
)

// store writes the decision, and with it the grant if there is one, unless a
// decision on this call stands. won tells whether it is ours that stands, row
// is the other one.
func (g *Gate) store(ctx context.Context, call *bus.Call, r Request, mine agent.Decision, grant *agent.Grant) (won bool, row agent.Decision, err error) {
	value, err := bus.Encode(mine)
	if err != nil {
		return false, row, err
	}
	key := rowKey(r)
	unsure := false
	for range attempts {
		row, version, err := g.row(ctx, r)
		if err != nil {
			return false, row, err
		}
		if version != 0 && row.Run == mine.Run && row.ArgsHash == mine.ArgsHash {
			return unsure && same(row, mine), row, nil
		}
		w := state.Set(key.Scope, key.Key, value).IfAbsent()
		if version != 0 {
			w = w.IfVersion(version) // it is on another run or other arguments
		}
		w.Origin = origin(call)
		tx := []state.Write{w}
		if grant != nil {
			value, err := bus.Encode(grant)
			if err != nil {
				return false, row, err
			}
			w := state.Set(agent.ScopeApprovalGrants, r.SessionID+"/"+grant.ArgsHash, value)
			w.Origin = origin(call)
			tx = append(tx, w)
		}
		_, err = g.State.Submit(ctx, tx).Wait(ctx)
		if err == nil {
			return true, mine, nil
		}
		var conflict *state.ConflictError
		var failed *state.StorageError
		lost := errors.As(err, &failed) && failed.Ambiguous
		if !lost && !errors.As(err, &conflict) {
			return false, row, err
		}
		unsure = unsure || lost
	}
	return false, row, errors.New("approval: other decisions were in the way each time")
}

// same reports whether a stored row is the one whose answer was lost.
func same(a, b agent.Decision) bool {
	reason := func(d agent.Decision) string {
		if d.Reason == nil {
			return ""
		}
		return *d.Reason
	}
	return a.Decision == b.Decision && a.DecidedBy == b.DecidedBy && a.DecidedAt == b.DecidedAt && reason(a) == reason(b)
}

func origin(call *bus.Call) state.Origin {
	return state.Origin{Principal: call.Principal, Traceparent: call.Traceparent, Baggage: call.Baggage}
}

// raise tells a running step to look. The row's own trigger wakes the turn in
// any case, so a failure here costs time, not the decision.
func (g *Gate) raise(ctx context.Context, call *bus.Call, session string) {
	w := state.Update(agent.ScopeControl, session, state.Op{
		Type: "increment", Path: json.RawMessage(`"rev"`), By: json.RawMessage("1"),
	})
	w.Origin = origin(call)
	if _, err := state.Do(ctx, g.State, w); err != nil {
		g.Logger.Error("control item not raised", "alarm", "control_raise", "session", session, "error", err)
	}
}
