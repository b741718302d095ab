package step

import (
	"encoding/json"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/internal/agent"
)

// Begin is what a new run is made of.
type Begin struct {
	SessionID string
	MessageID string
	Principal bus.Principal
	MaxTurns  *int64
	// Request is kept until provisioning has stored it.
	Request json.RawMessage
	// Messages are the new messages of the run.
	Messages []json.RawMessage
	NowMS    int64
}

// Start is the record of a new run in place of old, which may be nil. It keeps
// what old still owes.
func Start(old *Record, b Begin) *Record {
	r := &Record{
		SessionID: b.SessionID, V: Format, State: Provisioning, Run: RunID(b.NowMS, b.MessageID), MessageID: b.MessageID,
		MaxTurns: b.MaxTurns, Principal: b.Principal, Lease: 1, StartedAtMS: b.NowMS, UpdatedAtMS: b.NowMS,
		FunctionResults: []Value{}, Request: Value{Raw: b.Request},
	}
	if old != nil {
		r.inherit(old)
	}
	for i, m := range b.Messages {
		id := UserEntryID(b.SessionID, b.MessageID, i)
		r.Messages = append(r.Messages, UserMessage{EntryID: id, Message: Value{Raw: m}})
		r.append(id, "m:"+id)
	}
	r.createRow(agent.ScopeRunAccepted, b.SessionID+"/"+b.MessageID, map[string]any{"run": r.Run, "at_ms": b.NowMS})
	if old == nil {
		r.createRow(agent.ScopeSessionIndex, b.SessionID, map[string]any{"at_ms": b.NowMS})
	}
	r.tell(b.NowMS)
	r.owe(Item{Kind: KindWake, ID: "wake:" + r.Run, Cause: "start"})
	r.SetDue(b.NowMS)
	return r
}

// inherit takes over what must outlive the run before.
func (r *Record) inherit(old *Record) {
	for _, kind := range [...]string{"a:", "m:", "r:", "f:"} {
		old.hold(kind)
	}
	r.Outbox = old.Outbox
	r.Version, r.Extra, r.Lease, r.SeenRev = old.Version, old.Extra, old.Lease+1, old.SeenRev
	r.seen = old.glimpse()
}

// Provisioned ends provisioning. The record keeps the request until the first
// message of the model, because it is stored elsewhere beside this write, not
// before it. Meta is the catalogue's entry of the model, nil if there is none.
func (r *Record) Provisioned(meta json.RawMessage, now int64) {
	r.ModelMeta = meta
	r.move(Streaming, now)
}
