package session

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
)

// maxInbox is how many items wait at most.
const maxInbox = 1000

// letter is an item of an inbox.
type letter struct {
	ID   string          `json:"id"`
	Item json.RawMessage `json:"item"`
}

type inboxRequest struct {
	Name      string `json:"name"`
	SessionID string `json:"session_id"`
}

// Validate names the first wrong field.
func (r inboxRequest) Validate() error {
	if r.Name == "" {
		return bus.Missing("name")
	}
	if r.Name != "steering" && r.Name != "followup" {
		return bus.Invalid("name", "steering or followup")
	}
	return validID("session_id", r.SessionID)
}

type pushRequest struct {
	inboxRequest
	// ID makes the push idempotent; minted if empty.
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
	if err := json.Unmarshal(r.Item, &m); err != nil || m.Role != agent.RoleUser {
		return &bus.InvalidError{Field: "item", Allowed: "a message of role user", Err: err}
	}
	return nil
}

type pushResponse struct {
	OK bool   `json:"ok"`
	ID string `json:"id"`
}

// push adds an item and tells a running step.
func (s *Session) push(ctx context.Context, call *bus.Call, r pushRequest) (pushResponse, error) {
	if _, _, err := s.open(ctx, call, r.SessionID, writes); err != nil {
		return pushResponse{}, err
	}
	id := r.ID
	if id == "" {
		id = call.IdempotencyKey
	}
	if id == "" {
		id = s.IDs.UUID()
	}
	err := s.change(ctx, r.inboxRequest, func(l []letter) ([]letter, error) {
		if slices.ContainsFunc(l, func(x letter) bool { return x.ID == id }) {
			return l, nil
		}
		if len(l) >= maxInbox {
			return nil, &Error{Kind: Full, Session: r.SessionID, Detail: "1000 items wait"}
		}
		return append(l, letter{id, r.Item}), nil
	})
	if err != nil {
		return pushResponse{}, err
	}
	_, err = state.Do(ctx, s.State, state.Update(agent.ScopeControl, r.SessionID, state.Op{
		Type: "increment", Path: json.RawMessage(`"rev"`), By: json.RawMessage("1"),
	}))
	if err != nil {
		return pushResponse{}, storage(r.SessionID, "tell the turn", err)
	}
	return pushResponse{OK: true, ID: id}, nil
}

type peekResponse struct {
	Items []json.RawMessage `json:"items"`
	IDs   []string          `json:"ids"`
}

// peek reads an inbox, strongly consistent.
func (s *Session) peek(ctx context.Context, call *bus.Call, r inboxRequest) (peekResponse, error) {
	out := peekResponse{Items: []json.RawMessage{}, IDs: []string{}}
	if _, _, err := s.open(ctx, call, r.SessionID, sees); err != nil {
		return out, err
	}
	l, _, err := s.letters(ctx, r)
	if err != nil {
		return out, err
	}
	for _, x := range l {
		out.Items, out.IDs = append(out.Items, x.Item), append(out.IDs, x.ID)
	}
	return out, nil
}

type drainRequest struct {
	inboxRequest
	// IDs to take; null takes all.
	IDs []string `json:"ids,omitempty"`
}

type drainResponse struct {
	Items []json.RawMessage `json:"items"`
}

// drain takes items out, atomically: what is pushed meanwhile stays. When the
// store fails nothing was taken and the list is empty.
func (s *Session) drain(ctx context.Context, call *bus.Call, r drainRequest) (drainResponse, error) {
	out := drainResponse{Items: []json.RawMessage{}}
	if _, _, err := s.open(ctx, call, r.SessionID, writes); err != nil {
		return out, err
	}
	var taken []json.RawMessage
	err := s.change(ctx, r.inboxRequest, func(l []letter) ([]letter, error) {
		taken = []json.RawMessage{}
		var rest []letter
		for _, x := range l {
			if r.IDs != nil && !slices.Contains(r.IDs, x.ID) {
				rest = append(rest, x)
				continue
			}
			taken = append(taken, x.Item)
		}
		return rest, nil
	})
	if err != nil {
		s.Logger.Error("inbox not drained", "alarm", "inbox_drain", "session", r.SessionID, "error", err)
		return out, nil
	}
	out.Items = taken
	return out, nil
}

func (s *Session) letters(ctx context.Context, r inboxRequest) ([]letter, int64, error) {
	item, ok, err := s.State.Get(ctx, state.Key{Scope: agent.ScopeInbox, Key: r.SessionID + "/" + r.Name})
	if err != nil {
		return nil, 0, storage(r.SessionID, "read inbox", err)
	}
	if !ok {
		return nil, 0, nil
	}
	var l []letter
	if err := json.Unmarshal(item.Value, &l); err != nil {
		return nil, 0, storage(r.SessionID, "read inbox", err)
	}
	return l, item.Version, nil
}

// change rewrites an inbox under its version. An empty one is removed.
func (s *Session) change(ctx context.Context, r inboxRequest, f func([]letter) ([]letter, error)) error {
	var last error
	for range attempts {
		l, version, err := s.letters(ctx, r)
		if err != nil {
			return err
		}
		before := len(l)
		next, err := f(l)
		if err != nil {
			return err
		}
		if len(next) == before {
			return nil
		}
		key := r.SessionID + "/" + r.Name
		w := state.Set(agent.ScopeInbox, key, encode(next))
		switch {
		case version == 0:
			w = w.IfAbsent()
		case len(next) == 0:
			w = state.Delete(agent.ScopeInbox, key).IfVersion(version)
		default:
			w = w.IfVersion(version)
		}
		if _, last = state.Do(ctx, s.State, w); last == nil {
			return nil
		}
		if !isConflict(last) {
			break
		}
	}
	return storage(r.SessionID, "write inbox", last)
}
