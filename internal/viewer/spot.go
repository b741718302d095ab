package viewer

import "github.com/iii-aws/harness/internal/agent"

// spot is how far a viewer got: in the log, and in the message being streamed.
type spot struct {
	// next is the next event.
	next int64
	// draft is the message that cursor is in.
	draft  *draft
	cursor cursor
	join   join
	// end and rev are those of the snapshots that are being sent.
	end cursor
	rev int64
}

// join is what a viewer lacks of a draft that goes on.
type join int

const (
	// follows: it has all up to its cursor.
	follows join = iota
	// joins: it has nothing that counts and needs snapshots.
	joins
	// catches: it is being sent snapshots.
	catches
)

// enter goes over to the draft of now: from its beginning, for a viewer that
// was there when it began.
func (a *spot) enter(d *draft) {
	if a.draft != d {
		*a = spot{next: a.next, draft: d}
	}
}

// wants reports whether the draft has something for the viewer. Of a message
// that is complete (not open) it gets what little is left, or nothing: then it
// has lost its place, should the draft go on after all.
func (a *spot) wants(open bool) bool {
	switch {
	case a.draft == nil:
		return false
	case open:
		return a.join != follows || a.draft.pending(a.cursor)
	case a.join != follows, !a.draft.short(a.cursor):
		a.cursor, a.join = cursor{}, joins
		return false
	}
	return a.draft.pending(a.cursor)
}

// take is the next update of the draft; ok is false if there was none after
// all.
func (a *spot) take() (u agent.MessageUpdate, ok bool) {
	d := a.draft
	if a.join == joins {
		a.cursor, a.join, a.end, a.rev = cursor{}, catches, d.end(), d.rev
	}
	if a.join == catches {
		if u, a.cursor, ok = d.snapshot(a.cursor, a.end, a.rev); ok {
			return u, true
		}
		a.join = follows
	}
	if !d.pending(a.cursor) {
		return u, false
	}
	u, a.cursor = d.next(a.cursor)
	return u, true
}
