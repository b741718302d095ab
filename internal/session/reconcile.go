package session

import (
	"context"
	"encoding/json"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/internal/agent"
)

// maxSnapshot is the longest snapshot to compare with.
const maxSnapshot = 10_000

type reconcileRequest struct {
	SessionID string            `json:"session_id"`
	Snapshot  []json.RawMessage `json:"state_snapshot"`
}

// Validate names the first wrong field.
func (r reconcileRequest) Validate() error {
	if err := validID("session_id", r.SessionID); err != nil {
		return err
	}
	switch {
	case r.Snapshot == nil:
		return bus.Missing("state_snapshot")
	case len(r.Snapshot) > maxSnapshot:
		return bus.Invalid("state_snapshot", "at most 10000 messages")
	}
	return nil
}

type reconcileResponse struct {
	StateCount      int  `json:"state_count"`
	TreeCountBefore int  `json:"tree_count_before"`
	TreeCountAfter  int  `json:"tree_count_after"`
	Repaired        bool `json:"repaired"`
}

// reconcile appends what a snapshot of the messages has beyond those of the
// active path. It compares counts, not contents. Entries that come meanwhile
// are counted again; if they come between two transactions of a long repair,
// the error is storage, and to call again goes on.
func (s *Session) reconcile(ctx context.Context, call *bus.Call, r reconcileRequest) (reconcileResponse, error) {
	out := reconcileResponse{StateCount: len(r.Snapshot)}
	if _, _, err := s.open(ctx, call, r.SessionID, writes); err != nil {
		return out, err
	}
	if _, err := s.batch(batchRequest{SessionID: r.SessionID, Messages: r.Snapshot}); err != nil {
		return out, err
	}
	var last error
	for range attempts {
		t, err := s.tree(ctx, r.SessionID)
		if err != nil {
			return out, err
		}
		leaf, count := t.leaf(), 0
		for _, e := range t.path(leaf) {
			if e.Type == TypeMessage {
				count++
			}
		}
		out.TreeCountBefore, out.TreeCountAfter = count, count
		if count >= len(r.Snapshot) {
			return out, nil
		}
		b, err := s.batch(batchRequest{SessionID: r.SessionID, Messages: r.Snapshot[count:]})
		if err != nil {
			return out, err
		}
		b.parent, b.pinned = &leaf, true
		for last = nil; len(b.nodes) > 0 && last == nil; {
			last = s.appendSome(ctx, call, b)
		}
		switch {
		case last == nil:
			out.TreeCountAfter, out.Repaired = len(r.Snapshot), true
			return out, nil
		case !b.moved || len(b.done) > 0:
			return out, last
		}
	}
	return out, last
}

type syntheticRequest struct {
	SessionID string          `json:"session_id"`
	Text      string          `json:"text"`
	ParentID  *string         `json:"parent_id,omitempty"`
	Metadata  json.RawMessage `json:"metadata,omitempty"` // dropped
}

// Validate names the first wrong field.
func (r syntheticRequest) Validate() error {
	if err := validID("session_id", r.SessionID); err != nil {
		return err
	}
	if r.Text == "" {
		return bus.Missing("text")
	}
	return nil
}

// appendSynthetic adds a user message that no user has written.
func (s *Session) appendSynthetic(ctx context.Context, call *bus.Call, r syntheticRequest) (appendResponse, error) {
	message := encode(agent.Message{Role: agent.RoleUser, Timestamp: s.now(), Content: []agent.Block{{Type: agent.BlockText, Text: r.Text}}})
	return s.append(ctx, call, appendRequest{SessionID: r.SessionID, ParentID: r.ParentID, Message: message})
}
