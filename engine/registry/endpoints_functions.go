package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/iii-aws/harness/engine/bus"
)

// maxBatch is the largest number of functions of one info call.
const maxBatch = 32

// FunctionSummary is a function in a list.
type FunctionSummary struct {
	FunctionID  string          `json:"function_id"`
	Namespace   string          `json:"namespace"`
	WorkerName  string          `json:"worker_name"`
	Description string          `json:"description,omitempty"`
	Metadata    json.RawMessage `json:"metadata,omitempty"`
}

// FunctionDetail is all that is told of a function.
type FunctionDetail struct {
	FunctionSummary
	RequestSchema      json.RawMessage   `json:"request_schema,omitempty"`
	ResponseSchema     json.RawMessage   `json:"response_schema,omitempty"`
	RegisteredTriggers []FunctionTrigger `json:"registered_triggers"`
}

// FunctionTrigger is a binding as the detail of its function shows it.
type FunctionTrigger struct {
	ID          string          `json:"id"`
	TriggerType string          `json:"trigger_type"`
	Config      json.RawMessage `json:"config"`
}

// Summary is an entry in a list.
func Summary(e bus.Entry) FunctionSummary {
	return FunctionSummary{
		FunctionID: e.FunctionID, Namespace: e.Namespace, WorkerName: e.WorkerName,
		Description: e.Description, Metadata: e.Metadata,
	}
}

// Detail is an entry with the bindings that call it.
func Detail(e bus.Entry, bound []Trigger) FunctionDetail {
	d := FunctionDetail{
		FunctionSummary: Summary(e), RequestSchema: e.RequestSchema, ResponseSchema: e.ResponseSchema,
		RegisteredTriggers: []FunctionTrigger{},
	}
	for _, t := range bound {
		if t.FunctionID == e.FunctionID && t.Namespace == e.Namespace {
			d.RegisteredTriggers = append(d.RegisteredTriggers, FunctionTrigger{t.ID, t.Type, t.Config})
		}
	}
	return d
}

type functionsListRequest struct {
	Search          string   `json:"search,omitempty"`
	Prefix          string   `json:"prefix,omitempty"`
	Worker          string   `json:"worker,omitempty"`
	Workers         []string `json:"workers,omitempty"`
	IncludeInternal bool     `json:"include_internal,omitempty"`
}

type functionsListResponse struct {
	Functions []FunctionSummary `json:"functions"`
}

func (e *endpoints) functionsList(_ context.Context, call *bus.Call, req functionsListRequest) (functionsListResponse, error) {
	search := strings.ToLower(req.Search)
	var byID, byText []bus.Entry
	for _, entry := range e.All() {
		switch {
		case !req.IncludeInternal && hidden(entry):
		case !strings.HasPrefix(entry.FunctionID, req.Prefix):
		case req.Worker != "" && entry.WorkerName != req.Worker:
		case len(req.Workers) > 0 && !slices.Contains(req.Workers, entry.WorkerName):
		case !e.v.Visible(call, entry.Namespace, entry.FunctionID):
		case strings.Contains(strings.ToLower(entry.FunctionID), search):
			byID = append(byID, entry)
		case strings.Contains(strings.ToLower(entry.Description), search):
			byText = append(byText, entry)
		}
	}
	res := functionsListResponse{Functions: []FunctionSummary{}}
	for _, entry := range append(byID, byText...) {
		res.Functions = append(res.Functions, Summary(entry))
	}
	return res, nil
}

// hidden reports whether a function is left out of lists.
func hidden(e bus.Entry) bool {
	return e.Meta.Internal || IsReserved(e.FunctionID) && !strings.HasPrefix(e.FunctionID, "engine::queue::")
}

type functionsInfoRequest struct {
	FunctionID  *string  `json:"function_id,omitempty"`
	FunctionIDs []string `json:"function_ids,omitempty"`
	Namespace   string   `json:"namespace,omitempty"`
}

// missingFunction is a function of a batch that is not told of.
type missingFunction struct {
	FunctionID string `json:"function_id"`
	Error      string `json:"error"` // forbidden or not_found
}

func (e *endpoints) functionsInfo(_ context.Context, call *bus.Call, req functionsInfoRequest) (any, error) {
	switch {
	case req.FunctionID == nil && req.FunctionIDs == nil:
		return nil, invalidArguments("missing field `function_id` (or `function_ids` for a batch)")
	case req.FunctionID != nil && req.FunctionIDs != nil:
		return nil, invalidArguments("`function_id` and `function_ids` exclude each other")
	case len(req.FunctionIDs) > maxBatch:
		return nil, invalidArguments(fmt.Sprintf("`function_ids` has %d entries, at most %d are allowed", len(req.FunctionIDs), maxBatch))
	}
	bound := e.v.Triggers.All()
	if req.FunctionID != nil {
		entry, err := e.find(req.Namespace, *req.FunctionID)
		if err != nil {
			return nil, err
		}
		if !e.v.Visible(call, entry.Namespace, entry.FunctionID) {
			return nil, forbidden("Function '" + entry.FunctionID + "' is outside the scope of this connection.")
		}
		return Detail(entry, bound), nil
	}
	rows := make([]any, 0, len(req.FunctionIDs))
	for _, id := range req.FunctionIDs {
		switch entry, err := e.find(req.Namespace, id); {
		case err != nil:
			rows = append(rows, missingFunction{id, "not_found"})
		case !e.v.Visible(call, entry.Namespace, entry.FunctionID):
			rows = append(rows, missingFunction{id, "forbidden"})
		default:
			rows = append(rows, Detail(entry, bound))
		}
	}
	return map[string]any{"functions": rows}, nil
}

// find is the entry of an id. Without a namespace the default one counts, else the only one that has the id.
func (r *Registry) find(namespace, id string) (bus.Entry, error) {
	if namespace != "" {
		if e, ok := r.Lookup(namespace, id); ok {
			return e, nil
		}
		return bus.Entry{}, notFound("Function '" + id + "' is not registered in namespace '" + namespace + "'.")
	}
	namespace, err := pick("Function '"+id+"' is registered", r.Namespaces(id))
	if err != nil {
		return bus.Entry{}, err
	}
	if e, ok := r.Lookup(namespace, id); ok {
		return e, nil
	}
	return bus.Entry{}, notFound("Function '" + id + "' is not registered.")
}

// pick chooses among the namespaces that have something: the default one, else the only one.
func pick(what string, namespaces []string) (string, error) {
	if len(namespaces) < 2 || slices.Contains(namespaces, bus.DefaultNamespace) {
		if len(namespaces) == 1 {
			return namespaces[0], nil
		}
		return bus.DefaultNamespace, nil
	}
	sort.Strings(namespaces)
	return "", notFound(what + " in several namespaces: " + strings.Join(namespaces, ", ") + ". Name one in `namespace`.")
}
