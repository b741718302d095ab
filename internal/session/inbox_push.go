package session

import (
	"context"
	"encoding/json"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
)

// maxKey is the longest idempotency key that serves as an item's id, in bytes.
const maxKey = 512

type pushRequest struct {
	inboxRequest
	// ID makes the push idempotent; without one the call's idempotency key
	// does. Minted if both are empty.
	ID   string          `json:"id,omitempty"`
	Item json.RawMessage `json:"item"`
}

// Validate names the first wrong field.
func (r pushRequest) Validate() error {
	if err := r.inboxRequest.Validate(); err != nil {
		return err
	}
	if r.ID != "" {
		if err := validID("id", r.ID); err != nil {
			return err
		}
	}
	if len(r.Item) == 0 {
		return bus.Missing("item")
	}
	var m agent.Message
	if err := json.Unmarshal(r.Item, &m); err != nil {
		return invalidMessage("item", err)
	}
	if m.Role != agent.RoleUser {
		return bus.Invalid("item.role", "user")
	}
	return nil
}

type pushResponse struct {
	OK bool   `json:"ok"`
	ID string `json:"id"`
}

// push adds an item behind those that wait, then tells a turn that runs. The
// same item under the same id is there once, also when the turn has taken it
// meanwhile.
func (s *Session) push(ctx context.Context, call *bus.Call, r pushRequest) (pushResponse, error) {
	if _, _, err := s.open(ctx, call, r.SessionID, writes); err != nil {
		return pushResponse{}, err
	}
	l := letter{ID: r.ID, Item: r.Item, Named: true}
	if l.ID == "" && len(call.IdempotencyKey) <= maxKey {
		l.ID = call.IdempotencyKey
	}
	if l.ID == "" {
		l.ID, l.Named = s.IDs.UUID(), false
	}
	if l.Named {
		// Entry ids are derived from item ids: one id is one item, wherever.
		other, _, err := s.inbox(ctx, r.other())
		if err != nil {
			return pushResponse{}, err
		}
		if found, _ := other.find(l.ID, l.Item); found {
			return pushResponse{}, taken()
		}
	}
	if err := s.change(ctx, r.inboxRequest, func(b *inbox) (bool, error) { return b.add(r.SessionID, l) }); err != nil {
		return pushResponse{}, err
	}
	s.tell(ctx, call, r.SessionID)
	return pushResponse{OK: true, ID: l.ID}, nil
}

func (b *inbox) add(session string, l letter) (bool, error) {
	switch found, same := b.find(l.ID, l.Item); {
	case found && same:
		return false, nil
	case found:
		return false, taken()
	case len(b.Items) >= maxInbox:
		return false, &Error{Kind: Full, Session: session, Detail: "1000 items wait"}
	}
	b.Items = append(b.Items, l)
	return true, nil
}

func taken() error { return bus.Invalid("id", "an id that no other item of the session has") }

// tell raises the control item of a turn that runs, so that it looks. The item
// is stored, and the turn looks once more before it ends: a failure here costs
// time, not words.
func (s *Session) tell(ctx context.Context, call *bus.Call, session string) {
	runs, _, err := s.running(ctx, session)
	if err == nil && runs {
		w := state.Update(agent.ScopeControl, session, state.Op{
			Type: "increment", Path: json.RawMessage(`"rev"`), By: json.RawMessage("1"),
		})
		w.Origin = state.Origin{Principal: call.Principal, Traceparent: call.Traceparent, Baggage: call.Baggage}
		_, err = state.Do(ctx, s.State, w)
	}
	if err != nil {
		s.Logger.Error("control item not raised", "alarm", "control_raise", "session", session, "error", err)
	}
}
