package turn

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/iii-aws/harness/engine/access"
	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/commit"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
	"github.com/iii-aws/harness/internal/turn/step"
)

// AbortResponse is the result of run::abort.
type AbortResponse struct {
	SessionID string `json:"session_id"`
	// Aborted: a run was in flight, and will end.
	Aborted bool `json:"aborted"`
	// State is that of the turn when it was asked for; null if there is none.
	State *step.State `json:"state"`
}

// abort serves run::abort. It asks the run that is in flight to end; a step
// that works hears of it at once, else the wake ends the run.
func (t *Turn) abort(ctx context.Context, call *bus.Call, req SessionRequest) (AbortResponse, error) {
	res := AbortResponse{SessionID: req.SessionID}
	rec, err := t.seen(ctx, call, req.SessionID)
	if err != nil || rec == nil {
		return res, err
	}
	res.State = &rec.State
	if rec.State.Terminal() {
		return res, nil
	}
	raise := state.Update(agent.ScopeControl, req.SessionID,
		state.Op{Type: "set", Path: json.RawMessage(`"abort"`), Value: encode(agent.Abort{Run: rec.Run, By: call.Principal.Actor(), AtMS: t.nowMS()})},
		rise(),
	)
	raise.Origin = origin(ctx, call.Principal)
	asked := t.State.Submit(ctx, []state.Write{raise})
	woken := t.wake(ctx, rec.Principal, StepRequest{SessionID: req.SessionID, Run: rec.Run, Cause: "abort"}, asked)
	if err := commit.Wait(ctx, asked, woken); err != nil {
		return AbortResponse{}, err
	}
	res.Aborted = true
	return res, nil
}

// rise is the op that makes a running step look.
func rise() state.Op {
	return state.Op{Type: "increment", Path: json.RawMessage(`"rev"`), By: json.RawMessage("1")}
}

// seen is the record of a session that the caller may see, nil if there is
// none. A record of newer code is read as far as this code can.
func (t *Turn) seen(ctx context.Context, call *bus.Call, session string) (*step.Record, error) {
	rec, err := t.load(ctx, session)
	var newer *step.NewerError
	if err != nil && !errors.As(err, &newer) {
		return nil, err
	}
	if rec == nil || access.Sees(call.Principal, rec.Principal.ID, session) {
		return rec, nil
	}
	// The run may have been started by somebody else than the owner. The
	// session is there, so this makes none.
	if err := t.ensure(ctx, session, ""); err != nil {
		if bus.Code(err) == "not_found" {
			return nil, nil
		}
		return nil, err
	}
	return rec, nil
}

// getState serves turn::get_state: the view of a session's turn, null if there
// is none or the caller may not see it.
func (t *Turn) getState(ctx context.Context, call *bus.Call, req SessionRequest) (*agent.TurnStateView, error) {
	rec, err := t.seen(ctx, call, req.SessionID)
	if err != nil || rec == nil {
		return nil, err
	}
	for i := range rec.AwaitingApproval {
		w := &rec.AwaitingApproval[i]
		if w.Args.Raw, err = t.text(ctx, w.Args); err != nil {
			return nil, err
		}
	}
	view := rec.View()
	return &view, nil
}
