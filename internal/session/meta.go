package session

import (
	"context"
	"encoding/json"

	"github.com/iii-aws/harness/engine/access"
	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
)

// Meta is a row of scope session_tree_meta, under the session's id. Times are
// epoch milliseconds. UpdatedAt, EntryCount and Summary are as of the last
// touch.
type Meta struct {
	SessionID   string `json:"session_id"`
	Owner       string `json:"owner"`
	WorkspaceID string `json:"workspace_id,omitempty"`
	DisplayName string `json:"display_name,omitempty"`
	Cwd         string `json:"cwd,omitempty"`
	CreatedAt   int64  `json:"created_at"`
	UpdatedAt   int64  `json:"updated_at"`
	BranchCount int    `json:"branch_count"`
	EntryCount  int    `json:"entry_count"`
	Summary     string `json:"last_message_summary,omitempty"`
}

// sees reports whether a principal may read a session.
func sees(p bus.Principal, m Meta) bool { return access.Sees(p, m.Owner, m.SessionID) }

// writes reports whether a principal may write to a session: an approver reads
// what its globs name, and decides, but does not write.
func writes(p bus.Principal, m Meta) bool {
	return p.SeesAll() || (p.ID != "" && p.ID == m.Owner)
}

// open reads a session's row for a caller that must pass the rule. A stranger
// hears what it would hear of a session that does not exist.
func (s *Session) open(ctx context.Context, call *bus.Call, id string, may func(bus.Principal, Meta) bool) (Meta, int64, error) {
	m, version, err := s.meta(ctx, id)
	if err != nil {
		return Meta{}, 0, err
	}
	if version == 0 || !may(call.Principal, m) {
		return Meta{}, 0, notFound(id)
	}
	return m, version, nil
}

// meta reads a session's row; version 0 means that there is none.
func (s *Session) meta(ctx context.Context, id string) (Meta, int64, error) {
	var m Meta
	version, err := s.read(ctx, id, "session", state.Key{Scope: agent.ScopeSessionTreeMeta, Key: id}, &m)
	return m, version, err
}

// read reads one row of a session into dst; version 0 means that there is
// none.
func (s *Session) read(ctx context.Context, session, what string, key state.Key, dst any) (int64, error) {
	item, ok, err := s.State.Get(ctx, key)
	if err != nil {
		return 0, storage(session, "read "+what, err)
	}
	if !ok {
		return 0, nil
	}
	if err := json.Unmarshal(item.Value, dst); err != nil {
		return 0, storage(session, "read "+what, err)
	}
	return item.Version, nil
}
