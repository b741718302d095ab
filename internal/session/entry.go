package session

import (
	"context"
	"encoding/json"

	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
)

// EntryType says which members an entry has.
type EntryType string

// The types of an entry.
const (
	TypeMessage       EntryType = "message"
	TypeCustomMessage EntryType = "custom_message"
	TypeBranchSummary EntryType = "branch_summary"
	TypeCompaction    EntryType = "compaction"
)

// Entry is one node of the tree: an item of scope session_tree:<session> under
// its id. Which members it has beside the first four depends on its type.
type Entry struct {
	ID       string  `json:"id"`
	ParentID *string `json:"parent_id,omitempty"`
	// Timestamp is in epoch milliseconds. No child is older than its parent.
	Timestamp int64     `json:"timestamp"`
	Type      EntryType `json:"type"`

	// Of a message.
	Message json.RawMessage `json:"message,omitempty"`

	// Of a custom_message.
	CustomType string          `json:"custom_type,omitempty"`
	Content    json.RawMessage `json:"content,omitempty"`
	Display    string          `json:"display,omitempty"`

	// Of a branch_summary and of a compaction.
	Summary string `json:"summary,omitempty"`
	// Of a branch_summary: where the summarised path ended.
	FromID string `json:"from_id,omitempty"`
	// Of a compaction.
	TokensBefore int64   `json:"tokens_before,omitempty"`
	TailStartID  *string `json:"tail_start_id,omitempty"`

	// Of a custom_message and of a compaction.
	Details json.RawMessage `json:"details,omitempty"`
}

func (e Entry) parent() string {
	if e.ParentID == nil {
		return ""
	}
	return *e.ParentID
}

// message reads the message of an entry; ok is false if it is none.
func (e Entry) message() (m agent.Message, ok bool) {
	if e.Type != TypeMessage {
		return agent.Message{}, false
	}
	err := json.Unmarshal(e.Message, &m)
	return m, err == nil
}

// entry reads one entry.
func (s *Session) entry(ctx context.Context, session, id string) (Entry, bool, error) {
	var e Entry
	version, err := s.read(ctx, session, "entry "+id, state.Key{Scope: agent.ScopeSessionTree + session, Key: id}, &e)
	return e, version != 0, err
}
