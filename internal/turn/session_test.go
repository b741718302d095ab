package turn

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/iii-aws/harness/engine/access"
	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/internal/agent"
)

// fakeSession keeps the rules of the session worker, in memory.
type fakeSession struct {
	w        *world
	mu       sync.Mutex
	owners   map[string]string
	cwd      map[string]string
	paths    map[string][]pathEntry
	byID     map[string]bool
	inboxes  map[string][]inboxItem
	touched  map[string]int
	appends  int
	refusals []string
}

type inboxItem struct {
	id  string
	raw json.RawMessage
}

func newFakeSession(w *world) *fakeSession {
	s := &fakeSession{
		w: w, owners: map[string]string{}, cwd: map[string]string{}, paths: map[string][]pathEntry{}, byID: map[string]bool{},
		inboxes: map[string][]inboxItem{}, touched: map[string]int{},
	}
	w.bus.on("session-tree::ensure", s.ensure)
	w.bus.on("session-tree::append_batch", s.append)
	w.bus.on("session-tree::messages", s.messages)
	w.bus.on("session-tree::touch", s.touch)
	w.bus.on("session-inbox::peek", s.peek)
	w.bus.on("session-inbox::drain", s.drain)
	return s
}

func notFoundError() error { return &bus.Error{Code: "not_found", Message: "session not found"} }

func (s *fakeSession) ensure(_ context.Context, c *bus.Call) (any, error) {
	var r struct {
		SessionID string `json:"session_id"`
		Cwd       string `json:"cwd"`
	}
	if err := bus.Decode(c.Data, &r); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if owner, ok := s.owners[r.SessionID]; ok {
		if !access.Sees(c.Principal, owner, r.SessionID) {
			return nil, notFoundError()
		}
		return map[string]string{"session_id": r.SessionID}, nil
	}
	s.owners[r.SessionID], s.cwd[r.SessionID] = c.Principal.ID, r.Cwd
	return map[string]string{"session_id": r.SessionID}, nil
}

func (s *fakeSession) append(_ context.Context, c *bus.Call) (any, error) {
	var r struct {
		SessionID string            `json:"session_id"`
		ParentID  string            `json:"parent_id"`
		Messages  []json.RawMessage `json:"messages"`
		EntryIDs  []string          `json:"entry_ids"`
	}
	if err := bus.Decode(c.Data, &r); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.appends++
	for i, raw := range r.Messages {
		id := r.EntryIDs[i]
		if s.byID[r.SessionID+"/"+id] {
			continue
		}
		path := s.paths[r.SessionID]
		if i == 0 && r.ParentID != "" && (len(path) == 0 || path[len(path)-1].EntryID != r.ParentID) {
			return s.refuse("entry_not_found", "the parent "+r.ParentID+" is not the leaf")
		}
		var m agent.Message
		if err := json.Unmarshal(raw, &m); err != nil {
			return s.refuse("invalid_payload", err.Error())
		}
		if code := legal(path, m); code != "" {
			return s.refuse(code, m.FunctionCallID)
		}
		s.byID[r.SessionID+"/"+id] = true
		s.paths[r.SessionID] = append(path, pathEntry{id, m})
	}
	return map[string]any{"entry_ids": r.EntryIDs}, nil
}

func (s *fakeSession) refuse(code, text string) (any, error) {
	s.refusals = append(s.refusals, code+": "+text)
	return nil, &bus.Error{Code: code, Message: text}
}

// legal says why a message may not come next on a path.
func legal(path []pathEntry, m agent.Message) string {
	var open []string
	for _, e := range path {
		for _, b := range e.Message.Calls() {
			open = append(open, b.ID)
		}
		if e.Message.Role == agent.RoleFunctionResult {
			open = slices.DeleteFunc(open, func(id string) bool { return id == e.Message.FunctionCallID })
		}
	}
	if m.Role == agent.RoleFunctionResult && !slices.Contains(open, m.FunctionCallID) {
		return "orphan_result"
	}
	for _, e := range path {
		for _, b := range e.Message.Calls() {
			for _, c := range m.Calls() {
				if c.ID == b.ID {
					return "duplicate_call"
				}
			}
		}
	}
	return ""
}

func (s *fakeSession) messages(_ context.Context, c *bus.Call) (any, error) {
	var r SessionRequest
	if err := bus.Decode(c.Data, &r); err != nil {
		return nil, err
	}
	type row struct {
		EntryID string        `json:"entry_id"`
		Message agent.Message `json:"message"`
	}
	out := []row{}
	for _, e := range s.path(r.SessionID) {
		out = append(out, row(e))
	}
	return map[string]any{"messages": out}, nil
}

func (s *fakeSession) path(session string) []pathEntry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]pathEntry(nil), s.paths[session]...)
}

// seed puts messages on the path of a session.
func (s *fakeSession) seed(session, owner string, messages ...agent.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owners[session] = owner
	for i, m := range messages {
		id := "seed" + string(rune('a'+i))
		s.byID[session+"/"+id] = true
		s.paths[session] = append(s.paths[session], pathEntry{id, m})
	}
}

func (s *fakeSession) touch(_ context.Context, c *bus.Call) (any, error) {
	var r SessionRequest
	if err := bus.Decode(c.Data, &r); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.touched[r.SessionID]++
	return bus.None{}, nil
}

type inboxRequest struct {
	Name      string   `json:"name"`
	SessionID string   `json:"session_id"`
	IDs       []string `json:"ids"`
}

// push puts a message into an inbox and raises the control item.
func (s *fakeSession) push(session, name, id, text string) {
	s.mu.Lock()
	key := session + "/" + name
	s.inboxes[key] = append(s.inboxes[key], inboxItem{id, encode(agent.User(text, 1))})
	s.mu.Unlock()
	s.w.raise(session)
}

func (s *fakeSession) inbox(session, name string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, it := range s.inboxes[session+"/"+name] {
		out = append(out, it.id)
	}
	return out
}

func (s *fakeSession) peek(_ context.Context, c *bus.Call) (any, error) {
	var r inboxRequest
	if err := bus.Decode(c.Data, &r); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	items, ids := []json.RawMessage{}, []string{}
	for _, it := range s.inboxes[r.SessionID+"/"+r.Name] {
		items, ids = append(items, it.raw), append(ids, it.id)
	}
	return map[string]any{"items": items, "ids": ids}, nil
}

func (s *fakeSession) drain(_ context.Context, c *bus.Call) (any, error) {
	var r inboxRequest
	if err := bus.Decode(c.Data, &r); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := r.SessionID + "/" + r.Name
	s.inboxes[key] = slices.DeleteFunc(s.inboxes[key], func(it inboxItem) bool { return slices.Contains(r.IDs, it.id) })
	return map[string]any{"items": []any{}}, nil
}
