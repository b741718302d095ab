package session

import (
	"context"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
)

// unlessStored is a conflict if the first node is stored.
func (s *Session) unlessStored(ctx context.Context, b *batch) error {
	id := b.nodes[0].id
	_, ok, err := s.entry(ctx, b.session, id)
	if err != nil || !ok {
		return err
	}
	return &state.ConflictError{Key: state.Key{Scope: agent.ScopeSessionTree + b.session, Key: id}}
}

// refuse gives a refusal, unless it is only that the batch, or its first part,
// is stored already.
func (s *Session) refuse(ctx context.Context, b *batch, refusal error) error {
	if !b.named {
		return refusal
	}
	if err := s.unlessStored(ctx, b); err != nil {
		return err
	}
	return refusal
}

// skipStored takes out the nodes that are stored. They are a first part of the
// batch, since each is stored with or after the one it hangs on.
func (s *Session) skipStored(ctx context.Context, b *batch) error {
	stored := 0
	for i, n := range b.nodes {
		e, ok, err := s.entry(ctx, b.session, n.id)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if i > stored || (!b.loose && !sameMessage(e.Message, n.content.Message)) {
			return bus.Invalid("entry_id", "an id that no other message has")
		}
		stored++
	}
	b.took(stored)
	return nil
}
