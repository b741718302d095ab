package session

import (
	"context"
	"encoding/json"

	"github.com/iii-aws/harness/engine/bus"
)

type messagesRequest struct {
	SessionID  string `json:"session_id"`
	BranchLeaf string `json:"branch_leaf,omitempty"`
}

// Validate names the first wrong field.
func (r messagesRequest) Validate() error { return validID("session_id", r.SessionID) }

type messageRow struct {
	EntryID string          `json:"entry_id"`
	Message json.RawMessage `json:"message"`
}

type messagesResponse struct {
	Messages []messageRow `json:"messages"`
}

// messages is the messages of a path, oldest first: of the active one, or of
// the one that leads to the given leaf. It costs one list.
func (s *Session) messages(ctx context.Context, call *bus.Call, r messagesRequest) (messagesResponse, error) {
	out := messagesResponse{Messages: []messageRow{}}
	if _, _, err := s.open(ctx, call, r.SessionID, sees); err != nil {
		return out, err
	}
	t, err := s.tree(ctx, r.SessionID)
	if err != nil {
		return out, err
	}
	leaf := t.leaf()
	if r.BranchLeaf != "" {
		if _, ok := t.byID[r.BranchLeaf]; !ok {
			return out, &Error{Kind: EntryNotFound, Session: r.SessionID, Detail: r.BranchLeaf}
		}
		leaf = r.BranchLeaf
	}
	for _, e := range t.path(leaf) {
		if e.Type == TypeMessage {
			out.Messages = append(out.Messages, messageRow{e.ID, e.Message})
		}
	}
	return out, nil
}
