package turn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
	"github.com/iii-aws/harness/internal/turn/step"
)

// errInterrupted ends a transition whose outside work an abort has ended.
var errInterrupted = errors.New("turn: interrupted by an abort")

// readControl reads the session's control item.
func (d *driver) readControl() error {
	c, ok, err := d.t.control(d.ctx, d.rec.SessionID)
	if err == nil && ok {
		d.control = c
	}
	return err
}

// seen stores the rev of the control item behind which nothing was found: else
// each sweep would wake a turn that waits for the same viewer who has come, or
// the same words in its inbox. Nothing is passed over, as what a rev tells of is
// written before it, and was read behind it. A failure costs the next sweep a
// wake; as an error it would count towards giving the run up.
func (d *driver) seen() {
	rec := d.rec
	if rec.State != step.Awaiting || rec.Wait != nil || d.control.Rev <= rec.SeenRev {
		return
	}
	rec.SeenRev = d.control.Rev
	// The due time names the next sweep's wake, which the queue would otherwise
	// take for this one.
	rec.SetDue(d.t.nowMS())
	_, err := state.Do(d.ctx, d.t.State, d.t.recordWrite(d.ctx, rec, rec.Encode()))
	switch {
	case err == nil:
		d.t.Stats.Waited(rec.SessionID, "seen")
	case isConflict(err), d.ctx.Err() != nil:
		d.t.Logger.Debug("rev not stored", "session", rec.SessionID, "error", err)
	default:
		d.t.Logger.Warn("rev not stored", "session", rec.SessionID, "error", err)
	}
}

func (t *Turn) control(ctx context.Context, session string) (c agent.Control, ok bool, err error) {
	item, ok, err := t.State.Get(ctx, state.Key{Scope: agent.ScopeControl, Key: session})
	if err != nil || !ok {
		return c, false, err
	}
	if err := json.Unmarshal(item.Value, &c); err != nil {
		return c, false, fmt.Errorf("control item of %s: %w", session, err)
	}
	return c, true, nil
}

// follow listens to the control item while the step works: it passes on that
// something has changed, and ends the outside work of an aborted run.
func (d *driver) follow(session, run string) {
	for range d.t.State.Watch(d.ctx, state.Key{Scope: agent.ScopeControl, Key: session}) {
		c, _, err := d.t.control(d.ctx, session)
		if err != nil && d.ctx.Err() == nil {
			d.t.Logger.Warn("control item cannot be read", "session", session, "error", err)
		}
		if c.Abort != nil && c.Abort.Run == run {
			d.stopWork()
		}
		select {
		case d.heard <- struct{}{}:
		default:
		}
	}
}

// interrupted reports whether an abort has ended the outside work, and then
// reads who asked for it.
func (d *driver) interrupted() (bool, error) {
	if d.work.Err() == nil || d.ctx.Err() != nil {
		return false, nil
	}
	if err := d.readControl(); err != nil {
		return false, transient(CodeStorage, err)
	}
	return d.aborted(), nil
}
