package trigger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

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
	b := newBinding(r.ID, r.Type, r.Namespace, r.FunctionID, r.Config, r.Metadata)
	b.provider, b.principal, b.origin, b.external = r.TriggerNamespace, r.Principal, stored, r.External
	return b
}

// load adds the stored bindings. Nobody provides their types yet, so they are parked.
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
		t.mu.Lock()
		t.set(r.binding())
		t.mu.Unlock()
	}
	return nil
}

// AckTimeout is how long engine::register_trigger waits for the answer of a worker that provides the type.
const AckTimeout = 10 * time.Second

// store adds a binding, waits until a worker that is to provide it has taken it, and makes it durable. With an error it
// is not there.
func (t *Table) store(ctx context.Context, r record) error {
	b := r.binding()
	if err := t.check(b); err != nil {
		return err
	}
	r.Config = b.config
	ack, err := t.add(ctx, b)
	if err != nil {
		return err
	}
	if err = t.await(ctx, b, ack); err == nil {
		if err = t.write(ctx, b, r); err == nil {
			return nil
		}
		err = failed("Failed to store the trigger: " + err.Error())
	}
	t.changing.Lock()
	defer t.changing.Unlock()
	if t.find(b.id) == b {
		t.drop(b)
	}
	return err
}

// add hands a binding to its provider. The provider's answer comes on ack, at once if there is none to wait for.
func (t *Table) add(ctx context.Context, b *binding) (<-chan error, error) {
	t.changing.Lock()
	defer t.changing.Unlock()
	ack := make(chan error, 1)
	t.mu.Lock()
	t.acks[b] = ack
	t.mu.Unlock()
	err := t.put(ctx, b)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil || b.served == nil || b.served.worker == nil {
		delete(t.acks, b)
		return nil, err
	}
	return ack, nil
}

// await waits for a provider's answer; nil is none to wait for. A provider that does not answer in time is taken to agree.
func (t *Table) await(ctx context.Context, b *binding, ack <-chan error) error {
	if ack == nil {
		return nil
	}
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.acks, b)
	}()
	timer := t.cfg.Clock.NewTimer(AckTimeout)
	defer timer.Stop()
	select {
	case err := <-ack:
		return err
	case <-timer.C():
		t.log.Warn("a provider did not answer: the trigger is taken as registered", "trigger_id", b.id, "trigger_type", b.kind)
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// errRemoved: somebody was quick to remove what is not yet stored.
var errRemoved = errors.New("it was removed meanwhile")

func (t *Table) write(ctx context.Context, b *binding, r record) error {
	value, err := bus.Encode(r)
	if err != nil {
		return err
	}
	t.storing.Lock()
	defer t.storing.Unlock()
	if t.find(b.id) != b {
		return errRemoved
	}
	w := state.Set(Scope, r.ID, value).IfAbsent()
	w.Origin = state.Origin{Principal: r.Principal}
	_, err = state.Do(ctx, t.cfg.State, w)
	return err
}

// remove deletes a stored binding and reports whether it was there.
func (t *Table) remove(ctx context.Context, id string) (bool, error) {
	t.storing.Lock()
	defer t.storing.Unlock()
	b := t.find(id)
	if b == nil || b.origin != stored {
		return false, nil
	}
	if _, err := state.Do(ctx, t.cfg.State, state.Delete(Scope, id)); err != nil {
		return false, err
	}
	t.changing.Lock()
	defer t.changing.Unlock()
	t.drop(b)
	return true, nil
}
