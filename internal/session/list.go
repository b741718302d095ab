package session

import (
	"context"
	"encoding/json"
	"sort"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
)

type listRequest struct {
	Limit  *int   `json:"limit,omitempty"`
	Offset int    `json:"offset,omitempty"`
	Order  string `json:"order,omitempty"`
}

// Validate names the first wrong field.
func (r listRequest) Validate() error {
	switch {
	case r.Limit != nil && *r.Limit < 0:
		return bus.Invalid("limit", "0 or more")
	case r.Offset < 0:
		return bus.Invalid("offset", "0 or more")
	case r.Order != "" && r.Order != "asc" && r.Order != "desc":
		return bus.Invalid("order", "asc or desc")
	}
	return nil
}

type listRow struct {
	SessionID   string `json:"session_id"`
	CreatedAt   int64  `json:"created_at"`
	UpdatedAt   int64  `json:"updated_at"`
	EntryCount  int    `json:"entry_count"`
	DisplayName string `json:"display_name,omitempty"`
	Cwd         string `json:"cwd,omitempty"`
	Summary     string `json:"last_message_summary,omitempty"`
}

type listResponse struct {
	Sessions []listRow `json:"sessions"`
	Total    int       `json:"total"`
}

// list is the sessions that the caller may see, by their last update.
func (s *Session) list(ctx context.Context, call *bus.Call, r listRequest) (listResponse, error) {
	out := listResponse{Sessions: []listRow{}}
	items, err := s.State.List(ctx, agent.ScopeSessionTreeMeta, state.ListOptions{})
	if err != nil {
		return out, storage("*", "list", err)
	}
	var rows []Meta
	for _, it := range items {
		var m Meta
		if err := json.Unmarshal(it.Value, &m); err != nil {
			return out, storage(it.Key.Key, "read", err)
		}
		if sees(call.Principal, m) {
			rows = append(rows, m)
		}
	}
	sort.SliceStable(rows, func(i, j int) bool {
		a, b := rows[i], rows[j]
		if r.Order == "asc" {
			a, b = b, a
		}
		if a.UpdatedAt != b.UpdatedAt {
			return a.UpdatedAt > b.UpdatedAt
		}
		return a.SessionID > b.SessionID
	})
	out.Total = len(rows)
	rows = rows[min(r.Offset, len(rows)):]
	if r.Limit != nil {
		rows = rows[:min(*r.Limit, len(rows))]
	}
	for _, m := range rows {
		out.Sessions = append(out.Sessions, listRow{SessionID: m.SessionID, CreatedAt: m.CreatedAt, UpdatedAt: m.UpdatedAt,
			EntryCount: m.EntryCount, DisplayName: m.DisplayName, Cwd: m.Cwd, Summary: m.Summary})
	}
	return out, nil
}
