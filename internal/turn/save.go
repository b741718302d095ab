package turn

import (
	"bytes"
	"encoding/json"

	"github.com/iii-aws/harness/engine/commit"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
	"github.com/iii-aws/harness/internal/turn/step"
)

// save ends a transition: it writes the record on the condition that nobody
// wrote it since, and gives what that owes to the courier. Beside are writes
// that are awaited together with it. What names the write for Stats. Errors:
// *TransientError.
func (d *driver) save(what string, beside ...commit.Ticket) error {
	if err := d.holds(); err != nil {
		return err
	}
	p, parcels, err := d.submit()
	if err != nil {
		return err
	}
	d.out.send(parcels, p)
	changes, err := p.Wait(d.ctx)
	if err != nil {
		if !isAmbiguous(err) {
			return d.writeFailed(err)
		}
		if err := d.readBack(); err != nil {
			return err
		}
		d.out.send(parcels, nil)
	} else {
		d.rec.Version = changes[0].Version
	}
	if err := commit.Wait(d.ctx, beside...); err != nil {
		return transient(CodeStorage, err)
	}
	d.t.Stats.Waited(d.rec.SessionID, what)
	d.tellLease()
	return d.out.fatal()
}

// submit writes the record without waiting.
func (d *driver) submit() (*state.Pending, []parcel, error) {
	now := d.t.nowMS()
	d.rec.Delivered(d.out.takeDelivered())
	fresh := d.rec.Seal(d.out.tail())
	d.rec.SeenRev = d.control.Rev
	d.rec.SetDue(now)
	parcels := d.pack(fresh)
	if err := d.t.storeValues(d.ctx, d.rec, d.blobs); err != nil {
		return nil, nil, transient(CodeStorage, err)
	}
	d.saved = d.rec.Encode()
	w := d.t.recordWrite(d.ctx, d.rec, d.saved)
	return d.t.State.Submit(d.ctx, []state.Write{w}), parcels, nil
}

// writeFailed is the error of a record write that was not applied.
func (d *driver) writeFailed(err error) error {
	if isConflict(err) {
		return d.superseded("the record was written by somebody else")
	}
	return transient(CodeStorage, err)
}

// readBack settles a write whose answer was lost: it was applied if the store
// has what was written.
func (d *driver) readBack() error {
	item, ok, err := d.t.State.Get(d.ctx, state.Key{Scope: agent.ScopeTurnState, Key: d.rec.SessionID})
	switch {
	case err != nil:
		return transient(CodeStorage, err)
	case !ok || !bytes.Equal(item.Value, d.saved):
		return d.superseded("the record was not written, or by somebody else")
	}
	d.rec.Version = item.Version
	return nil
}

// tellLease puts a raised lease into the control item, where an older step
// sees it. Nobody waits for that: conditional writes are what keeps two apart.
func (d *driver) tellLease() {
	if !d.raised {
		return
	}
	d.raised = false
	d.control.Lease = d.rec.Lease
	d.t.State.Submit(d.ctx, []state.Write{state.Update(agent.ScopeControl, d.rec.SessionID, state.Op{
		Type: "set", Path: json.RawMessage(`"lease"`), Value: encode(d.rec.Lease),
	})})
}

// pack makes the payloads of what is owed while the record still has them.
func (d *driver) pack(items []step.Item) []parcel {
	out := make([]parcel, 0, len(items))
	for _, it := range items {
		p := parcel{item: it}
		switch it.Kind {
		case step.KindEntry:
			v, ok := d.rec.Resolve(it.Source)
			if !ok {
				d.lost(it, &step.LostError{Source: it.Source})
				continue
			}
			p.data = v.Raw
		case step.KindEvent:
			data, err := d.rec.Payload(it.Event, nil)
			if err != nil {
				d.lost(it, err)
				continue
			}
			p.data = data
		default:
			p.data = it.Value.Raw
		}
		out = append(out, p)
	}
	return out
}

// lost drops an item that points at nothing: it could never be delivered.
func (d *driver) lost(it step.Item, err error) {
	d.t.alarm("turn_outbox_lost", "outbox item dropped", "session", d.rec.SessionID, "item", it.ID, "error", err)
	d.out.drop(it.ID)
}
