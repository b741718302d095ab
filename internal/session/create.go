package session

import (
	"context"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
)

// maxText is the longest name and folder of a session, in bytes.
const maxText = 4096

type createRequest struct {
	DisplayName string `json:"display_name,omitempty"`
	Cwd         string `json:"cwd,omitempty"`
}

// Validate names the first wrong field.
func (r createRequest) Validate() error {
	if len(r.DisplayName) > maxText {
		return bus.Invalid("display_name", "at most 4096 bytes")
	}
	if len(r.Cwd) > maxText {
		return bus.Invalid("cwd", "at most 4096 bytes")
	}
	return nil
}

type sessionResponse struct {
	SessionID string `json:"session_id"`
}

// create makes a session with a fresh id.
func (s *Session) create(ctx context.Context, call *bus.Call, r createRequest) (sessionResponse, error) {
	m := s.newMeta(call, s.IDs.UUID(), r)
	m.BranchCount = 1
	return s.settle(ctx, call, m)
}

func (s *Session) newMeta(call *bus.Call, id string, r createRequest) Meta {
	now := s.now()
	return Meta{SessionID: id, Owner: call.Principal.ID, WorkspaceID: call.Principal.WorkspaceID,
		DisplayName: r.DisplayName, Cwd: r.Cwd, CreatedAt: now, UpdatedAt: now}
}

// settle stores a new session, unless there is one under its id: then the
// caller has it if it may write to it.
func (s *Session) settle(ctx context.Context, call *bus.Call, m Meta) (sessionResponse, error) {
	w := state.Set(agent.ScopeSessionTreeMeta, m.SessionID, encode(m)).IfAbsent()
	_, err := state.Do(ctx, s.State, w)
	if unsettled(err) {
		_, _, readErr := s.open(ctx, call, m.SessionID, writes)
		if readErr == nil {
			return sessionResponse{m.SessionID}, nil
		}
		if isConflict(err) {
			return sessionResponse{}, readErr
		}
	}
	if err != nil {
		return sessionResponse{}, storage(m.SessionID, "create", err)
	}
	return sessionResponse{m.SessionID}, nil
}
