package session

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
)

// tryAppend makes one transaction of the first nodes. An unsettled error means
// that another writer was first, or that the first node is stored already.
func (s *Session) tryAppend(ctx context.Context, call *bus.Call, b *batch) error {
	tx, err := s.idle(ctx, call, b.session)
	if err != nil {
		return err
	}
	room := state.MaxTx - len(tx) - 1 // and the head row
	b.readTree = b.readTree || 1+len(b.nodes[0].calls) > room
	g, err := s.ground(ctx, b)
	if err != nil {
		return err
	}
	at := s.timestamp(g, b)
	count := 0
	for _, n := range b.nodes {
		marks := n.calls
		large := 1+len(marks) > room
		if large && count > 0 {
			break
		}
		if err := g.follow(b.session, n.message); err != nil {
			return s.refuse(ctx, b, err)
		}
		if large {
			if err := s.mark(ctx, b.session, marks); err != nil {
				return err
			}
			marks = nil
		}
		tx = append(tx, n.entry(b.session, g.leaf, at, call))
		for _, c := range marks {
			tx = append(tx, callMark(b.session, c.ID, !g.known))
		}
		g.leaf, room, count = n.id, room-1-len(marks), count+1
	}
	next := head{Leaf: g.leaf, Last: max(at, g.head.Last), Count: g.head.Count + count, Open: g.open}
	tx = append(tx, next.write(b.session, g.version))
	if _, err := s.State.Submit(ctx, tx).Wait(ctx); err != nil {
		return s.lost(b, err)
	}
	b.at = at
	b.took(count)
	return nil
}

// timestamp is that of the batch's first entry, or now. The first entry of a
// branch is newer than all there is, so that the branch is the active one.
func (s *Session) timestamp(g *ground, b *batch) int64 {
	floor := g.head.Last
	if g.branch {
		floor++
	}
	if b.at > 0 && b.at >= floor {
		return b.at
	}
	return max(s.now(), floor)
}

// entry is the write of a node.
func (n node) entry(session, parent string, at int64, call *bus.Call) state.Write {
	e := n.content
	e.ID, e.Timestamp = n.id, at
	if parent != "" {
		e.ParentID = &parent
	}
	w := state.Set(agent.ScopeSessionTree+session, n.id, encode(e)).IfAbsent()
	w.Origin = state.Origin{Principal: call.Principal, Traceparent: call.Traceparent, Baggage: call.Baggage}
	return w
}

// callMark marks a call id. A mark that is there already is a conflict if the
// path has not been read.
func callMark(session, id string, fresh bool) state.Write {
	w := state.Set(scopeCalls, session+"/"+id, json.RawMessage("1"))
	if fresh {
		return w.IfAbsent()
	}
	return w
}

// mark writes the marks of a message with more calls than a transaction takes,
// before its entry. A mark too much costs a later append a look at the tree.
func (s *Session) mark(ctx context.Context, session string, calls []agent.Block) error {
	for len(calls) > 0 {
		n := min(len(calls), state.MaxTx)
		tx := make([]state.Write, n)
		for i, c := range calls[:n] {
			tx[i] = callMark(session, c.ID, false)
		}
		if _, err := s.State.Submit(ctx, tx).Wait(ctx); err != nil {
			return storage(session, "mark calls", err)
		}
		calls = calls[n:]
	}
	return nil
}

// lost is the error of a transaction. After a conflict on a mark, or on what
// the store does not name, the path has to be read.
func (s *Session) lost(b *batch, err error) error {
	var c *state.ConflictError
	if errors.As(err, &c) {
		b.readTree = b.readTree || c.Scope == scopeCalls || c.Scope == ""
	}
	return storage(b.session, "append", err)
}
