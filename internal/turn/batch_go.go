package turn

import (
	"github.com/iii-aws/harness/engine/redact"
	"github.com/iii-aws/harness/internal/turn/step"
)

// goDispatch runs dispatchWithHook for a call on a goroutine of its own. A
// panic becomes a result.
func (b *batch) goDispatch(id string, approved, started bool) {
	call, run, again := b.d.rec.Call(id).Call, b.d.rec.Run, b.events
	go func() {
		e := event{id: id, approved: approved}
		defer func() {
			if v := recover(); v != nil {
				e.verdict, e.landed = nil, nil
				err := panicError(v)
				b.d.t.Logger.Error("call panicked", "session", b.c.session, "function", redact.Name(call.FunctionID), "error", err)
				if started {
					e.landed = &landed{outcome: step.Unknown(call)}
				} else {
					refused := b.c.unreachable("policy unreachable: "+err.Error(), call)
					e.verdict = &refused
				}
			}
			again <- e
		}()
		b.dispatchWithHook(&e, call, run, started)
	}()
}

// dispatchWithHook is the only way to a target. It has two halves with the
// write of the ledger between them: first the gates (kernel, policy, hook,
// approval), then, for a call whose start is on record, the target.
func (b *batch) dispatchWithHook(e *event, call step.Call, run string, started bool) {
	switch {
	case started:
		l := b.c.dispatch(b.ctx, run, call)
		e.landed = &l
	case e.approved:
		v := b.c.recheck(b.ctx, call)
		e.verdict = &v
	default:
		v := b.c.consult(b.ctx, call)
		e.verdict = &v
	}
}

// ask makes a call wait for a person.
func (b *batch) ask(id string, v *verdict, now int64) {
	if v.args != nil {
		b.d.rec.Rewrite(id, v.args)
	}
	expires := int64(0)
	if after := b.d.t.cfg.ApprovalExpiresAfter; after > 0 {
		expires = now + after.Milliseconds()
	}
	b.d.rec.Ask(id, excerpt(b.d.rec.Call(id).Call.Arguments.Raw, v.diff), expires, now)
	b.changed, b.asked = true, true
}
