package trigger

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/internal/input"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/engine/registry"
)

// Function ids of Endpoints.
const (
	FunctionTypesList  = "engine::triggers::list"
	FunctionTypesInfo  = "engine::triggers::info"
	FunctionList       = "engine::registered-triggers::list"
	FunctionInfo       = "engine::registered-triggers::info"
	FunctionRegister   = "engine::register_trigger"
	FunctionUnregister = "engine::unregister_trigger"
)

// Endpoints serves the lists of trigger types and bindings, and the making of stored bindings.
func (t *Table) Endpoints() map[string]bus.Endpoint {
	return map[string]bus.Endpoint{
		FunctionTypesList:  input.Endpoint(FunctionTypesList, t.typesList),
		FunctionTypesInfo:  input.Endpoint(FunctionTypesInfo, t.typesInfo),
		FunctionList:       input.Endpoint(FunctionList, t.list),
		FunctionInfo:       input.Endpoint(FunctionInfo, t.info),
		FunctionRegister:   input.Endpoint(FunctionRegister, t.register),
		FunctionUnregister: input.Endpoint(FunctionUnregister, t.unregister),
	}
}

type typesListRequest struct {
	Search          string `json:"search,omitempty"`
	Prefix          string `json:"prefix,omitempty"`
	Worker          string `json:"worker,omitempty"`
	IncludeInternal bool   `json:"include_internal,omitempty"`
}

type typesListResponse struct {
	Triggers []registry.TriggerTypeSummary `json:"triggers"`
}

func (t *Table) typesList(_ context.Context, _ *bus.Call, req typesListRequest) (typesListResponse, error) {
	res := typesListResponse{Triggers: []registry.TriggerTypeSummary{}}
	for _, k := range t.Types() {
		if (req.IncludeInternal || !k.Internal) && strings.HasPrefix(k.ID, req.Prefix) && (req.Worker == "" || k.WorkerName == req.Worker) && found(req.Search, k.ID, k.Description) {
			res.Triggers = append(res.Triggers, k.Summary())
		}
	}
	return res, nil
}

// found reports whether one of the texts has what is searched, without regard to case.
func found(search string, texts ...string) bool {
	return strings.Contains(strings.ToLower(strings.Join(texts, "\n")), strings.ToLower(search))
}

type typesInfoRequest struct {
	ID        string `json:"id"`
	Namespace string `json:"namespace,omitempty"`
}

// typeDetail is all that is told of a trigger type.
type typeDetail struct {
	registry.TriggerTypeSummary
	ConfigSchema   json.RawMessage `json:"configuration_schema,omitempty"`
	RequestSchema  json.RawMessage `json:"request_schema,omitempty"`
	ResponseSchema json.RawMessage `json:"response_schema,omitempty"`
	InstanceCount  int             `json:"instance_count"`
}

func (t *Table) typesInfo(_ context.Context, _ *bus.Call, req typesInfoRequest) (*typeDetail, error) {
	if req.Namespace == "" {
		req.Namespace = bus.DefaultNamespace
	}
	if d := t.typeDetail(req.Namespace, req.ID); d != nil {
		return d, nil
	}
	return nil, notFound("Trigger type '" + req.ID + "' is not registered in namespace '" + req.Namespace + "'.")
}

// typeDetail is nil for an unknown type.
func (t *Table) typeDetail(namespace, id string) *typeDetail {
	for _, k := range t.Types() {
		if k.ID != id || k.Namespace != namespace {
			continue
		}
		d := &typeDetail{
			TriggerTypeSummary: k.Summary(),
			ConfigSchema:       k.ConfigSchema, RequestSchema: k.RequestSchema, ResponseSchema: k.ResponseSchema,
		}
		d.InstanceCount = t.count(typeKey{namespace, id})
		return d
	}
	return nil
}

// count is how many bindings are of a type.
func (t *Table) count(k typeKey) int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	n := 0
	for _, b := range t.all {
		if t.typeOf(b) == k {
			n++
		}
	}
	return n
}

type listRequest struct {
	Search          string `json:"search,omitempty"`
	TriggerType     string `json:"trigger_type,omitempty"`
	FunctionID      string `json:"function_id,omitempty"`
	Worker          string `json:"worker,omitempty"`
	IncludeInternal bool   `json:"include_internal,omitempty"`
}

type listResponse struct {
	Triggers []registry.TriggerSummary `json:"registered_triggers"`
}

// list shows parked bindings too: that somebody wants to be called is what it is asked for.
func (t *Table) list(_ context.Context, _ *bus.Call, req listRequest) (listResponse, error) {
	res := listResponse{Triggers: []registry.TriggerSummary{}}
	for _, b := range t.All() {
		row := t.cfg.Registry.TriggerSummary(b)
		switch {
		case !req.IncludeInternal && registry.IsReserved(b.FunctionID):
		case req.TriggerType != "" && b.Type != req.TriggerType:
		case req.FunctionID != "" && b.FunctionID != req.FunctionID:
		case req.Worker != "" && row.WorkerName != req.Worker:
		case !found(req.Search, b.ID, b.Type, b.FunctionID, string(b.Config)):
		default:
			res.Triggers = append(res.Triggers, row)
		}
	}
	return res, nil
}

type infoRequest struct {
	ID string `json:"id"`
}

// infoResponse is all that is told of a binding. Trigger and Function are null if nobody provides or serves them.
type infoResponse struct {
	ID          string                   `json:"id"`
	TriggerType string                   `json:"trigger_type"`
	FunctionID  string                   `json:"function_id"`
	WorkerName  string                   `json:"worker_name"`
	Config      json.RawMessage          `json:"config"`
	Metadata    json.RawMessage          `json:"metadata,omitempty"`
	Trigger     *typeDetail              `json:"trigger"`
	Function    *registry.FunctionDetail `json:"function"`
	// Parked is why nothing fires the binding: no_provider, refused or revoked; absent if it is active.
	Parked string `json:"parked,omitempty"`
}

func (t *Table) info(_ context.Context, _ *bus.Call, req infoRequest) (infoResponse, error) {
	b := t.find(req.ID)
	if b == nil {
		return infoResponse{}, notFound("Registered trigger '" + req.ID + "' was not found.")
	}
	res := infoResponse{
		ID: b.id, TriggerType: b.kind, FunctionID: b.functionID, WorkerName: t.cfg.Registry.WorkerName(b.namespace, b.functionID),
		Config: b.config, Metadata: b.metadata,
	}
	t.mu.RLock()
	k := t.typeOf(b)
	res.Parked = t.parked(b)
	t.mu.RUnlock()
	res.Trigger = t.typeDetail(k.namespace, k.id)
	if e, ok := t.cfg.Registry.Lookup(b.namespace, b.functionID); ok {
		d := registry.Detail(e, t.All())
		res.Function = &d
	}
	return res, nil
}

func notFound(message string) error { return &bus.Error{Code: protocol.CodeNotFound, Message: message} }
