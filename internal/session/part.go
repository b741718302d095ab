package session

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
)

// pruned stands where the output of a function was.
const pruned = "[output pruned]"

type part struct {
	EntryID string  `json:"entry_id"`
	Output  *string `json:"output,omitempty"`
	// CompactedAt is in epoch milliseconds.
	CompactedAt int64 `json:"compacted_at"`
}

func (p part) validate(field string) error {
	if err := validID(field+"entry_id", p.EntryID); err != nil {
		return err
	}
	if p.CompactedAt <= 0 {
		return bus.Invalid(field+"compacted_at", "epoch milliseconds")
	}
	return nil
}

type partRequest struct {
	SessionID string `json:"session_id"`
	part
}

// Validate names the first wrong field.
func (r partRequest) Validate() error {
	if err := validID("session_id", r.SessionID); err != nil {
		return err
	}
	return r.validate("")
}

type partResponse struct {
	OK bool `json:"ok"`
}

// updatePart replaces the output of one function result.
func (s *Session) updatePart(ctx context.Context, call *bus.Call, r partRequest) (partResponse, error) {
	_, err := s.updateParts(ctx, call, partsRequest{SessionID: r.SessionID, Items: []part{r.part}})
	return partResponse{err == nil}, err
}

type partsRequest struct {
	SessionID string `json:"session_id"`
	Items     []part `json:"items"`
}

// Validate names the first wrong field.
func (r partsRequest) Validate() error {
	if err := validID("session_id", r.SessionID); err != nil {
		return err
	}
	switch {
	case r.Items == nil:
		return bus.Missing("items")
	case len(r.Items) > maxBatch:
		return bus.Invalid("items", "at most 1000")
	}
	for i, p := range r.Items {
		if err := p.validate(fmt.Sprintf("items[%d].", i)); err != nil {
			return err
		}
	}
	return nil
}

type partsResponse struct {
	Updated int `json:"updated"`
}

// updateParts replaces the output of function results. Ids of anything else are
// passed over. What fits into one transaction is changed whole or not at all;
// to send the same again changes nothing more.
func (s *Session) updateParts(ctx context.Context, call *bus.Call, r partsRequest) (partsResponse, error) {
	if _, _, err := s.open(ctx, call, r.SessionID, writes); err != nil {
		return partsResponse{}, err
	}
	if len(r.Items) == 0 {
		_, err := s.idle(ctx, call, r.SessionID)
		return partsResponse{}, err
	}
	updated := map[string]bool{}
	for items := r.Items; len(items) > 0; {
		n := min(len(items), state.MaxTx-1) // and the check that no turn runs
		if err := s.updateSome(ctx, call, r.SessionID, items[:n], updated); err != nil {
			return partsResponse{}, err
		}
		items = items[n:]
	}
	return partsResponse{len(updated)}, nil
}

// updateSome changes parts in one transaction, and adds their ids to updated.
func (s *Session) updateSome(ctx context.Context, call *bus.Call, session string, items []part, updated map[string]bool) error {
	var last error
	for range attempts {
		tx, err := s.idle(ctx, call, session)
		if err != nil {
			return err
		}
		changed := map[string]int{}
		for _, p := range items {
			w, ok, err := s.replaced(ctx, session, p)
			if err != nil {
				return err
			}
			if at, again := changed[p.EntryID]; again {
				tx[at] = w // the last one wins; a transaction has each key once
				continue
			}
			if ok {
				changed[p.EntryID] = len(tx)
				tx = append(tx, w)
			}
		}
		if len(changed) == 0 {
			return nil
		}
		if _, last = s.State.Submit(ctx, tx).Wait(ctx); last == nil {
			for id := range changed {
				updated[id] = true
			}
			return nil
		}
		if !unsettled(last) {
			break
		}
	}
	return storage(session, "update parts", last)
}

// replaced is the write of an entry with another output; ok is false if it is
// no function result.
func (s *Session) replaced(ctx context.Context, session string, p part) (w state.Write, ok bool, err error) {
	var e Entry
	key := state.Key{Scope: agent.ScopeSessionTree + session, Key: p.EntryID}
	version, err := s.read(ctx, session, "entry "+p.EntryID, key, &e)
	if err != nil || version == 0 {
		return w, false, err
	}
	if m, isMessage := e.message(); !isMessage || m.Role != agent.RoleFunctionResult {
		return w, false, nil
	}
	text := pruned
	if p.Output != nil {
		text = *p.Output
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(e.Message, &members); err != nil {
		return w, false, storage(session, "read entry "+p.EntryID, err)
	}
	members["content"] = encode([]map[string]string{{"type": "text", "text": text}})
	members["details"] = withCompactedAt(members["details"], p.CompactedAt)
	e.Message = encode(members)
	return state.Set(key.Scope, key.Key, encode(e)).IfVersion(version), true, nil
}

// withCompactedAt adds the member. Details that are no object become its member
// value.
func withCompactedAt(details json.RawMessage, at int64) json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(details, &members) != nil {
		members = map[string]json.RawMessage{"value": details}
	}
	if members == nil {
		members = map[string]json.RawMessage{}
	}
	members["compacted_at"] = encode(at)
	return encode(members)
}
