package trigger

import (
	"context"
	"fmt"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
)

// Revoke parks the stored bindings that a principal made, for good: what it may do has ended, so nothing is called for it
// any more. They stay in the lists until an operator unregisters them.
func (t *Table) Revoke(principal string) {
	t.changing.Lock()
	defer t.changing.Unlock()
	t.mu.Lock()
	var ended []*binding
	for b := range t.byConn[""] {
		if b.origin == stored && b.principal.ID == principal && !b.ended {
			b.ended = true
			ended = append(ended, b)
		}
	}
	t.mu.Unlock()
	for _, b := range ended {
		t.log.Warn("a stored trigger is parked: the token of its maker was revoked or has expired",
			"trigger_id", b.id, "trigger_type", b.kind, "function_id", b.functionID, "principal", principal)
		if err := t.settle(context.Background(), b); err != nil {
			t.park(b, bus.AsError(err))
		}
	}
}

// stands refuses to fire a stored binding whose maker may nothing any more. Tokens expire in silence, and may have been
// revoked while the bus was down.
func (t *Table) stands(ctx context.Context, b Binding) error {
	if t.cfg.Stands == nil || b.own == nil || b.own.origin != stored {
		return nil
	}
	p := b.own.principal
	ok, err := t.cfg.Stands(ctx, p)
	switch {
	case err != nil:
		return fmt.Errorf("trigger: whether %s stands: %w", p.ID, err)
	case ok:
		return nil
	}
	t.Revoke(p.ID)
	return &bus.Error{Code: protocol.CodeForbidden, Message: "The token of who made the trigger was revoked or has expired."}
}

// parked is why nobody serves a binding; empty if somebody does. The caller holds mu.
func (t *Table) parked(b *binding) string {
	switch {
	case b.served != nil:
		return ""
	case b.ended:
		return "revoked"
	case b.refused != nil && b.refused == t.types[t.typeOf(b)].top():
		return "refused"
	}
	return "no_provider"
}
