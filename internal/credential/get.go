package credential

import (
	"context"
	"encoding/json"

	"github.com/iii-aws/harness/engine/bus"
)

// get is auth::get_token: the credential as it was stored, or null.
func (s *Store) get(ctx context.Context, call *bus.Call, r providerRequest) (json.RawMessage, error) {
	if err := s.deps.Allowed(call, r.Provider); err != nil {
		return nil, err
	}
	f, err := s.find(ctx, r.Provider)
	if err != nil {
		return nil, err
	}
	if f.source == "" {
		return json.RawMessage("null"), nil
	}
	return f.raw, nil
}
