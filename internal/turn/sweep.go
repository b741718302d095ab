package turn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/commit"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
	"github.com/iii-aws/harness/internal/turn/step"
)

// SweepResponse is the result of turn::sweep.
type SweepResponse struct {
	Woken int `json:"woken"`
}

// sweepAtOnce bounds the wakes that are sent together.
const sweepAtOnce = 1000

// sweep serves turn::sweep: it wakes turns that nobody woke. A turn that waits
// is woken if its control item has risen or a deadline has passed; on the local
// server the first sweep wakes every one of them, as a kill may have fallen
// between a row and the rise.
func (t *Turn) sweep(ctx context.Context, _ *bus.Call, _ struct{}) (SweepResponse, error) {
	t.mu.Lock()
	all := !t.swept && t.cfg.Local
	t.mu.Unlock()
	items, err := t.State.Due(ctx, agent.ScopeTurnState, t.Clock.Now(), 0)
	if err != nil {
		return SweepResponse{}, err
	}
	var res SweepResponse
	var first error
	for len(items) > 0 {
		n := min(len(items), sweepAtOnce)
		woken, err := t.sweepSome(ctx, items[:n], all)
		res.Woken += woken
		if first == nil {
			first = err
		}
		items = items[n:]
	}
	if first == nil {
		t.mu.Lock()
		t.swept = true
		t.mu.Unlock()
	}
	return res, first
}

func (t *Turn) sweepSome(ctx context.Context, items []state.Item, all bool) (int, error) {
	var sent []commit.Ticket
	var first error
	for _, item := range items {
		rec, err := step.Parse(item.Value, item.Version)
		var newer *step.NewerError
		if errors.As(err, &newer) {
			continue
		}
		if err != nil {
			t.alarm("turn_record_broken", "turn record cannot be read", "session", item.Key.Key, "error", err)
			continue
		}
		wake, err := t.forgotten(ctx, rec, all)
		if err != nil {
			first = err
		}
		if !wake {
			continue
		}
		cause := fmt.Sprintf("sweep:%d", rec.DueAt)
		if all {
			// Not the same message as that of a start a moment ago.
			cause += fmt.Sprintf(":start:%d", t.nowMS())
		}
		sent = append(sent, t.wake(ctx, rec.Principal, StepRequest{SessionID: rec.SessionID, Run: rec.Run, Cause: cause}))
	}
	if err := commit.Wait(ctx, sent...); err != nil {
		return 0, err
	}
	return len(sent), first
}

// forgotten reports whether a due record needs a wake.
func (t *Turn) forgotten(ctx context.Context, rec *step.Record, all bool) (bool, error) {
	if !rec.Waiting() || all || rec.DueNow(t.nowMS()) {
		return true, nil
	}
	if rec.Wait != nil {
		return false, nil
	}
	if rec.Settle() != step.Park || !rec.Outbox.IsZero() {
		return true, nil
	}
	item, ok, err := t.State.Get(ctx, state.Key{Scope: agent.ScopeControl, Key: rec.SessionID})
	if err != nil || !ok {
		return false, err
	}
	var c agent.Control
	if err := json.Unmarshal(item.Value, &c); err != nil {
		return false, err
	}
	return c.Rev > rec.SeenRev, nil
}
