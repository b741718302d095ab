package session

import (
	"context"

	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
)

// scopeHead holds the head row of each session, under its id. scopeCalls holds
// a mark under <session>/<call> for each call id that the tree has somewhere,
// so that an append knows a repeated one without reading the tree.
const (
	scopeHead  = "session_tree_head"
	scopeCalls = "session_tree_calls"
)

// head is where the active path ends. It is written in the transaction of each
// append.
type head struct {
	Leaf string `json:"leaf"`
	// Last is the highest timestamp of the tree.
	Last  int64 `json:"last"`
	Count int   `json:"count"`
	// Open is the calls on the leaf's path that have no result, in order.
	Open []string `json:"open,omitempty"`
}

// head reads the row; version 0 means that there is none. A tree without one,
// such as a restored copy of the entries alone, is read whole in its place.
func (s *Session) head(ctx context.Context, id string) (head, int64, error) {
	var h head
	version, err := s.read(ctx, id, "head", state.Key{Scope: scopeHead, Key: id}, &h)
	if err != nil || version != 0 {
		return h, version, err
	}
	some, err := s.State.List(ctx, agent.ScopeSessionTree+id, state.ListOptions{Limit: 1})
	if err != nil {
		return head{}, 0, storage(id, "read tree", err)
	}
	if len(some) == 0 {
		return head{}, 0, nil
	}
	t, err := s.tree(ctx, id)
	if err != nil {
		return head{}, 0, err
	}
	return t.head(), 0, nil
}

// write stores the row in place of the version that was read.
func (h head) write(session string, version int64) state.Write {
	w := state.Set(scopeHead, session, encode(h))
	if version == 0 {
		return w.IfAbsent()
	}
	return w.IfVersion(version)
}
