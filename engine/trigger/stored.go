package trigger

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/state"
)

// Scope is where the bindings of engine::register_trigger are kept. state::* refuses it.
const Scope = "engine:triggers"

// record is a stored binding.
type record struct {
	ID               string          `json:"id"`
	Type             string          `json:"trigger_type"`
	Namespace        string          `json:"namespace"`
	FunctionID       string          `json:"function_id"`
	TriggerNamespace string          `json:"trigger_namespace,omitempty"`
	Config           json.RawMessage `json:"config"`
	Metadata         json.RawMessage `json:"metadata,omitempty"`
	Principal        bus.Principal   `json:"principal"`
	External         bool            `json:"external,omitempty"`
}

func (r record) binding() *binding {
	b := newBinding(r.ID, r.Type, r.Namespace, r.FunctionID)
	b.provider, b.config, b.metadata, b.principal = r.TriggerNamespace, r.Config, r.Metadata, r.Principal
	b.origin, b.external = stored, r.External
	return b
}

// load adds the stored bindings. One whose config is no longer understood is parked, with an alarm, and kept.
func (t *Table) load(ctx context.Context) error {
	items, err := t.cfg.State.List(ctx, Scope, state.ListOptions{})
	if err != nil {
		return err
	}
	for _, item := range items {
		var r record
		if err := json.Unmarshal(item.Value, &r); err != nil {
			return fmt.Errorf("%s/%s: %w", Scope, item.Key.Key, err)
		}
		b := r.binding()
		if err := b.configure(); err != nil {
			t.log.Error("a stored trigger is parked", "alarm", "trigger_parked", "trigger_id", b.id, "error", err)
		}
		t.put(b)
	}
	return nil
}

// store adds a binding once it is durable.
func (t *Table) store(ctx context.Context, r record) error {
	b := r.binding()
	if err := b.configure(); err != nil {
		return err
	}
	if err := t.reachable(b); err != nil {
		return err
	}
	r.Config = b.config
	value, err := bus.Encode(r)
	if err != nil {
		return failed("Failed to store the trigger: " + err.Error())
	}
	t.storing.Lock()
	defer t.storing.Unlock()
	w := state.Set(Scope, r.ID, value).IfAbsent()
	w.Origin = state.Origin{Principal: r.Principal}
	if _, err := state.Do(ctx, t.cfg.State, w); err != nil {
		return failed("Failed to store the trigger: " + err.Error())
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.put(b)
	return nil
}

// remove deletes a stored binding and reports whether it was there.
func (t *Table) remove(ctx context.Context, id string) (bool, error) {
	t.storing.Lock()
	defer t.storing.Unlock()
	if b := t.find(id); b == nil || b.origin != stored {
		return false, nil
	}
	if _, err := state.Do(ctx, t.cfg.State, state.Delete(Scope, id)); err != nil {
		return false, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drop(id)
	return true, nil
}
