package turn

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/queue"
	"github.com/iii-aws/harness/internal/agent"
	"github.com/iii-aws/harness/internal/turn/step"
)

// leaseLost is how old the last renewal of the message may be: after that
// another consumer may have it.
const leaseLost = 40 * time.Second

// driver runs the turn of one delivery. It is for one goroutine.
type driver struct {
	t      *Turn
	ctx    context.Context
	cancel context.CancelFunc
	handle *queue.Handle
	rec    *step.Record
	// single: one transition was asked for by name.
	single bool

	// saved is the record as it was last written, for whoever rolls back.
	saved json.RawMessage
	blobs *blobCache
	out   *courier

	control agent.Control
	// raised: the lease was raised and that was not written yet.
	raised bool
	// heard has a token when the control item may have changed.
	heard chan struct{}
	// work is the context of outside work; it ends with an abort, so that no
	// state makes one wait.
	work     context.Context
	stopWork context.CancelFunc

	begun  time.Duration
	budget time.Duration

	// viewer posts to those who watch; nil if a foreign fan-out does.
	viewer ViewerSession

	request *runRequest
	// history is the conversation as the model gets it, once it was read.
	history []agent.Message
	read    bool
}

// drive makes the driver of a record.
func (t *Turn) drive(ctx context.Context, call *bus.Call, rec *step.Record) *driver {
	d := &driver{t: t, rec: rec, blobs: newBlobCache(), begun: t.Clock.Monotonic(), budget: t.cfg.StepBudget}
	own := *call
	own.Principal = rec.Principal
	d.ctx, d.cancel = context.WithCancel(bus.WithCall(ctx, &own))
	d.work, d.stopWork = context.WithCancel(d.ctx)
	d.heard = make(chan struct{}, 1)
	return d
}

// close ends the delivery, however it went. The viewers are left last: until it
// has stopped the courier may tell them of events.
func (d *driver) close() {
	d.cancel()
	if d.out != nil {
		d.out.stop()
	}
	if d.viewer != nil {
		d.viewer.Close()
	}
}

// take makes this delivery the one that holds the turn. The raised lease is
// written with the first record; the first delivery of a new run needs none.
func (d *driver) take() error {
	untouched := d.rec.State == step.Provisioning && d.rec.UpdatedAtMS == d.rec.StartedAtMS
	if d.handle == nil || d.handle.Receives > 1 || !untouched {
		d.rec.Lease++
		d.raised = true
	}
	if d.handle != nil && !d.handle.Deadline.IsZero() {
		left := d.handle.Deadline.Sub(d.t.Clock.Now())
		if d.budget == 0 || left < d.budget {
			d.budget = left
		}
	}
	if err := d.t.loadValues(d.ctx, d.rec, d.blobs); err != nil {
		return transient(CodeStorage, err)
	}
	// A message of the run is here: none is missing.
	d.rec.Delivered(d.rec.Wakes())
	d.saved = d.rec.Encode()
	go d.follow(d.rec.SessionID, d.rec.Run)
	by := ""
	if d.t.ownsFanout() {
		by = "step"
		if d.t.Viewer != nil {
			d.viewer = d.t.Viewer.Open(d.rec.SessionID, d.rec.Lease)
		}
	}
	base := d.rec.Outbox.Base
	if !d.rec.OwesEvents() {
		head, err := d.t.Stream.Head(d.ctx, agent.StreamEvents, d.rec.SessionID)
		if err != nil {
			return transient(CodeStorage, err)
		}
		base = head.Tail
	}
	d.out = newCourier(d, by, base)
	return d.deliverLeft()
}

// ownsFanout reports whether the built-in fan-out serves the events: then the
// step posts them itself.
func (t *Turn) ownsFanout() bool {
	e, ok := t.Directory.Lookup(bus.DefaultNamespace, "harness::fanout::agent_event_handler")
	return !ok || e.Kind == bus.KindBuiltin
}

// holds tells whether this delivery still holds the turn. It is asked before
// everything that reaches the world.
func (d *driver) holds() error {
	if d.ctx.Err() != nil {
		return &TransientError{Code: CodeStopping, Err: context.Cause(d.ctx), After: time.Millisecond}
	}
	if age := d.handle.RenewalAge(); age > leaseLost {
		return d.superseded(fmt.Sprintf("the message was not renewed for %s", age))
	}
	if d.control.Lease > d.rec.Lease {
		return d.superseded("another delivery holds the turn")
	}
	return nil
}

func (d *driver) superseded(why string) error {
	d.t.Logger.Warn("step superseded", "session", d.rec.SessionID, "lease", d.rec.Lease, "why", why)
	return &TransientError{Code: CodeSuperseded, Err: &InvariantError{Text: why}, After: 200 * time.Millisecond}
}

// rollback returns to the record as it was last written.
func (d *driver) rollback() error {
	rec, err := step.Parse(d.saved, d.rec.Version)
	if err != nil {
		return transient(CodeStorage, err)
	}
	if err := d.t.loadValues(d.ctx, rec, d.blobs); err != nil {
		return transient(CodeStorage, err)
	}
	d.rec = rec
	return nil
}

// invoke calls a function for the principal of the run.
func (d *driver) invoke(ctx context.Context, functionID string, payload json.RawMessage, timeout time.Duration) (json.RawMessage, error) {
	return d.t.within(ctx, bus.Invocation{FunctionID: functionID, Data: payload, Timeout: timeout, Principal: &d.rec.Principal})
}
