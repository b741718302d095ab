package credential

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/iii-aws/harness/engine/bus"
)

type setRequest struct {
	providerRequest
	Credential json.RawMessage `json:"credential"`
}

// set is auth::set_token: it stores a credential in place of the one there is.
func (s *Store) set(ctx context.Context, call *bus.Call, r setRequest) (okResponse, error) {
	if err := operatorOnly(call); err != nil {
		return okResponse{}, err
	}
	if raw := bytes.TrimSpace(r.Credential); len(raw) == 0 || string(raw) == "null" {
		return okResponse{}, bus.Missing("credential")
	}
	if len(r.Credential) > maxCredential {
		return okResponse{}, bus.Invalid("credential", "at most 65536 bytes")
	}
	var c Credential
	if json.Unmarshal(r.Credential, &c) != nil {
		return okResponse{}, bus.Invalid("credential", "an object with type api_key and key, or type oauth and access_token")
	}
	if err := c.check(); err != nil {
		return okResponse{}, err
	}
	s.deps.Known(c.secrets()...)
	if err := s.deps.Secrets.Set(ctx, r.Provider, r.Credential); err != nil {
		return okResponse{}, storeError(r.Provider, err)
	}
	return okResponse{OK: true}, nil
}
