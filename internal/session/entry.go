package session

import (
	"context"
	"encoding/json"
	"sort"

	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
)

// Types of an entry.
const (
	typeMessage       = "message"
	typeCustomMessage = "custom_message"
	typeBranchSummary = "branch_summary"
	typeCompaction    = "compaction"
)

// Entry is one node of the tree. Which members it has beside the first four
// depends on its type.
type Entry struct {
	ID        string  `json:"id"`
	ParentID  *string `json:"parent_id,omitempty"`
	Timestamp int64   `json:"timestamp"`
	Type      string  `json:"type"`

	Message json.RawMessage `json:"message,omitempty"`

	CustomType string          `json:"custom_type,omitempty"`
	Content    json.RawMessage `json:"content,omitempty"`
	Display    string          `json:"display,omitempty"`

	Summary      string          `json:"summary,omitempty"`
	FromID       string          `json:"from_id,omitempty"`
	TokensBefore int64           `json:"tokens_before,omitempty"`
	TailStartID  *string         `json:"tail_start_id,omitempty"`
	Details      json.RawMessage `json:"details,omitempty"`
}

func (e Entry) parent() string {
	if e.ParentID == nil {
		return ""
	}
	return *e.ParentID
}

// head is the row of scope session_tree_head.
type head struct {
	Leaf string `json:"leaf"`
	// Last is the highest timestamp: no child is older than its parent.
	Last  int64 `json:"last"`
	Count int   `json:"count"`
	// Open is the calls on the leaf's path that have no result yet.
	Open []string `json:"open,omitempty"`
}

// scopeHead and scopeCalls hold the head row and a mark per call id; the key of
// the marks is <session>/<call>.
const (
	scopeHead  = "session_tree_head"
	scopeCalls = "session_tree_calls"
)

func (s *Session) head(ctx context.Context, id string) (head, int64, error) {
	item, ok, err := s.State.Get(ctx, state.Key{Scope: scopeHead, Key: id})
	if err != nil {
		return head{}, 0, storage(id, "read head", err)
	}
	if !ok {
		return head{}, 0, nil
	}
	var h head
	if err := json.Unmarshal(item.Value, &h); err != nil {
		return head{}, 0, storage(id, "read head", err)
	}
	return h, item.Version, nil
}

func (s *Session) entry(ctx context.Context, session, id string) (Entry, bool, error) {
	item, ok, err := s.State.Get(ctx, state.Key{Scope: agent.ScopeSessionTree + session, Key: id})
	if err != nil {
		return Entry{}, false, storage(session, "read entry", err)
	}
	if !ok {
		return Entry{}, false, nil
	}
	var e Entry
	if err := json.Unmarshal(item.Value, &e); err != nil {
		return Entry{}, false, storage(session, "read entry "+id, err)
	}
	return e, true, nil
}

// tree is all entries of a session, in the order of (timestamp, id).
type tree struct {
	entries []Entry
	byID    map[string]int
}

func (s *Session) tree(ctx context.Context, session string) (tree, error) {
	items, err := s.State.List(ctx, agent.ScopeSessionTree+session, state.ListOptions{})
	if err != nil {
		return tree{}, storage(session, "read tree", err)
	}
	t := tree{entries: make([]Entry, len(items)), byID: make(map[string]int, len(items))}
	for i, it := range items {
		if err := json.Unmarshal(it.Value, &t.entries[i]); err != nil {
			return tree{}, storage(session, "read entry "+it.Key.Key, err)
		}
	}
	sort.Slice(t.entries, func(i, j int) bool {
		a, b := t.entries[i], t.entries[j]
		if a.Timestamp != b.Timestamp {
			return a.Timestamp < b.Timestamp
		}
		return a.ID < b.ID
	})
	for i, e := range t.entries {
		t.byID[e.ID] = i
	}
	return t, nil
}

// leaf is the newest entry that is nobody's parent, empty for an empty tree. In
// a damaged tree where every entry has a child it is the newest of all.
func (t tree) leaf() string {
	parents := make(map[string]bool, len(t.entries))
	for _, e := range t.entries {
		parents[e.parent()] = true
	}
	for i := len(t.entries) - 1; i >= 0; i-- {
		if !parents[t.entries[i].ID] {
			return t.entries[i].ID
		}
	}
	if n := len(t.entries); n > 0 {
		return t.entries[n-1].ID
	}
	return ""
}

// path is the entries from the root to a leaf. A cycle ends it.
func (t tree) path(leaf string) []Entry {
	var out []Entry
	seen := map[string]bool{}
	for id := leaf; id != "" && !seen[id]; {
		i, ok := t.byID[id]
		if !ok {
			break
		}
		seen[id] = true
		out = append(out, t.entries[i])
		id = t.entries[i].parent()
	}
	for i, j := 0, len(out)-1; i < j; i, j = i+1, j-1 {
		out[i], out[j] = out[j], out[i]
	}
	return out
}
