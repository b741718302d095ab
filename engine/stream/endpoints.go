package stream

import (
	"context"
	"encoding/json"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/internal/input"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/state"
)

// Function ids of Endpoints.
const (
	FunctionSet        = "stream::set"
	FunctionGet        = "stream::get"
	FunctionDelete     = "stream::delete"
	FunctionList       = "stream::list"
	FunctionListGroups = "stream::list_groups"
	FunctionListAll    = "stream::list_all"
	FunctionUpdate     = "stream::update"
	FunctionSend       = "stream::send"
)

// Override calls the function that stands in for a store function of one stream, such as stream::get(chat), if somebody
// serves it. served is false if nobody does. A served call's result is the result.
type Override func(ctx context.Context, functionID string, data json.RawMessage) (result json.RawMessage, served bool, err error)

// endpoints are the functions over a store.
type endpoints struct {
	store    Store
	override Override
	guard    state.Guard
}

// Endpoints serves stream::* over a store. A nil override has every stream in the store. The guard is asked with a stream
// for the scope and a group for the key; nil lets everybody do everything.
func Endpoints(s Store, o Override, guard state.Guard) map[string]bus.Endpoint {
	if guard == nil {
		guard = state.Open{}
	}
	if o == nil {
		o = func(context.Context, string, json.RawMessage) (json.RawMessage, bool, error) { return nil, false, nil }
	}
	e := endpoints{s, o, guard}
	return map[string]bus.Endpoint{
		FunctionSet:        overridable(e, FunctionSet, e.set),
		FunctionGet:        overridable(e, FunctionGet, e.get),
		FunctionDelete:     overridable(e, FunctionDelete, e.delete),
		FunctionList:       overridable(e, FunctionList, e.list),
		FunctionListGroups: overridable(e, FunctionListGroups, e.listGroups),
		FunctionUpdate:     overridable(e, FunctionUpdate, e.update),
		FunctionListAll:    input.Endpoint(FunctionListAll, e.listAll),
		FunctionSend:       input.Endpoint(FunctionSend, e.send),
	}
}

// named is a request of one stream.
type named interface{ stream() string }

// overridable is an endpoint that another function may stand in for, stream by stream. That one gets the members of the
// request that are known.
func overridable[Req named, Res any](e endpoints, function string, f func(context.Context, *bus.Call, Req) (Res, error)) bus.Endpoint {
	ep := input.Endpoint(function, func(ctx context.Context, call *bus.Call, req Req) (any, error) {
		data, err := bus.Encode(req)
		if err != nil {
			return nil, err
		}
		result, served, err := e.override(ctx, function+"("+req.stream()+")", data)
		if err != nil || served {
			return result, err
		}
		return f(ctx, call, req)
	})
	ep.Response = input.Endpoint(function, f).Response
	return ep
}

type itemRequest struct {
	Stream string          `json:"stream_name"`
	Group  string          `json:"group_id"`
	Item   string          `json:"item_id"`
	Expect json.RawMessage `json:"expect,omitempty"`
}

func (r itemRequest) stream() string { return r.Stream }
func (r itemRequest) key() Key       { return Key{r.Stream, r.Group, r.Item} }

type setRequest struct {
	Stream string          `json:"stream_name"`
	Group  string          `json:"group_id"`
	Item   string          `json:"item_id"`
	Data   json.RawMessage `json:"data"`
	Expect json.RawMessage `json:"expect,omitempty"`
}

func (r setRequest) stream() string { return r.Stream }

func (e endpoints) set(ctx context.Context, call *bus.Call, req setRequest) (state.Written, error) {
	w := Write{Key: Key{req.Stream, req.Group, req.Item}, Kind: state.KindSet, Data: req.Data}
	return e.write(ctx, call, FunctionSet, protocol.CodeStreamSet, w, req.Expect)
}

type updateRequest struct {
	Stream string          `json:"stream_name"`
	Group  string          `json:"group_id"`
	Item   string          `json:"item_id"`
	Ops    []state.Op      `json:"ops"`
	Expect json.RawMessage `json:"expect,omitempty"`
}

func (r updateRequest) stream() string { return r.Stream }

func (e endpoints) update(ctx context.Context, call *bus.Call, req updateRequest) (state.Written, error) {
	if err := state.BadOps(FunctionUpdate, req.Ops); err != nil {
		return state.Written{}, err
	}
	w := Write{Key: Key{req.Stream, req.Group, req.Item}, Kind: state.KindUpdate, Ops: req.Ops}
	return e.write(ctx, call, FunctionUpdate, protocol.CodeStreamUpdate, w, req.Expect)
}

type deleteResponse struct {
	Old json.RawMessage `json:"old_value"`
}

func (e endpoints) delete(ctx context.Context, call *bus.Call, req itemRequest) (deleteResponse, error) {
	w := Write{Key: req.key(), Kind: state.KindDelete}
	done, err := e.write(ctx, call, FunctionDelete, protocol.CodeStreamDelete, w, req.Expect)
	return deleteResponse{done.Old}, err
}

// write makes one write under the condition of its request.
func (e endpoints) write(ctx context.Context, call *bus.Call, function, code string, w Write, expect json.RawMessage) (state.Written, error) {
	var err error
	if w.Expect, err = state.ReadExpect(function, expect); err != nil {
		return state.Written{}, err
	}
	if err := e.guard.Write(ctx, call, w.Stream, w.Group); err != nil {
		return state.Written{}, err
	}
	w.Origin = state.OriginOf(call)
	done, err := e.store.Submit(ctx, w).Wait(ctx)
	if err != nil {
		return state.Written{}, state.Failure(code, err)
	}
	return state.Written{Old: orNull(done.Old), New: orNull(done.New), Errors: done.OpErrors}, nil
}

func orNull(text json.RawMessage) json.RawMessage {
	if len(text) == 0 {
		return json.RawMessage("null")
	}
	return text
}
