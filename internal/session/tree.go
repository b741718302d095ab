package session

import (
	"context"
	"encoding/json"
	"slices"
	"sort"

	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
)

// tree is all entries of a session, in the order of (timestamp, id).
type tree struct {
	entries []Entry
	byID    map[string]int
}

// tree reads a session whole, by one list.
func (s *Session) tree(ctx context.Context, session string) (tree, error) {
	items, err := s.State.List(ctx, agent.ScopeSessionTree+session, state.ListOptions{})
	if err != nil {
		return tree{}, storage(session, "read tree", err)
	}
	entries := make([]Entry, len(items))
	for i, it := range items {
		if err := json.Unmarshal(it.Value, &entries[i]); err != nil {
			return tree{}, storage(session, "read entry "+it.Key.Key, err)
		}
	}
	return treeOf(entries), nil
}

// treeOf sorts the entries that it is given.
func treeOf(entries []Entry) tree {
	t := tree{entries: entries, byID: make(map[string]int, len(entries))}
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
	return t
}

// head is the head row that belongs to the tree.
func (t tree) head() head {
	h := head{Leaf: t.leaf(), Count: len(t.entries)}
	if n := len(t.entries); n > 0 {
		h.Last = t.entries[n-1].Timestamp
	}
	h.Open, _ = t.calls(h.Leaf)
	return h
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

// path is the entries from the root to a leaf. A cycle ends it, and so does a
// parent that does not exist.
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
	slices.Reverse(out)
	return out
}

// calls is the call ids on the path to a leaf, and those without a result. What
// a damaged path has too often or without its call is passed over.
func (t tree) calls(leaf string) (open []string, all map[string]bool) {
	g := ground{calls: map[string]bool{}}
	for _, e := range t.path(leaf) {
		if m, ok := e.message(); ok {
			_ = g.follow("", m) // a refusal changes nothing
		}
	}
	return g.open, g.calls
}
