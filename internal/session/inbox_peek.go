package session

import (
	"context"
	"encoding/json"

	"github.com/iii-aws/harness/engine/bus"
)

type peekResponse struct {
	Items []json.RawMessage `json:"items"`
	IDs   []string          `json:"ids"`
}

// peek reads an inbox in the order of the pushes, strongly consistent, and
// leaves it as it is.
func (s *Session) peek(ctx context.Context, call *bus.Call, r inboxRequest) (peekResponse, error) {
	out := peekResponse{Items: []json.RawMessage{}, IDs: []string{}}
	if _, _, err := s.open(ctx, call, r.SessionID, sees); err != nil {
		return out, err
	}
	b, _, err := s.inbox(ctx, r)
	if err != nil {
		return out, err
	}
	for _, l := range b.Items {
		out.Items, out.IDs = append(out.Items, l.Item), append(out.IDs, l.ID)
	}
	return out, nil
}
