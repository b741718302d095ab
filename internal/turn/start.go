package turn

import (
	"context"
	"errors"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
	"github.com/iii-aws/harness/internal/turn/step"
)

// startTries is how often run::start begins again when another writer was
// first.
const startTries = 8

// start serves run::start. It is idempotent by message id. Errors: an
// *InvalidError or *MissingError; not_found for a session of somebody else.
func (t *Turn) start(ctx context.Context, call *bus.Call, req StartRequest) (StartResponse, error) {
	if err := t.ensure(ctx, req.SessionID, req.Cwd); err != nil {
		return StartResponse{}, err
	}
	if req.MessageID == "" {
		req.MessageID = t.IDs.UUID()
	}
	for range startTries {
		res, again, err := t.tryStart(ctx, call, &req)
		if !again {
			return res, err
		}
	}
	return StartResponse{}, transient(CodeSuperseded, errors.New("another writer was first each time"))
}

// ensure makes the session, or checks that the caller may write to it.
func (t *Turn) ensure(ctx context.Context, session, cwd string) error {
	payload := map[string]any{"session_id": session}
	if cwd != "" {
		payload["cwd"] = cwd
	}
	_, err := t.Bus.Invoke(ctx, bus.Invocation{FunctionID: "session-tree::ensure", Data: encode(payload)})
	return err
}

func (t *Turn) tryStart(ctx context.Context, call *bus.Call, req *StartRequest) (res StartResponse, again bool, err error) {
	res = StartResponse{SessionID: req.SessionID, MessageID: req.MessageID}
	old, err := t.load(ctx, req.SessionID)
	var newer *step.NewerError
	switch {
	case errors.As(err, &newer):
		return StartResponse{SessionID: req.SessionID, Reason: "session_busy"}, false, nil
	case err != nil:
		return StartResponse{}, false, err
	}
	duplicate, err := t.accepted(ctx, old, req)
	if err != nil {
		return StartResponse{}, false, err
	}
	if duplicate {
		res.Started, res.Duplicate = true, true
		return res, false, t.rewake(ctx, old, req.MessageID)
	}
	if old != nil && !old.State.Terminal() {
		return StartResponse{SessionID: req.SessionID, Reason: "session_busy"}, false, nil
	}
	if old != nil {
		if err := t.loadValues(ctx, old, nil); err != nil {
			return StartResponse{}, false, err
		}
	}
	err = t.write(ctx, call, old, req)
	if isConflict(err) {
		return StartResponse{}, true, nil
	}
	if err != nil {
		return StartResponse{}, false, err
	}
	res.Started = true
	return res, false, nil
}

// accepted reports whether the message started a run before.
func (t *Turn) accepted(ctx context.Context, old *step.Record, req *StartRequest) (bool, error) {
	key := req.SessionID + "/" + req.MessageID
	if old != nil && (old.MessageID == req.MessageID || old.Owes(agent.ScopeRunAccepted, key)) {
		return true, nil
	}
	_, ok, err := t.State.Get(ctx, state.Key{Scope: agent.ScopeRunAccepted, Key: key})
	return ok, err
}

// rewake sends the wake of a run again that nobody has taken yet.
func (t *Turn) rewake(ctx context.Context, rec *step.Record, messageID string) error {
	if rec == nil || rec.MessageID != messageID || rec.State != step.Provisioning {
		return nil
	}
	_, err := t.wake(ctx, rec.Principal, StepRequest{SessionID: rec.SessionID, Run: rec.Run, Cause: "start"}).Wait(ctx)
	return err
}

// write makes the record of the new run and its wake, in one go.
func (t *Turn) write(ctx context.Context, call *bus.Call, old *step.Record, req *StartRequest) error {
	head, err := t.Stream.Head(ctx, agent.StreamEvents, req.SessionID)
	if err != nil {
		return err
	}
	rec := step.Start(old, step.Begin{
		SessionID: req.SessionID, MessageID: req.MessageID, Principal: call.Principal, MaxTurns: req.maxTurns(),
		Request: req.stored(), Messages: req.messages, NowMS: t.nowMS(),
	})
	rec.Seal(head.Tail)
	if err := t.storeValues(ctx, rec, nil); err != nil {
		return err
	}
	saved := t.State.Submit(ctx, []state.Write{t.recordWrite(ctx, rec, rec.Encode())})
	woken := t.wake(ctx, call.Principal, StepRequest{SessionID: rec.SessionID, Run: rec.Run, Cause: "start"}, saved)
	if _, err := saved.Wait(ctx); err != nil {
		if isAmbiguous(err) && t.readBack(ctx, rec) {
			_, err = t.wake(ctx, call.Principal, StepRequest{SessionID: rec.SessionID, Run: rec.Run, Cause: "start"}).Wait(ctx)
			return err
		}
		return err
	}
	_, err = woken.Wait(ctx)
	t.Stats.Waited(req.SessionID, "run::start")
	return err
}

// readBack reports whether the record of a run is stored after all.
func (t *Turn) readBack(ctx context.Context, rec *step.Record) bool {
	now, err := t.load(ctx, rec.SessionID)
	return err == nil && now != nil && now.Run == rec.Run
}
