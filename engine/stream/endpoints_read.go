package stream

import (
	"context"
	"encoding/json"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/state"
)

func (e endpoints) get(ctx context.Context, call *bus.Call, req itemRequest) (json.RawMessage, error) {
	if may, err := e.guard.Read(ctx, call, req.Stream, req.Group); err != nil || !may {
		return nil, state.Failure(protocol.CodeStreamGet, err)
	}
	item, ok, err := e.store.Get(ctx, req.key())
	if err != nil || !ok {
		return nil, state.Failure(protocol.CodeStreamGet, err)
	}
	return orNull(item.Data), nil
}

type groupRequest struct {
	Stream string `json:"stream_name"`
	Group  string `json:"group_id"`
}

func (r groupRequest) stream() string { return r.Stream }

func (e endpoints) list(ctx context.Context, call *bus.Call, req groupRequest) ([]json.RawMessage, error) {
	if may, err := e.guard.Read(ctx, call, req.Stream, req.Group); err != nil || !may {
		return []json.RawMessage{}, state.Failure(protocol.CodeStreamGetGroup, err)
	}
	items, err := e.store.List(ctx, req.Stream, req.Group)
	if err != nil {
		return nil, state.Failure(protocol.CodeStreamGetGroup, err)
	}
	values := make([]json.RawMessage, len(items))
	for i, item := range items {
		values[i] = orNull(item.Data)
	}
	return values, nil
}

type streamRequest struct {
	Stream string `json:"stream_name"`
}

func (r streamRequest) stream() string { return r.Stream }

func (e endpoints) listGroups(ctx context.Context, call *bus.Call, req streamRequest) ([]string, error) {
	groups, err := e.groups(ctx, call, req.Stream)
	return groups, state.Failure(protocol.CodeStreamListGroups, err)
}

// groups is those of a stream that the caller may know of.
func (e endpoints) groups(ctx context.Context, call *bus.Call, name string) ([]string, error) {
	all, err := e.store.Groups(ctx, name)
	if err != nil {
		return nil, err
	}
	groups := []string{}
	for _, g := range all {
		may, err := e.guard.Read(ctx, call, name, g)
		if err != nil {
			return nil, err
		}
		if may {
			groups = append(groups, g)
		}
	}
	return groups, nil
}

type listAllRequest struct{}

type streamGroups struct {
	ID     string   `json:"id"`
	Groups []string `json:"groups"`
}

type listAllResponse struct {
	Streams []streamGroups `json:"stream"`
	Count   int            `json:"count"`
}

func (e endpoints) listAll(ctx context.Context, call *bus.Call, _ listAllRequest) (listAllResponse, error) {
	names, err := e.store.Streams(ctx)
	if err != nil {
		return listAllResponse{}, state.Failure(protocol.CodeStreamListAll, err)
	}
	res := listAllResponse{Streams: []streamGroups{}, Count: len(names)}
	for _, name := range names {
		groups, err := e.groups(ctx, call, name)
		if err != nil {
			return listAllResponse{}, state.Failure(protocol.CodeStreamListAll, err)
		}
		res.Streams = append(res.Streams, streamGroups{name, groups})
	}
	return res, nil
}

type sendRequest struct {
	Stream string          `json:"stream_name"`
	Group  string          `json:"group_id"`
	Type   string          `json:"type"`
	Data   json.RawMessage `json:"data"`
	Item   string          `json:"id,omitempty"`
}

// sent is the data of an event that is not stored.
type sent struct {
	Type string          `json:"type"`
	Data json.RawMessage `json:"data"`
}

// send answers null, not nothing.
func (e endpoints) send(ctx context.Context, call *bus.Call, req sendRequest) (bus.None, error) {
	if err := e.guard.Write(ctx, call, req.Stream, req.Group); err != nil {
		return bus.None{}, err
	}
	data, err := bus.Encode(sent{req.Type, req.Data})
	if err != nil {
		return bus.None{}, err
	}
	event := Event{
		Key: Key{req.Stream, req.Group, req.Item}, Kind: Ephemeral, Data: data, Origin: state.OriginOf(call),
	}
	return bus.None{}, state.Failure(protocol.CodeStreamSend, e.store.Send(ctx, event))
}
