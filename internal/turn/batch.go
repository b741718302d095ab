package turn

import (
	"context"
	"time"

	"github.com/iii-aws/harness/internal/turn/step"
)

// batch runs the calls of an assistant message. It belongs to the driver's
// goroutine; checks and calls run beside it and report through events.
type batch struct {
	d      *driver
	c      checker
	ctx    context.Context
	cancel context.CancelFunc
	events chan event

	// checking and flying are the calls that a goroutine works for, ready
	// those that start with the next write.
	checking map[string]bool
	flying   map[string]bool
	ready    []string
	// asked: a wait was added whose row may be there already.
	asked bool
	// changed: the lists of what is waited for have changed untold.
	changed bool
	// seen is the control rev whose rows were read.
	seen int64
	// closing: no time is left to begin anything.
	closing bool
}

// event is what a goroutine of the batch reports.
type event struct {
	id       string
	verdict  *verdict
	approved bool // the verdict is on a call that a person approved
	landed   *landed
}

func (d *driver) newBatch() *batch {
	b := &batch{
		d: d, c: checker{t: d.t, principal: d.rec.Principal, session: d.rec.SessionID},
		events:   make(chan event, 2*len(d.rec.Work.Prepared)),
		checking: map[string]bool{}, flying: map[string]bool{}, seen: d.control.Rev,
	}
	b.ctx, b.cancel = context.WithCancel(d.ctx)
	return b
}

// execute runs the batch until every call has its result, all that is left
// waits, or somebody wants the turn to end. It also resumes a batch that
// waited.
func (d *driver) execute() error {
	if d.rec.Work == nil {
		return &InvariantError{Text: "the batch of the turn is missing"}
	}
	b := d.newBatch()
	defer b.cancel()
	if err := b.resume(); err != nil {
		return err
	}
	for {
		if err := b.round(); err != nil {
			return err
		}
		switch {
		case d.aborted():
			b.takeMore() // what has its result keeps it
			return nil
		case d.rec.State != step.Executing && d.rec.State != step.Awaiting:
			return nil
		case b.busy():
			if err := b.wait(); err != nil {
				return err
			}
		case d.rec.Settle() == step.Park && !d.rec.Pending():
			return errParked
		case b.closing:
			return nil
		}
	}
}

// round starts what can be started and saves what has changed.
func (b *batch) round() error {
	b.fill()
	b.gather()
	d := b.d
	if d.aborted() {
		return nil
	}
	if d.rec.Settle() == step.Finish {
		return b.finish()
	}
	now := d.t.nowMS()
	parked := !b.busy() && len(b.ready) == 0 && d.rec.Settle() == step.Park
	switch {
	case parked:
		d.rec.ParkNow(b.changed, now)
	case d.rec.State == step.Awaiting && len(d.rec.AwaitingApproval)+len(d.rec.AwaitingResult) == 0:
		d.rec.Resume(now)
	case b.changed:
		d.rec.Tell(now)
	}
	b.changed = false
	for _, id := range b.ready {
		d.rec.MarkStarted(id, now)
	}
	if len(b.ready) == 0 && !d.rec.Pending() {
		return nil
	}
	what := "result"
	if len(b.ready) > 0 {
		what = "started"
	}
	if parked {
		what = "parked"
	}
	if err := d.save(what); err != nil {
		return err
	}
	b.launch()
	if parked || b.asked {
		b.asked = false
		return b.look()
	}
	return nil
}

// busy reports whether a goroutine works for the batch.
func (b *batch) busy() bool { return len(b.checking)+len(b.flying) > 0 }

// fill begins the checks of calls that nobody works on, in order, as far as
// there is room.
func (b *batch) fill() {
	rec := b.d.rec
	for _, id := range rec.Open() {
		if b.closing || len(b.checking)+len(b.flying)+len(b.ready) >= b.d.t.cfg.MaxParallelCalls {
			return
		}
		if b.checking[id] || b.flying[id] || b.isReady(id) || rec.Approval(id) != nil || rec.Waited(id) != nil {
			continue
		}
		rec.Announce(id)
		switch p := rec.Call(id); p.Route {
		case step.Synthetic:
			rec.ResolveSynthetic(id, b.d.t.nowMS())
		case step.PreApproved:
			b.check(id, true)
		default:
			b.check(id, false)
		}
	}
}

func (b *batch) isReady(id string) bool {
	for _, r := range b.ready {
		if r == id {
			return true
		}
	}
	return false
}

// check asks the gates about a call.
func (b *batch) check(id string, approved bool) {
	b.checking[id] = true
	b.goDispatch(id, approved, false)
}

// launch dispatches the calls that were marked started by the last write.
func (b *batch) launch() {
	for _, id := range b.ready {
		b.flying[id] = true
		b.goDispatch(id, false, true)
	}
	b.ready = nil
}

// gather waits a moment for checks that are about to end, so that one write
// takes them all.
func (b *batch) gather() {
	if len(b.checking) == 0 {
		return
	}
	timer := b.d.t.Clock.NewTimer(b.d.t.cfg.FoldWindow)
	defer timer.Stop()
	for len(b.checking) > 0 {
		select {
		case e := <-b.events:
			b.take(e)
			b.fill()
		case <-timer.C():
			return
		case <-b.ctx.Done():
			return
		}
	}
}

// take applies what a goroutine reports.
func (b *batch) take(e event) {
	now := b.d.t.nowMS()
	if e.landed != nil {
		delete(b.flying, e.id)
		if e.landed.awaiting {
			b.d.rec.Await(e.id, e.landed.deadline)
			b.changed, b.asked = true, true
			return
		}
		b.d.rec.Resolved(e.id, e.landed.outcome, e.landed.took.Milliseconds(), now)
		return
	}
	if !b.checking[e.id] {
		return // asked for, then given up
	}
	delete(b.checking, e.id)
	v := e.verdict
	switch {
	case v.denied != nil:
		b.changed = b.changed || b.d.rec.Approval(e.id) != nil
		b.d.rec.Resolved(e.id, *v.denied, 0, now)
	case v.ask:
		b.ask(e.id, v, now)
	case e.approved:
		if b.d.rec.Approval(e.id) != nil {
			b.d.rec.Approve(e.id)
			b.changed = true
		}
		b.ready = append(b.ready, e.id)
	default:
		if v.args != nil {
			b.d.rec.Rewrite(e.id, v.args)
		}
		b.ready = append(b.ready, e.id)
	}
}

// deadlineTimer fires when the next thing that is waited for is over by itself.
func (b *batch) deadlineTimer() (<-chan time.Time, func()) {
	next := b.d.rec.NextDue()
	if next == 0 {
		return nil, func() {}
	}
	t := b.d.t.Clock.NewTimer(time.Duration(max(next-b.d.t.nowMS(), 0)) * time.Millisecond)
	return t.C(), func() { t.Stop() }
}
