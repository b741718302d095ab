package viewer

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
)

// Owner is who a session belongs to; ok is false if there is no such session.
func Owner(ctx context.Context, s state.Store, session string) (owner string, ok bool, err error) {
	it, ok, err := s.Get(ctx, state.Key{Scope: agent.ScopeSessionTreeMeta, Key: session})
	if err != nil {
		return "", false, fmt.Errorf("viewer: read session: %w", err)
	}
	if !ok {
		return "", false, nil
	}
	var meta struct {
		Owner string `json:"owner"`
	}
	if err := json.Unmarshal(it.Value, &meta); err != nil {
		return "", false, fmt.Errorf("viewer: read session %q: %w", session, err)
	}
	return meta.Owner, true, nil
}
