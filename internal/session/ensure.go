package session

import (
	"context"

	"github.com/iii-aws/harness/engine/bus"
)

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
	switch {
	case err != nil:
		return sessionResponse{}, err
	case version == 0:
		return s.settle(ctx, call, s.newMeta(call, r.SessionID, r.createRequest))
	case !writes(call.Principal, m):
		return sessionResponse{}, notFound(r.SessionID)
	}
	return sessionResponse{r.SessionID}, nil
}
