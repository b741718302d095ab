package session

import (
	"context"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
)

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
	id := s.IDs.UUID()
	m := s.newMeta(call, id, r)
	m.BranchCount = 1
	if _, err := state.Do(ctx, s.State, state.Set(agent.ScopeSessionTreeMeta, id, encode(m)).IfAbsent()); err != nil {
		return sessionResponse{}, storage(id, "create", err)
	}
	return sessionResponse{id}, nil
}

type ensureRequest struct {
	SessionID string `json:"session_id"`
	createRequest
}

// Validate names the first wrong field.
func (r ensureRequest) Validate() error {
	if err := validID("session_id", r.SessionID); err != nil {
		return err
	}
	return r.createRequest.Validate()
}

// ensure makes a session under the given id, or finds it as it is. Of several
// principals that ensure one id at once, the first owns it and the others hear
// that it does not exist.
func (s *Session) ensure(ctx context.Context, call *bus.Call, r ensureRequest) (sessionResponse, error) {
	m, version, err := s.meta(ctx, r.SessionID)
	if err != nil {
		return sessionResponse{}, err
	}
	if version == 0 {
		m = s.newMeta(call, r.SessionID, r.createRequest)
		_, err := state.Do(ctx, s.State, state.Set(agent.ScopeSessionTreeMeta, r.SessionID, encode(m)).IfAbsent())
		if err == nil {
			return sessionResponse{r.SessionID}, nil
		}
		if !isConflict(err) {
			return sessionResponse{}, storage(r.SessionID, "create", err)
		}
		if m, version, err = s.meta(ctx, r.SessionID); err != nil {
			return sessionResponse{}, err
		}
	}
	if version == 0 || !writes(call.Principal, m) {
		return sessionResponse{}, notFound(r.SessionID)
	}
	return sessionResponse{r.SessionID}, nil
}

func (s *Session) newMeta(call *bus.Call, id string, r createRequest) Meta {
	now := s.now()
	return Meta{SessionID: id, Owner: call.Principal.ID, WorkspaceID: call.Principal.WorkspaceID,
		DisplayName: r.DisplayName, Cwd: r.Cwd, CreatedAt: now, UpdatedAt: now}
}
