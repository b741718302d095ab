package session

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
)

// maxBatch keeps a batch within one transaction: its entries, the marks of its
// calls and the head row.
const maxBatch = 97

type appendRequest struct {
	SessionID string          `json:"session_id"`
	ParentID  *string         `json:"parent_id,omitempty"`
	Message   json.RawMessage `json:"message"`
	EntryID   string          `json:"entry_id,omitempty"`
}

type appendResponse struct {
	EntryID string `json:"entry_id"`
}

// append adds one message.
func (s *Session) append(ctx context.Context, call *bus.Call, r appendRequest) (appendResponse, error) {
	if len(r.Message) == 0 {
		return appendResponse{}, bus.Missing("message")
	}
	batch := batchRequest{SessionID: r.SessionID, ParentID: r.ParentID, Messages: []json.RawMessage{r.Message}}
	if r.EntryID != "" {
		batch.EntryIDs = []string{r.EntryID}
	}
	out, err := s.appendBatch(ctx, call, batch)
	if err != nil {
		return appendResponse{}, err
	}
	return appendResponse{out.EntryIDs[0]}, nil
}

type batchRequest struct {
	SessionID string            `json:"session_id"`
	ParentID  *string           `json:"parent_id,omitempty"`
	Messages  []json.RawMessage `json:"messages"`
	EntryIDs  []string          `json:"entry_ids,omitempty"`
}

type batchResponse struct {
	EntryIDs []string `json:"entry_ids"`
}

// appendBatch adds messages that hang on one another, all or none.
func (s *Session) appendBatch(ctx context.Context, call *bus.Call, r batchRequest) (batchResponse, error) {
	b, err := s.batch(r)
	if err != nil {
		return batchResponse{}, err
	}
	if _, _, err := s.open(ctx, call, r.SessionID, writes); err != nil {
		return batchResponse{}, err
	}
	if err := s.busy(ctx, call, r.SessionID); err != nil {
		return batchResponse{}, err
	}
	if len(b.nodes) == 0 {
		return batchResponse{EntryIDs: []string{}}, nil
	}
	var last error
	for range attempts {
		if last = s.tryAppend(ctx, call, b); last == nil {
			return batchResponse{b.ids()}, nil
		}
		if !isConflict(last) {
			return batchResponse{}, last
		}
		if err := s.drop(ctx, b); err != nil {
			return batchResponse{}, err
		}
		if len(b.nodes) == 0 {
			return batchResponse{b.ids()}, nil
		}
	}
	return batchResponse{}, storage(r.SessionID, "append: other writers were first each time", last)
}

// node is a message that is to become an entry.
type node struct {
	id      string
	raw     json.RawMessage
	message agent.Message
}

type batch struct {
	session string
	// parent is where the first node hangs; nil is the active leaf.
	parent *string
	done   []string // ids that are stored
	nodes  []node
	// marked call ids have a mark that is not on the path.
	marked map[string]bool
}

func (b *batch) ids() []string {
	out := append([]string{}, b.done...)
	for _, n := range b.nodes {
		out = append(out, n.id)
	}
	return out
}

// batch checks a request and reads its messages.
func (s *Session) batch(r batchRequest) (*batch, error) {
	if err := validID("session_id", r.SessionID); err != nil {
		return nil, err
	}
	if len(r.Messages) > maxBatch {
		return nil, bus.Invalid("messages", "at most 97")
	}
	if r.EntryIDs != nil && len(r.EntryIDs) != len(r.Messages) {
		return nil, bus.Invalid("entry_ids", "one for each message")
	}
	b := &batch{session: r.SessionID, parent: r.ParentID, marked: map[string]bool{}}
	if r.ParentID != nil && *r.ParentID == "" {
		b.parent = nil
	}
	seen := map[string]bool{}
	for i, raw := range r.Messages {
		n := node{raw: raw}
		if err := json.Unmarshal(raw, &n.message); err != nil {
			return nil, &bus.InvalidError{Field: "messages", Allowed: "messages of role user, assistant, function_result or custom", Err: err}
		}
		if r.EntryIDs == nil {
			n.id = s.IDs.UUID()
		} else {
			n.id = r.EntryIDs[i]
			if err := validID("entry_ids", n.id); err != nil {
				return nil, err
			}
		}
		if seen[n.id] {
			return nil, bus.Invalid("entry_ids", "each id once")
		}
		seen[n.id] = true
		b.nodes = append(b.nodes, n)
	}
	return b, nil
}

// tryAppend makes one transaction. A conflict means that somebody else was
// first, or that a part is already stored.
func (s *Session) tryAppend(ctx context.Context, call *bus.Call, b *batch) error {
	h, version, err := s.head(ctx, b.session)
	if err != nil {
		return err
	}
	parent, open := h.Leaf, h.Open
	if b.parent != nil && *b.parent != h.Leaf {
		parent = *b.parent
		if open, err = s.openOn(ctx, b.session, parent); err != nil {
			return err
		}
	}
	at := max(s.now(), h.Last)
	origin := state.Origin{Principal: call.Principal, Traceparent: call.Traceparent, Baggage: call.Baggage}
	var writes []state.Write
	for _, n := range b.nodes {
		if open, err = follow(b.session, open, n.message); err != nil {
			return s.explain(ctx, b, err)
		}
		e := Entry{ID: n.id, Timestamp: at, Type: typeMessage, Message: n.raw}
		if parent != "" {
			p := parent
			e.ParentID = &p
		}
		w := state.Set(agent.ScopeSessionTree+b.session, n.id, encode(e)).IfAbsent()
		w.Origin = origin
		writes = append(writes, w)
		for _, c := range n.message.Calls() {
			if !b.marked[c.ID] {
				writes = append(writes, state.Set(scopeCalls, b.session+"/"+c.ID, json.RawMessage("1")).IfAbsent())
			}
		}
		parent = n.id
	}
	next := head{Leaf: parent, Last: at, Count: h.Count + len(b.nodes), Open: open}
	hw := state.Set(scopeHead, b.session, encode(next)).IfVersion(version)
	if version == 0 {
		hw = state.Set(scopeHead, b.session, encode(next)).IfAbsent()
	}
	writes = append(writes, hw)
	if len(writes) > state.MaxTx {
		return bus.Invalid("messages", "at most 100 messages and calls together")
	}
	if _, err := s.State.Submit(ctx, writes).Wait(ctx); err != nil {
		if isConflict(err) {
			return err
		}
		return storage(b.session, "append", err)
	}
	return nil
}

// follow is the open calls after a message, or why the message may not come.
func follow(session string, open []string, m agent.Message) ([]string, error) {
	switch m.Role {
	case agent.RoleAssistant:
		next := slices.Clone(open)
		for _, c := range m.Calls() {
			if c.ID == "" {
				return nil, bus.Invalid("messages", "function_call blocks with an id")
			}
			if slices.Contains(next, c.ID) {
				return nil, &Error{Kind: DuplicateCall, Session: session, Detail: c.ID}
			}
			next = append(next, c.ID)
		}
		return next, nil
	case agent.RoleFunctionResult:
		i := slices.Index(open, m.FunctionCallID)
		if i < 0 {
			return nil, &Error{Kind: OrphanResult, Session: session, Detail: m.FunctionCallID}
		}
		return slices.Delete(slices.Clone(open), i, i+1), nil
	}
	return open, nil
}

// openOn walks the path to an entry that is not the leaf.
func (s *Session) openOn(ctx context.Context, session, leaf string) ([]string, error) {
	t, err := s.tree(ctx, session)
	if err != nil {
		return nil, err
	}
	if _, ok := t.byID[leaf]; !ok {
		return nil, &Error{Kind: EntryNotFound, Session: session, Detail: leaf}
	}
	var open []string
	for _, e := range t.path(leaf) {
		if e.Type != typeMessage {
			continue
		}
		var m agent.Message
		if err := json.Unmarshal(e.Message, &m); err != nil {
			return nil, storage(session, "read entry "+e.ID, err)
		}
		if next, err := follow(session, open, m); err == nil {
			open = next
		}
	}
	return open, nil
}

// explain turns a refusal into a conflict if the batch, or a part of it, is
// already stored: it is then dropped and the rest tried again.
func (s *Session) explain(ctx context.Context, b *batch, refusal error) error {
	for _, n := range b.nodes {
		_, ok, err := s.entry(ctx, b.session, n.id)
		if err != nil {
			return err
		}
		if ok {
			return &state.ConflictError{Key: state.Key{Scope: agent.ScopeSessionTree + b.session, Key: n.id}}
		}
	}
	return refusal
}

// drop takes out what is already stored, and judges call ids that have a mark.
func (s *Session) drop(ctx context.Context, b *batch) error {
	for len(b.nodes) > 0 {
		n := b.nodes[0]
		_, ok, err := s.entry(ctx, b.session, n.id)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		b.done = append(b.done, n.id)
		parent := n.id
		b.parent, b.nodes = &parent, b.nodes[1:]
	}
	for i, n := range b.nodes {
		if i > 0 {
			if _, ok, err := s.entry(ctx, b.session, n.id); err != nil {
				return err
			} else if ok {
				return bus.Invalid("entry_ids", "ids that are not used by other entries")
			}
		}
		for _, c := range n.message.Calls() {
			if err := s.judge(ctx, b, c.ID); err != nil {
				return err
			}
		}
	}
	return nil
}

// judge refuses a marked call id that the path has; on another branch it is
// free.
func (s *Session) judge(ctx context.Context, b *batch, id string) error {
	_, ok, err := s.State.Get(ctx, state.Key{Scope: scopeCalls, Key: b.session + "/" + id})
	if err != nil {
		return storage(b.session, "read call", err)
	}
	if !ok || b.marked[id] {
		return nil
	}
	t, err := s.tree(ctx, b.session)
	if err != nil {
		return err
	}
	leaf := t.leaf()
	if b.parent != nil {
		leaf = *b.parent
	}
	for _, e := range t.path(leaf) {
		var m agent.Message
		if e.Type != typeMessage || json.Unmarshal(e.Message, &m) != nil {
			continue
		}
		for _, c := range m.Calls() {
			if c.ID == id {
				return &Error{Kind: DuplicateCall, Session: b.session, Detail: id}
			}
		}
	}
	b.marked[id] = true
	return nil
}
