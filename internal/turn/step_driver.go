package turn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/queue"
	"github.com/iii-aws/harness/internal/turn/step"
)

// StepResponse is the result of turn::step and of the states by name.
type StepResponse struct {
	OK        bool       `json:"ok"`
	FromState step.State `json:"from_state,omitempty"`
	ToState   step.State `json:"to_state,omitempty"`
	Skipped   bool       `json:"skipped,omitempty"`
	// Reason is stale if the message had nothing to do.
	Reason string `json:"reason,omitempty"`
}

func stale() StepResponse { return StepResponse{OK: true, Skipped: true, Reason: "stale"} }

// step serves turn::step: it takes the turn and runs it until it ends, waits,
// or must be handed over. Errors: *TransientError.
func (t *Turn) step(ctx context.Context, call *bus.Call, req StepRequest) (StepResponse, error) {
	rec, err := t.load(ctx, req.SessionID)
	if res, done, err := t.unusable(rec, req, err); done {
		return res, err
	}
	d := t.drive(ctx, call, rec)
	defer d.close()
	d.handle = queue.DeliveryFrom(ctx)
	if err := d.readControl(); err != nil {
		return StepResponse{}, transient(CodeStorage, err)
	}
	nothing, err := d.nothingToDo()
	switch {
	case err != nil:
		return StepResponse{}, err
	case nothing:
		d.seen()
		return stale(), nil
	}
	from := rec.State
	if err := d.take(); err != nil {
		return StepResponse{}, err
	}
	if err := d.loop(); err != nil {
		return StepResponse{}, d.classify(err)
	}
	return StepResponse{OK: true, FromState: from, ToState: d.rec.State}, nil
}

// unusable answers messages whose record is missing, of another run, or not
// readable by this code.
func (t *Turn) unusable(rec *step.Record, req StepRequest, err error) (StepResponse, bool, error) {
	var newer *step.NewerError
	var broken *step.BrokenError
	switch {
	case errors.As(err, &newer):
		return StepResponse{}, true, transient(CodeNewerRecord, err)
	case errors.As(err, &broken):
		t.alarm("turn_record_broken", "turn record cannot be read", "session", req.SessionID, "error", err)
		return StepResponse{}, true, err
	case err != nil:
		return StepResponse{}, true, transient(CodeStorage, err)
	case rec == nil:
		t.Logger.Warn("wake without a record", "session", req.SessionID, "cause", req.Cause)
		return stale(), true, nil
	case rec.Run != req.Run:
		return stale(), true, nil
	}
	return StepResponse{}, false, nil
}

// loop runs transition after transition.
func (d *driver) loop() error {
	for first := true; ; first = false {
		if err := d.holds(); err != nil {
			return err
		}
		if _, err := d.interrupted(); err != nil {
			return err
		}
		switch {
		case d.rec.State.Terminal():
			return d.end()
		case d.aborted():
			d.rec.Abort(nil, d.t.nowMS())
			if err := d.save("aborted"); err != nil {
				return err
			}
			continue
		case d.rec.Wait != nil && d.rec.Wait.UntilMS > d.t.nowMS():
			return d.rest()
		case !first && d.mustHandOver():
			return d.handOver()
		}
		err := d.transition()
		switch {
		case errors.Is(err, errParked):
			return d.rest()
		case err != nil:
			return err
		case d.single:
			return d.afterOne()
		}
	}
}

// transition runs the handler of the state the record is in. Its errors are
// transient; any other error ended the run as failed.
func (d *driver) transition() (err error) {
	err = d.contained(func() error {
		switch d.rec.State {
		case step.Provisioning:
			return d.provision()
		case step.Streaming:
			return d.stream()
		case step.Executing, step.Awaiting:
			return d.execute()
		default:
			return d.steer()
		}
	})
	if err == nil || errors.Is(err, errParked) || d.ctx.Err() != nil {
		return err
	}
	if aborted, readErr := d.interrupted(); aborted || readErr != nil {
		return readErr // the loop ends the run
	}
	if isTransient(err) {
		return err
	}
	return d.fail(err)
}

// contained turns a panic into an error.
func (d *driver) contained(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = panicError(v)
			d.t.Logger.Error("transition panicked", "session", d.rec.SessionID, "state", d.rec.State, "error", err)
		}
	}()
	return f()
}

// fail ends the run as failed, from the record as it was last written.
func (d *driver) fail(cause error) error {
	d.t.alarm("turn_failed", "transition failed", "session", d.rec.SessionID, "state", d.rec.State, "error", cause)
	if err := d.rollback(); err != nil {
		return err
	}
	d.rec.Fail(errors.New(clean(cause)), d.t.nowMS())
	return d.save("failed")
}

// classify makes the error that the queue sees.
func (d *driver) classify(err error) error {
	if isTransient(err) {
		return err
	}
	if cause := context.Cause(d.ctx); cause != nil {
		return &TransientError{Code: CodeStopping, Err: fmt.Errorf("%w (%w)", err, cause), After: time.Millisecond}
	}
	return transient(CodeStorage, err)
}

// nothingToDo reports whether the message is stale: the run has ended and owes
// nothing, or waits and nothing has come.
func (d *driver) nothingToDo() (bool, error) {
	rec := d.rec
	switch {
	case rec.State.Terminal():
		return rec.Outbox.IsZero(), nil
	case !rec.Waiting(), !rec.Outbox.IsZero(), d.aborted(), rec.DueNow(d.t.nowMS()):
		return false, nil
	case rec.Wait != nil:
		return true, nil
	case rec.Settle() != step.Park:
		return false, nil
	}
	come, err := d.readArrivals()
	if err != nil {
		return false, transient(CodeStorage, err)
	}
	return len(come.decisions) == 0 && len(come.results) == 0, nil
}

// aborted reports whether somebody asked for the end of this run.
func (d *driver) aborted() bool {
	return d.control.Abort != nil && d.control.Abort.Run == d.rec.Run
}

// mustHandOver reports whether the time left is too short for a transition.
func (d *driver) mustHandOver() bool {
	left, bounded := d.remaining()
	if !bounded {
		return false
	}
	if d.rec.State == step.Streaming {
		return left < d.budget/2
	}
	return left <= d.t.cfg.Reserve
}

// remaining is how long this delivery may still work.
func (d *driver) remaining() (time.Duration, bool) {
	if d.budget == 0 {
		return 0, false
	}
	return d.budget - (d.t.Clock.Monotonic() - d.begun), true
}

// handOver passes the turn to a fresh message.
func (d *driver) handOver() error {
	if err := d.settleWrites(); err != nil {
		return err
	}
	if err := d.drain(); err != nil {
		return err
	}
	if err := d.out.fatal(); err != nil {
		return d.failAndEnd(err)
	}
	w := d.t.wake(d.ctx, d.rec.Principal, StepRequest{
		SessionID: d.rec.SessionID, Run: d.rec.Run, Cause: fmt.Sprintf("handover:%d", d.rec.Version),
	})
	_, err := w.Wait(d.ctx)
	return err
}

// settleWrites saves a transition that was left to be folded into the next.
func (d *driver) settleWrites() error {
	if !d.rec.Pending() {
		return nil
	}
	return d.save(string(d.rec.State))
}

// afterOne ends a transition that was called by name.
func (d *driver) afterOne() error {
	if err := d.settleWrites(); err != nil {
		return err
	}
	if d.rec.ShouldWake() {
		return d.handOver()
	}
	if d.rec.State.Terminal() {
		return d.end()
	}
	return d.rest()
}

var errParked = errors.New("turn: parked")
