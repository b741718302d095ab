package session

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"unicode"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/pattern"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
)

// attempts is how often a lost race is run again.
const attempts = 16

// turnWorker is the only worker that may append while a turn runs.
const turnWorker = "turn-orchestrator"

// Deps is what a Session needs.
type Deps struct {
	State  state.Store
	Clock  clock.Clock
	IDs    clock.IDs
	Logger *slog.Logger
}

// Session is the worker.
type Session struct{ Deps }

// New makes the worker.
func New(d Deps) (*Session, error) {
	if d.State == nil || d.Clock == nil || d.IDs == nil {
		return nil, errors.New("session: State, Clock and IDs are required")
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	return &Session{d}, nil
}

// Endpoints is the functions of the worker.
func (s *Session) Endpoints() map[string]bus.Endpoint {
	return map[string]bus.Endpoint{
		"session-tree::create":       bus.Typed(s.create),
		"session-tree::ensure":       bus.Typed(s.ensure),
		"session-tree::append":       bus.Typed(s.append),
		"session-tree::append_batch": bus.Typed(s.appendBatch),
		"session-tree::messages":     bus.Typed(s.messages),
		"session-tree::list":         bus.Typed(s.list),
		"session-tree::touch":        bus.Typed(s.touch),
		"session-inbox::push":        bus.Typed(s.push),
		"session-inbox::peek":        bus.Typed(s.peek),
		"session-inbox::drain":       bus.Typed(s.drain),
	}
}

// Meta is a row of scope session_tree_meta.
type Meta struct {
	SessionID   string `json:"session_id"`
	Owner       string `json:"owner"`
	WorkspaceID string `json:"workspace_id,omitempty"`
	DisplayName string `json:"display_name,omitempty"`
	Cwd         string `json:"cwd,omitempty"`
	CreatedAt   int64  `json:"created_at"`
	UpdatedAt   int64  `json:"updated_at"`
	BranchCount int    `json:"branch_count"`
	EntryCount  int    `json:"entry_count"`
	Summary     string `json:"last_message_summary,omitempty"`
}

// sees reports whether a principal may see a session.
func sees(p bus.Principal, m Meta) bool {
	if p.SeesAll() || (p.ID != "" && p.ID == m.Owner) {
		return true
	}
	for _, glob := range p.Sessions {
		if g, err := pattern.Compile(glob); err == nil && g.Match(m.SessionID) {
			return true
		}
	}
	return false
}

// writes reports whether a principal may write to a session: an approver reads
// what its globs name, and decides, but does not write.
func writes(p bus.Principal, m Meta) bool {
	return p.SeesAll() || (p.ID != "" && p.ID == m.Owner)
}

// open reads a session's row for a caller that must pass the rule. A stranger
// hears what it would hear of a session that does not exist.
func (s *Session) open(ctx context.Context, call *bus.Call, id string, may func(bus.Principal, Meta) bool) (Meta, int64, error) {
	m, version, err := s.meta(ctx, id)
	if err != nil {
		return Meta{}, 0, err
	}
	if version == 0 || !may(call.Principal, m) {
		return Meta{}, 0, notFound(id)
	}
	return m, version, nil
}

// meta reads a session's row; version 0 means that there is none.
func (s *Session) meta(ctx context.Context, id string) (Meta, int64, error) {
	item, ok, err := s.State.Get(ctx, state.Key{Scope: agent.ScopeSessionTreeMeta, Key: id})
	if err != nil {
		return Meta{}, 0, storage(id, "read", err)
	}
	if !ok {
		return Meta{}, 0, nil
	}
	var m Meta
	if err := json.Unmarshal(item.Value, &m); err != nil {
		return Meta{}, 0, storage(id, "read", err)
	}
	return m, item.Version, nil
}

// busy refuses foreign callers while a turn runs.
func (s *Session) busy(ctx context.Context, call *bus.Call, id string) error {
	if call.Worker == turnWorker {
		return nil
	}
	runs, err := s.running(ctx, id)
	if err != nil {
		return err
	}
	if runs {
		return &Error{Kind: Busy, Session: id, Detail: "a turn has not ended; steer it by session-inbox::push"}
	}
	return nil
}

func (s *Session) running(ctx context.Context, id string) (bool, error) {
	item, ok, err := s.State.Get(ctx, state.Key{Scope: agent.ScopeTurnState, Key: id})
	if err != nil {
		return false, storage(id, "read turn", err)
	}
	if !ok {
		return false, nil
	}
	var rec struct {
		State string `json:"state"`
	}
	if err := json.Unmarshal(item.Value, &rec); err != nil {
		return false, storage(id, "read turn", err)
	}
	return rec.State != "stopped" && rec.State != "failed", nil
}

func (s *Session) now() int64 { return clock.Millis(s.Clock.Now()) }

// validID checks an id that becomes a part of keys.
func validID(field, id string) error {
	if id == "" {
		return bus.Missing(field)
	}
	if len(id) > 128 {
		return bus.Invalid(field, "at most 128 bytes")
	}
	for _, r := range id {
		if r == '/' || !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return bus.Invalid(field, "printable characters without a slash")
		}
	}
	return nil
}

func isConflict(err error) bool {
	var c *state.ConflictError
	return errors.As(err, &c)
}

func encode(v any) json.RawMessage {
	b, err := bus.Encode(v)
	if err != nil {
		panic("session: " + err.Error()) // the stored types always encode
	}
	return b
}
