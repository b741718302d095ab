package turn

import (
	"context"
	"errors"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/internal/turn/step"
)

// onDeadLetter serves turn::on_dead_letter: it ends the run whose message was
// given up, so that its session is not busy for ever. A record of newer code is
// left to it.
func (t *Turn) onDeadLetter(ctx context.Context, call *bus.Call, req StepRequest) (OK, error) {
	rec, err := t.load(ctx, req.SessionID)
	var newer *step.NewerError
	switch {
	case errors.As(err, &newer):
		return OK{OK: true}, nil
	case err != nil:
		return OK{}, err
	case rec == nil || rec.Run != req.Run || rec.State.Terminal():
		return OK{OK: true}, nil
	}
	t.alarm("turn_steps_exhausted", "turn given up", "session", req.SessionID, "run", req.Run, "cause", req.Cause)
	d := t.drive(ctx, call, rec)
	defer d.close()
	if err := d.readControl(); err != nil {
		return OK{}, transient(CodeStorage, err)
	}
	if err := d.take(); err != nil {
		return OK{}, err
	}
	d.rec.Exhaust("", t.nowMS())
	if err := d.save("failed"); err != nil {
		return OK{}, d.classify(err)
	}
	if err := d.end(); err != nil {
		return OK{}, d.classify(err)
	}
	return OK{OK: true}, nil
}
