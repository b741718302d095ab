package state

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/internal/input"
	"github.com/iii-aws/harness/engine/protocol"
)

// Function ids of Endpoints.
const (
	FunctionSet        = "state::set"
	FunctionGet        = "state::get"
	FunctionDelete     = "state::delete"
	FunctionUpdate     = "state::update"
	FunctionList       = "state::list"
	FunctionListGroups = "state::list_groups"
)

// reservedScopes starts the scopes in which the bus keeps its own records. The functions refuse them: what is written
// there decides who may do what.
const reservedScopes = "engine:"

// updateAttempts is how often an update without a condition is tried when other transactions are in the way.
const updateAttempts = 5

// endpoints are the functions over a store.
type endpoints struct {
	store Store
	guard Guard
}

// Endpoints serves state::* over a store.
func Endpoints(s Store, opts ...Option) map[string]bus.Endpoint {
	e := endpoints{s, Open{}}
	for _, o := range opts {
		o(&e)
	}
	return map[string]bus.Endpoint{
		FunctionSet:        input.Endpoint(FunctionSet, e.set),
		FunctionGet:        input.Endpoint(FunctionGet, e.get),
		FunctionDelete:     input.Endpoint(FunctionDelete, e.delete),
		FunctionUpdate:     input.Endpoint(FunctionUpdate, e.update),
		FunctionList:       input.Endpoint(FunctionList, e.list),
		FunctionListGroups: input.Endpoint(FunctionListGroups, e.listGroups),
	}
}

// Written is the result of a set or an update.
type Written struct {
	Old    json.RawMessage `json:"old_value"`
	New    json.RawMessage `json:"new_value"`
	Errors []OpError       `json:"errors,omitempty"`
}

// ReadExpect is the condition that a request carries. The error is a *bus.Error.
func ReadExpect(function string, raw json.RawMessage) (Expect, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return Expect{}, nil
	}
	var e struct {
		Absent  bool  `json:"absent,omitempty"`
		Version int64 `json:"version,omitempty"`
	}
	detail := input.Read(raw, &e)
	if detail == "" && (e.Absent == (e.Version != 0) || e.Version < 0) {
		detail = "invalid `expect`, expected {absent: true} or {version: n} with n from 1 on"
	}
	if detail != "" {
		return Expect{}, protocol.BadInput(function, detail)
	}
	return Expect{Absent: e.Absent, Version: e.Version}, nil
}

// OriginOf is who makes the call, for the triggers of what it writes.
func OriginOf(call *bus.Call) Origin {
	return Origin{Principal: call.Principal, Traceparent: call.Traceparent, Baggage: call.Baggage}
}

// Failure is an error of a store as callers of a function see it: conflicts and values that are too large have codes of
// their own, everything else has the code of the function.
func Failure(code string, err error) error {
	var conflict *ConflictError
	var large *TooLargeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &conflict):
		code = protocol.CodeConflict
	case errors.As(err, &large):
		code = protocol.CodeValueTooLarge
	}
	return &bus.Error{Code: code, Message: err.Error()}
}

// open refuses the scopes of the bus.
func open(code, scope string) error {
	if strings.HasPrefix(scope, reservedScopes) {
		return &bus.Error{Code: code, Message: "Scopes that start with " + reservedScopes + " belong to the bus."}
	}
	return nil
}

// orNull is text, or null if there is none.
func orNull(text json.RawMessage) json.RawMessage {
	if len(text) == 0 {
		return nullText
	}
	return text
}

type setRequest struct {
	Scope  string          `json:"scope"`
	Key    string          `json:"key"`
	Value  json.RawMessage `json:"value" alias:"data"`
	Expect json.RawMessage `json:"expect,omitempty"`
}

func (e endpoints) set(ctx context.Context, call *bus.Call, req setRequest) (Written, error) {
	w := Set(req.Scope, req.Key, req.Value)
	change, err := e.write(ctx, call, FunctionSet, protocol.CodeStateSet, w, req.Expect)
	return Written{Old: orNull(change.Old), New: orNull(change.New)}, err
}

// write makes one write under the condition of its request.
func (e endpoints) write(ctx context.Context, call *bus.Call, function, code string, w Write, expect json.RawMessage) (Change, error) {
	var err error
	if w.Expect, err = ReadExpect(function, expect); err != nil {
		return Change{}, err
	}
	if err := open(code, w.Scope); err != nil {
		return Change{}, err
	}
	if err := e.guard.Write(ctx, call, w.Scope, w.Key.Key); err != nil {
		return Change{}, err
	}
	w.Origin = OriginOf(call)
	change, err := Do(ctx, e.store, w)
	for try := 1; try < updateAttempts && w.Expect.IsZero(); try++ {
		var conflict *ConflictError
		if !errors.As(err, &conflict) {
			break
		}
		change, err = Do(ctx, e.store, w)
	}
	return change, Failure(code, err)
}

type deleteRequest struct {
	Scope  string          `json:"scope"`
	Key    string          `json:"key"`
	Expect json.RawMessage `json:"expect,omitempty"`
}

func (e endpoints) delete(ctx context.Context, call *bus.Call, req deleteRequest) (json.RawMessage, error) {
	change, err := e.write(ctx, call, FunctionDelete, protocol.CodeStateDelete, Delete(req.Scope, req.Key), req.Expect)
	return change.Old, err
}

type updateRequest struct {
	Scope  string          `json:"scope"`
	Key    string          `json:"key"`
	Ops    []Op            `json:"ops"`
	Expect json.RawMessage `json:"expect,omitempty"`
}

func (e endpoints) update(ctx context.Context, call *bus.Call, req updateRequest) (Written, error) {
	if err := BadOps(FunctionUpdate, req.Ops); err != nil {
		return Written{}, err
	}
	w := Update(req.Scope, req.Key, req.Ops...)
	change, err := e.write(ctx, call, FunctionUpdate, protocol.CodeStateUpdate, w, req.Expect)
	return Written{Old: orNull(change.Old), New: orNull(change.New), Errors: change.OpErrors}, err
}

// BadOps is the answer of a function to ops that are none.
func BadOps(function string, ops []Op) error {
	var syntax *OpSyntaxError
	if errors.As(CheckOps(ops), &syntax) {
		return protocol.BadInput(function, syntax.Detail)
	}
	return nil
}
