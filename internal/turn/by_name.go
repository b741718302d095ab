package turn

import (
	"context"
	"errors"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/internal/turn/step"
)

// byName serves turn::<state>: it runs the one transition of that state, if the
// turn is in it, and sends the turn on. It takes the turn from a step that
// runs. Errors: *InvariantError without a record, *TransientError.
func (t *Turn) byName(ctx context.Context, call *bus.Call, want step.State, req SessionRequest) (StepResponse, error) {
	rec, err := t.load(ctx, req.SessionID)
	var newer *step.NewerError
	switch {
	case errors.As(err, &newer):
		return StepResponse{}, transient(CodeNewerRecord, err)
	case err != nil:
		return StepResponse{}, err
	case rec == nil:
		return StepResponse{}, missingSession(string(want), req.SessionID)
	case rec.State != want:
		return stale(), nil
	}
	d := t.drive(ctx, call, rec)
	defer d.close()
	d.single = true
	if err := d.readControl(); err != nil {
		return StepResponse{}, transient(CodeStorage, err)
	}
	if err := d.take(); err != nil {
		return StepResponse{}, err
	}
	if err := d.loop(); err != nil {
		return StepResponse{}, d.classify(err)
	}
	return StepResponse{OK: true, FromState: want, ToState: d.rec.State}, nil
}
