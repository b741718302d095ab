package session

import (
	"context"
	"slices"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/internal/agent"
)

// ground is what the next entry stands on.
type ground struct {
	head    head
	version int64 // of the head row
	// leaf is the entry that the next one hangs on.
	leaf string
	// branch: leaf is not the active leaf.
	branch bool
	// open is the calls of the path without a result.
	open []string
	// calls is the call ids of the path: all of them if known, else only those
	// that were added since; then the marks tell of the others.
	calls map[string]bool
	known bool
}

// ground reads the head row, and the tree only if the batch starts a new branch
// or has met the mark of a call.
func (s *Session) ground(ctx context.Context, b *batch) (*ground, error) {
	h, version, err := s.head(ctx, b.session)
	if err != nil {
		return nil, err
	}
	g := &ground{head: h, version: version, leaf: h.Leaf, open: h.Open, calls: map[string]bool{}}
	if b.parent != nil {
		g.leaf, g.branch = *b.parent, *b.parent != h.Leaf
	}
	if g.branch && b.pinned {
		b.moved = true
		return nil, &Error{Kind: Storage, Session: b.session, Detail: "other entries came meanwhile"}
	}
	if !g.branch && !b.readTree {
		return g, nil
	}
	if b.named {
		// A repeat looks like a new branch.
		if err := s.unlessStored(ctx, b); err != nil {
			return nil, err
		}
	}
	// A write after this read raises the version, and the append fails.
	t, err := s.tree(ctx, b.session)
	if err != nil {
		return nil, err
	}
	if _, ok := t.byID[g.leaf]; !ok && g.leaf != "" {
		return nil, &Error{Kind: EntryNotFound, Session: b.session, Detail: g.leaf}
	}
	g.open, g.calls = t.calls(g.leaf)
	g.known = true
	return g, nil
}

// follow puts a message on the ground, or says why it may not come; then
// nothing has changed.
func (g *ground) follow(session string, m agent.Message) error {
	switch m.Role {
	case agent.RoleAssistant:
		var fresh []string
		for _, c := range m.Calls() {
			if c.ID == "" {
				return bus.Invalid("messages", "function_call blocks with an id")
			}
			if g.calls[c.ID] || slices.Contains(g.open, c.ID) || slices.Contains(fresh, c.ID) {
				return &Error{Kind: DuplicateCall, Session: session, Detail: c.ID}
			}
			fresh = append(fresh, c.ID)
		}
		for _, id := range fresh {
			g.calls[id] = true
		}
		g.open = slices.Concat(g.open, fresh)
	case agent.RoleFunctionResult:
		i := slices.Index(g.open, m.FunctionCallID)
		if i < 0 {
			return &Error{Kind: OrphanResult, Session: session, Detail: m.FunctionCallID}
		}
		g.open = slices.Delete(slices.Clone(g.open), i, i+1)
	}
	return nil
}
