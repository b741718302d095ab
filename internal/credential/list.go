package credential

import (
	"context"
	"slices"

	"github.com/iii-aws/harness/engine/bus"
)

type listResponse struct {
	Providers []string `json:"providers"`
}

// list is auth::list_providers: the providers with a stored credential, sorted.
func (s *Store) list(ctx context.Context, _ *bus.Call, _ struct{}) (listResponse, error) {
	names, err := s.deps.Secrets.Names(ctx)
	if err != nil {
		return listResponse{}, storeError("*", err)
	}
	out := append([]string{}, names...)
	slices.Sort(out)
	return listResponse{out}, nil
}
