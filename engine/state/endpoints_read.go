package state

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
)

type getRequest struct {
	Scope       string `json:"scope"`
	Key         string `json:"key"`
	WithVersion bool   `json:"with_version,omitempty"`
}

// versioned is the result of a get that asks for the version.
type versioned struct {
	Value   json.RawMessage `json:"value"`
	Version int64           `json:"version"`
}

// get gives no value for a key that does not exist, also when it is asked for the version.
func (e endpoints) get(ctx context.Context, call *bus.Call, req getRequest) (json.RawMessage, error) {
	if err := open(protocol.CodeStateGet, req.Scope); err != nil {
		return nil, err
	}
	if may, err := e.guard.Read(ctx, call, req.Scope, req.Key); err != nil || !may {
		return nil, Failure(protocol.CodeStateGet, err)
	}
	item, ok, err := e.store.Get(ctx, Key{req.Scope, req.Key})
	switch {
	case err != nil:
		return nil, Failure(protocol.CodeStateGet, err)
	case !ok:
		return nil, nil
	case req.WithVersion:
		return bus.Encode(versioned{orNull(item.Value), item.Version})
	}
	return orNull(item.Value), nil
}

type listRequest struct {
	Scope string `json:"scope"`
}

func (e endpoints) list(ctx context.Context, call *bus.Call, req listRequest) ([]json.RawMessage, error) {
	if err := open(protocol.CodeStateList, req.Scope); err != nil {
		return nil, err
	}
	items, err := e.store.List(ctx, req.Scope, ListOptions{})
	if err != nil {
		return nil, Failure(protocol.CodeStateList, err)
	}
	values := make([]json.RawMessage, 0, len(items))
	for _, item := range items {
		may, err := e.guard.Read(ctx, call, req.Scope, item.Key.Key)
		if err != nil {
			return nil, Failure(protocol.CodeStateList, err)
		}
		if may {
			values = append(values, orNull(item.Value))
		}
	}
	return values, nil
}

type listGroupsRequest struct{}

type listGroupsResponse struct {
	Groups []string `json:"groups"`
}

func (e endpoints) listGroups(ctx context.Context, call *bus.Call, _ listGroupsRequest) (listGroupsResponse, error) {
	scopes, err := e.store.Groups(ctx)
	if err != nil {
		return listGroupsResponse{}, Failure(protocol.CodeStateListGroups, err)
	}
	res := listGroupsResponse{Groups: []string{}}
	for _, scope := range scopes {
		if strings.HasPrefix(scope, reservedScopes) {
			continue
		}
		may, err := e.guard.Read(ctx, call, scope, "")
		if err != nil {
			return listGroupsResponse{}, Failure(protocol.CodeStateListGroups, err)
		}
		if may {
			res.Groups = append(res.Groups, scope)
		}
	}
	return res, nil
}
