package credential

import (
	"context"

	"github.com/iii-aws/harness/engine/bus"
)

// StatusResponse says whether and from where, never what.
type StatusResponse struct {
	Configured bool   `json:"configured"`
	Source     string `json:"source,omitempty"` // stored, environment
	Label      string `json:"label,omitempty"`
}

func (s *Store) status(ctx context.Context, _ *bus.Call, r providerRequest) (StatusResponse, error) {
	return s.Status(ctx, r.Provider)
}

// Status is auth::status for the host itself. The label of an API key starts
// with "api-key:" and names the variable it is from.
func (s *Store) Status(ctx context.Context, provider string) (StatusResponse, error) {
	f, err := s.find(ctx, provider)
	if err != nil || f.source == "" {
		return StatusResponse{}, err
	}
	out := StatusResponse{Configured: true, Source: f.source, Label: "oauth"}
	switch {
	case f.source == sourceEnvironment:
		out.Label = "api-key:" + EnvVars[provider]
	case f.Type == TypeAPIKey:
		out.Label = "api-key:" + f.source
	}
	return out, nil
}
