package step

// Next is where a batch goes.
type Next int

// What a batch needs next.
const (
	// Finish: every call has its result.
	Finish Next = iota
	// Park: what is left waits for a person or a stored result.
	Park
	// Run: calls can be dispatched.
	Run
)

// Settle says what the batch needs next.
func (r *Record) Settle() Next {
	open := r.Open()
	if len(open) == 0 {
		return Finish
	}
	for _, id := range open {
		if r.Approval(id) == nil && r.Waited(id) == nil {
			return Run
		}
	}
	return Park
}

// ParkNow enters the state that waits for people and stored results. A record
// that waits already tells of a change only.
func (r *Record) ParkNow(changed bool, now int64) {
	if r.State != Awaiting {
		r.move(Awaiting, now)
	} else if changed {
		r.tell(now)
	}
}

// Resume leaves the wait because a call can be dispatched.
func (r *Record) Resume(now int64) {
	if r.State == Awaiting {
		r.move(Executing, now)
	}
}
