package step

import (
	"strconv"
	"time"
)

// DueAfter is how long after a write of a running step the sweep looks.
const DueAfter = 120 * time.Second

// Pause stops the turn until a time; a timer wakes it. It is the next pause of
// the model call that was made.
func (r *Record) Pause(reason string, until, now int64) {
	n := r.retries + 1
	id := TimerID(r.SessionID, r.Run, "wait", strconv.FormatInt(r.TurnCount, 10)+"_"+strconv.FormatInt(n, 10))
	r.Wait = &Wait{UntilMS: until, TimerID: id, Reason: reason, N: n}
	r.UpdatedAtMS = now
	r.setTimer(id, until)
}

// cancelWait ends a pause that nothing comes after.
func (r *Record) cancelWait() {
	if r.Wait != nil {
		r.cancelTimer(r.Wait.TimerID)
		r.Wait = nil
	}
}

// SetDue sets when the sweep should look at the record.
func (r *Record) SetDue(now int64) {
	switch {
	case r.State.Terminal() && r.Outbox.IsZero() && len(r.fresh) == 0:
		r.DueAt = 0
	case r.State.Terminal():
		r.DueAt = now + DueAfter.Milliseconds()
	case r.Wait != nil:
		r.DueAt = r.Wait.UntilMS
	case r.State == Awaiting:
		r.DueAt = now
	default:
		r.DueAt = now + DueAfter.Milliseconds()
	}
}

// DueNow reports whether something that the turn waits for is over by itself:
// a pause, a call's deadline, or the time to decide.
func (r *Record) DueNow(now int64) bool {
	if r.Wait != nil {
		return r.Wait.UntilMS <= now
	}
	for _, w := range r.AwaitingResult {
		if w.DeadlineMS <= now {
			return true
		}
	}
	for _, w := range r.AwaitingApproval {
		if w.ExpiresAt > 0 && w.ExpiresAt <= now {
			return true
		}
	}
	return false
}

// NextDue is when the next wait for a result or a decision is over by itself,
// 0 if none is.
func (r *Record) NextDue() int64 {
	next := int64(0)
	earlier := func(at int64) {
		if at > 0 && (next == 0 || at < next) {
			next = at
		}
	}
	for _, w := range r.AwaitingResult {
		earlier(w.DeadlineMS)
	}
	for _, w := range r.AwaitingApproval {
		earlier(w.ExpiresAt)
	}
	return next
}

// Waiting reports whether nothing moves the turn but what DueNow names, a
// decision, a stored result or an abort.
func (r *Record) Waiting() bool { return r.Wait != nil || r.State == Awaiting }
