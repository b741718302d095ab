package approval

import (
	"context"
	"encoding/json"
	"fmt"
	"sort"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/state"
	"github.com/iii-aws/harness/internal/agent"
)

type grantsRequest struct {
	SessionID string `json:"session_id"`
}

// Validate names the first wrong field.
func (r grantsRequest) Validate() error {
	if allowed := validID(r.SessionID); allowed != "" {
		return bus.Invalid("session_id", allowed)
	}
	return nil
}

type grantsResponse struct {
	Grants []agent.Grant `json:"grants"`
}

// grants is the standing grants of a session, newest first; none of a session
// that the caller may not see.
func (g *Gate) grants(ctx context.Context, call *bus.Call, r grantsRequest) (grantsResponse, error) {
	out := grantsResponse{Grants: []agent.Grant{}}
	ok, err := g.sees(ctx, call.Principal, r.SessionID)
	if err != nil || !ok {
		return out, err
	}
	items, err := g.State.List(ctx, agent.ScopeApprovalGrants, state.ListOptions{Prefix: r.SessionID + "/"})
	if err != nil {
		return out, fmt.Errorf("approval: grants: %w", err)
	}
	for _, it := range items {
		var row agent.Grant
		if err := json.Unmarshal(it.Value, &row); err != nil {
			// It grants nothing to the turn either.
			g.Logger.Error("grant cannot be read", "alarm", "approval_row", "key", it.Key.Key, "error", err)
			continue
		}
		out.Grants = append(out.Grants, row)
	}
	sort.Slice(out.Grants, func(i, j int) bool {
		a, b := out.Grants[i], out.Grants[j]
		if a.GrantedAt != b.GrantedAt {
			return a.GrantedAt > b.GrantedAt
		}
		return a.ArgsHash < b.ArgsHash
	})
	return out, nil
}

type revokeRequest struct {
	SessionID string `json:"session_id"`
	ArgsHash  string `json:"args_hash"`
}

// Validate names the first wrong field.
func (r revokeRequest) Validate() error {
	if allowed := validID(r.SessionID); allowed != "" {
		return bus.Invalid("session_id", allowed)
	}
	if allowed := validID(r.ArgsHash); allowed != "" {
		return bus.Invalid("args_hash", allowed)
	}
	return nil
}

type revokeResponse struct {
	// Revoked: there was such a grant. A call that has passed goes on.
	Revoked bool `json:"revoked"`
}

// revoke ends a grant.
func (g *Gate) revoke(ctx context.Context, call *bus.Call, r revokeRequest) (revokeResponse, error) {
	ok, err := g.sees(ctx, call.Principal, r.SessionID)
	if err != nil || !ok {
		return revokeResponse{}, err
	}
	w := state.Delete(agent.ScopeApprovalGrants, r.SessionID+"/"+r.ArgsHash)
	w.Origin = origin(call)
	change, err := state.Do(ctx, g.State, w)
	if err != nil {
		return revokeResponse{}, fmt.Errorf("approval: revoke: %w", err)
	}
	return revokeResponse{change.Old != nil}, nil
}
