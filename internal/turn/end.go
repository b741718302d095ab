package turn

import (
	"context"
	"errors"
	"time"
)

const (
	// drainFor is how long the end of a step waits for its deliveries.
	drainFor = 10 * time.Second
	// flushFor is how long it waits for slow viewers.
	flushFor = 2 * time.Second
)

// drain waits until everything owed is delivered.
func (d *driver) drain() error {
	timer := d.t.Clock.NewTimer(drainFor)
	defer timer.Stop()
	for {
		idle, changed := d.out.idle()
		if idle {
			return nil
		}
		select {
		case <-changed:
		case <-timer.C():
			return transient(CodeStorage, errors.Join(errors.New("the outbox could not be delivered"), d.out.lastError()))
		case <-d.ctx.Done():
			return &TransientError{Code: CodeStopping, Err: context.Cause(d.ctx), After: time.Millisecond}
		}
	}
}

func (c *courier) lastError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

// end ends a step whose run has ended: what is owed is delivered first, in a
// terminal state too.
func (d *driver) end() error {
	if err := d.drain(); err != nil {
		return err
	}
	d.t.Stats.Waited(d.rec.SessionID, "end events")
	if err := d.out.fatal(); err != nil {
		d.t.alarm("turn_outbox_lost", "the run ended without a part of its outbox", "session", d.rec.SessionID, "error", err)
	}
	return d.leave()
}

// rest ends a step whose turn waits.
func (d *driver) rest() error {
	if err := d.drain(); err != nil {
		return err
	}
	if err := d.out.fatal(); err != nil {
		return d.failAndEnd(err)
	}
	return d.leave()
}

// failAndEnd fails a run that waits, because it could not be told to the
// session.
func (d *driver) failAndEnd(cause error) error {
	if err := d.fail(cause); err != nil {
		return err
	}
	return d.end()
}

// leave clears what was delivered and acknowledges the message, in one go. The
// two do not depend on one another: nothing is owed any more.
func (d *driver) leave() error {
	d.flush()
	if d.rec.Outbox.IsZero() {
		return nil
	}
	cleared, parcels, err := d.submit()
	if err != nil {
		return err
	}
	if len(parcels) > 0 {
		d.out.send(parcels, cleared)
	}
	acked := d.handle.Ack()
	if _, err := cleared.Wait(d.ctx); err != nil {
		// Somebody else owns the record now, with what it owes.
		d.t.Logger.Debug("record not cleared", "session", d.rec.SessionID, "error", err)
	} else {
		d.tellLease()
	}
	if _, err := acked.Wait(d.ctx); err != nil {
		d.t.Logger.Warn("acknowledgement failed", "session", d.rec.SessionID, "error", err)
	}
	return nil
}

// flush lets the viewers have what was told to them. Should that fail or take
// too long, the close of the driver leaves them.
func (d *driver) flush() {
	if d.viewer == nil {
		return
	}
	ctx, cancel := context.WithCancel(d.ctx)
	defer cancel()
	timer := d.t.Clock.NewTimer(flushFor)
	defer timer.Stop()
	done := make(chan error, 1)
	go func() {
		var err error
		if v := caught(func() { err = d.viewer.Flush(ctx) }); v != nil {
			err = v
		}
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			d.t.Logger.Debug("viewers lag behind", "session", d.rec.SessionID, "error", err)
		}
	case <-timer.C():
	}
}
