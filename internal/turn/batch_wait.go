package turn

import (
	"time"

	"github.com/iii-aws/harness/internal/turn/step"
)

// tick is how often a waiting step checks that it still holds the turn.
const tick = 5 * time.Second

// wait waits for one thing to happen, and takes what else has happened by
// then. It listens to the control item: an abort ends the batch, a decision or
// a stored result is acted on while other calls run.
func (b *batch) wait() error {
	d := b.d
	due, stopDue := b.deadlineTimer()
	defer stopDue()
	beat := d.t.Clock.NewTimer(tick)
	defer beat.Stop()
	out, stopOut := d.outOfTime()
	defer stopOut()
	select {
	case e := <-b.events:
		b.take(e)
		b.takeMore()
	case <-d.heard:
		return b.listen()
	case <-due:
		return b.overdue()
	case <-out:
		return b.timeUp()
	case <-beat.C():
		return d.holds()
	case <-b.ctx.Done():
		return d.holds()
	}
	return d.holds()
}

// takeMore takes what has been reported already.
func (b *batch) takeMore() {
	for {
		select {
		case e := <-b.events:
			b.take(e)
		default:
			return
		}
	}
}

// listen reads the control item, and rows if it says that some have come.
func (b *batch) listen() error {
	d := b.d
	if err := d.readControl(); err != nil {
		return transient(CodeStorage, err)
	}
	if err := d.holds(); err != nil {
		return err
	}
	if d.aborted() || d.control.Rev == b.seen {
		return nil
	}
	d.refreshViewers()
	return b.look()
}

// outOfTime fires when this delivery should end.
func (d *driver) outOfTime() (<-chan time.Time, func()) {
	left, bounded := d.remaining()
	if !bounded {
		return nil, func() {}
	}
	t := d.t.Clock.NewTimer(max(left-d.t.cfg.Reserve, 0))
	return t.C(), func() { t.Stop() }
}

// timeUp ends the wait for calls that cannot end in time. Calls on sockets
// come back as rows; what runs in this process is lost with it.
func (b *batch) timeUp() error {
	d := b.d
	b.closing = true
	now := d.t.nowMS()
	for id := range b.flying {
		call := d.rec.Call(id).Call
		delete(b.flying, id)
		if d.t.servedHere(call.FunctionID) {
			d.rec.Resolved(id, step.Unknown(call), 0, now)
			continue
		}
		timeout, _ := b.c.deadline(call.FunctionID)
		d.rec.Await(id, d.rec.Ledger[id].At+timeout.Milliseconds())
		b.changed = true
	}
	// Checks have had no effect: the next delivery makes them again.
	clear(b.checking)
	return nil
}
