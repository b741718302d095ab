package session

import (
	"context"
	"encoding/json"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
)

const summaryRunes = 80

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
		m.UpdatedAt, m.EntryCount, m.Summary = max(s.now(), m.UpdatedAt), h.Count, ""
		if h.Leaf != "" {
			e, _, err := s.entry(ctx, r.SessionID, h.Leaf)
			if err != nil {
				return bus.None{}, err
			}
			m.Summary = summary(e)
		}
		_, last = state.Do(ctx, s.State, state.Set(agent.ScopeSessionTreeMeta, r.SessionID, encode(m)).IfVersion(version))
		if last == nil {
			return bus.None{}, nil
		}
		if !isConflict(last) {
			break
		}
	}
	return bus.None{}, storage(r.SessionID, "touch", last)
}

// summary is the first text of a user or assistant message.
func summary(e Entry) string {
	var m agent.Message
	if e.Type != typeMessage || json.Unmarshal(e.Message, &m) != nil || (m.Role != agent.RoleUser && m.Role != agent.RoleAssistant) {
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
