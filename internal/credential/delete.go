package credential

import (
	"context"

	"github.com/iii-aws/harness/engine/bus"
)

// delete is auth::delete_token: an absent credential is no error. The value
// stays known to redaction.
func (s *Store) delete(ctx context.Context, call *bus.Call, r providerRequest) (okResponse, error) {
	if err := operatorOnly(call); err != nil {
		return okResponse{}, err
	}
	if err := s.deps.Secrets.Delete(ctx, r.Provider); err != nil {
		return okResponse{}, storeError(r.Provider, err)
	}
	return okResponse{OK: true}, nil
}
