package registry

import (
	"context"
	"encoding/json"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/internal/input"
	"github.com/iii-aws/harness/engine/protocol"
)

// Function ids of Endpoints.
const (
	FunctionFunctionsList = "engine::functions::list"
	FunctionFunctionsInfo = "engine::functions::info"
	FunctionWorkersList   = "engine::workers::list"
	FunctionWorkersInfo   = "engine::workers::info"
	FunctionRelease       = "engine::registrations::release"
)

// TriggerType describes a trigger type.
type TriggerType struct {
	ID, Namespace, WorkerName, Description      string
	ConfigSchema, RequestSchema, ResponseSchema json.RawMessage
	// Internal types are shown only on request.
	Internal bool
}

// Trigger is one binding, parked ones included.
type Trigger struct {
	ID, Type, Namespace, FunctionID string
	Config, Metadata                json.RawMessage
}

// Triggers tells what is bound. Implementations are safe for concurrent use.
type Triggers interface {
	// Types is every trigger type, sorted by id.
	Types() []TriggerType
	// All is every binding, sorted by id.
	All() []Trigger
}

// Views is what Endpoints needs beside the registry; each may be nil.
type Views struct {
	Triggers Triggers
	// Visible says whether the caller may know of a function.
	Visible func(call *bus.Call, namespace, functionID string) bool
	// Active is how many calls a worker serves or waits for, by connection or name of a built-in worker.
	Active func(worker string) int
	// Churn is how many connections of a worker were cut early in a row, by connection; 0 for a worker that is no such loop.
	Churn func(connection string) int
	// Released hears that an id may be served by another now.
	Released func(namespace, functionID string)
	// Metrics is the latest gauges of a worker by its id, nil if there are none.
	Metrics func(workerID string) json.RawMessage
}

type endpoints struct {
	*Registry
	v Views
}

// Endpoints serves the lists of functions and workers and the release of sticky ids.
func (r *Registry) Endpoints(v Views) map[string]bus.Endpoint {
	if v.Triggers == nil {
		v.Triggers = noTriggers{}
	}
	if v.Visible == nil {
		v.Visible = func(*bus.Call, string, string) bool { return true }
	}
	if v.Active == nil {
		v.Active = func(string) int { return 0 }
	}
	if v.Churn == nil {
		v.Churn = func(string) int { return 0 }
	}
	if v.Released == nil {
		v.Released = func(string, string) {}
	}
	if v.Metrics == nil {
		v.Metrics = func(string) json.RawMessage { return nil }
	}
	e := &endpoints{r, v}
	return map[string]bus.Endpoint{
		FunctionFunctionsList: input.Endpoint(FunctionFunctionsList, e.functionsList),
		FunctionFunctionsInfo: input.Endpoint(FunctionFunctionsInfo, e.functionsInfo),
		FunctionWorkersList:   input.Endpoint(FunctionWorkersList, e.workersList),
		FunctionWorkersInfo:   input.Endpoint(FunctionWorkersInfo, e.workersInfo),
		FunctionRelease:       input.Endpoint(FunctionRelease, e.release),
	}
}

type noTriggers struct{}

func (noTriggers) Types() []TriggerType { return nil }
func (noTriggers) All() []Trigger       { return nil }

type releaseRequest struct {
	FunctionID string  `json:"function_id"`
	Namespace  *string `json:"namespace,omitempty"`
}

type releaseResponse struct {
	Released bool `json:"released"`
	// NowServedBy is the name of the worker that serves the id; null if nobody does.
	NowServedBy *string `json:"now_served_by"`
}

func (e *endpoints) release(ctx context.Context, call *bus.Call, req releaseRequest) (releaseResponse, error) {
	if !call.Principal.SeesAll() {
		return releaseResponse{}, forbidden(FunctionRelease + " is for operators.")
	}
	released, now, ok, err := e.Release(ctx, namespaceOf(req.Namespace), req.FunctionID)
	if err != nil {
		return releaseResponse{}, err
	}
	e.v.Released(namespaceOf(req.Namespace), req.FunctionID)
	res := releaseResponse{Released: released}
	if ok {
		res.NowServedBy = &now.WorkerName
	}
	e.log.Info("a sticky function was released", "function_id", req.FunctionID, "released", released, "by", call.Principal.Actor())
	return res, nil
}

func namespaceOf(ns *string) string {
	if ns == nil {
		return bus.DefaultNamespace
	}
	return *ns
}

func forbidden(message string) error {
	return &bus.Error{Code: protocol.CodeForbidden, Message: message}
}

func notFound(message string) error {
	return &bus.Error{Code: protocol.CodeNotFound, Message: message}
}

func invalidArguments(message string) error {
	return &bus.Error{Code: protocol.CodeInvalidArguments, Message: message}
}
