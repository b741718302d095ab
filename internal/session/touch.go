package session

import (
	"context"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
)

const (
	summaryRunes = 80
	// summaryWalk is how many entries that are no messages may follow the one
	// that gives the summary.
	summaryWalk = 16
)

type touchRequest struct {
	SessionID string `json:"session_id"`
}

// Validate names the first wrong field.
func (r touchRequest) Validate() error { return validID("session_id", r.SessionID) }

// touch brings a session's row up to date at the end of a run, so that a list
// reads rows and not trees.
func (s *Session) touch(ctx context.Context, call *bus.Call, r touchRequest) (bus.None, error) {
	var last error
	for range attempts {
		m, version, err := s.open(ctx, call, r.SessionID, writes)
		if err != nil {
			return bus.None{}, err
		}
		h, _, err := s.head(ctx, r.SessionID)
		if err != nil {
			return bus.None{}, err
		}
		m.UpdatedAt, m.EntryCount = max(s.now(), m.UpdatedAt), h.Count
		if m.Summary, err = s.summary(ctx, r.SessionID, h.Leaf); err != nil {
			return bus.None{}, err
		}
		w := state.Set(agent.ScopeSessionTreeMeta, r.SessionID, encode(m)).IfVersion(version)
		if _, last = state.Do(ctx, s.State, w); last == nil {
			return bus.None{}, nil
		}
		if !unsettled(last) {
			break
		}
	}
	return bus.None{}, storage(r.SessionID, "touch", last)
}

// summary is the first text of the last message, if that is a user's or an
// assistant's.
func (s *Session) summary(ctx context.Context, session, leaf string) (string, error) {
	for range summaryWalk {
		if leaf == "" {
			return "", nil
		}
		e, ok, err := s.entry(ctx, session, leaf)
		if err != nil || !ok {
			return "", err
		}
		if e.Type == TypeMessage {
			return e.summary(), nil
		}
		leaf = e.parent()
	}
	return "", nil
}

func (e Entry) summary() string {
	m, ok := e.message()
	if !ok || (m.Role != agent.RoleUser && m.Role != agent.RoleAssistant) {
		return ""
	}
	for _, b := range m.Content {
		if b.Type != agent.BlockText {
			continue
		}
		if r := []rune(b.Text); len(r) > summaryRunes {
			return string(r[:summaryRunes])
		}
		return b.Text
	}
	return ""
}
