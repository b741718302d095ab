package registry

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
)

// WorkerSummary is a worker in a list; what is not known is null.
type WorkerSummary struct {
	Name              *string `json:"name"`
	Description       *string `json:"description"`
	Version           *string `json:"version"`
	ID                string  `json:"id"`
	Namespace         string  `json:"namespace"`
	Runtime           *string `json:"runtime"`
	OS                *string `json:"os"`
	Status            string  `json:"status"`
	FunctionCount     int     `json:"function_count"`
	ConnectedAtMS     int64   `json:"connected_at_ms"`
	ActiveInvocations int     `json:"active_invocations"`
	Isolation         *string `json:"isolation"`
	IPAddress         *string `json:"ip_address"`
	// Churn is how many connections of the worker were cut early in a row; absent if it is no such loop.
	Churn int `json:"churn,omitempty"`
}

// workerDetail is all that is told of a worker.
type workerDetail struct {
	WorkerSummary
	PID      *int64 `json:"pid,omitempty"`
	Internal bool   `json:"internal"`
	// LatestMetrics is the gauges that the worker sent in the last two minutes.
	LatestMetrics json.RawMessage `json:"latest_metrics,omitempty"`
}

// TriggerTypeSummary is a trigger type in a list.
type TriggerTypeSummary struct {
	ID          string `json:"id"`
	Namespace   string `json:"namespace"`
	WorkerName  string `json:"worker_name"`
	Description string `json:"description"`
}

// Summary is a type in a list.
func (t TriggerType) Summary() TriggerTypeSummary {
	return TriggerTypeSummary{ID: t.ID, Namespace: t.Namespace, WorkerName: t.WorkerName, Description: t.Description}
}

// TriggerSummary is a binding in a list.
type TriggerSummary struct {
	ID            string          `json:"id"`
	TriggerType   string          `json:"trigger_type"`
	FunctionID    string          `json:"function_id"`
	WorkerName    string          `json:"worker_name"`
	Config        json.RawMessage `json:"config"`
	ConfigSummary string          `json:"config_summary"`
}

// TriggerSummary is a binding in a list, with the worker whose function it calls.
func (r *Registry) TriggerSummary(t Trigger) TriggerSummary {
	return TriggerSummary{
		ID: t.ID, TriggerType: t.Type, FunctionID: t.FunctionID, WorkerName: r.WorkerName(t.Namespace, t.FunctionID),
		Config: t.Config, ConfigSummary: Clean(string(t.Config)),
	}
}

// WorkerName is the name of the worker that serves a function, else the first segment of the id.
func (r *Registry) WorkerName(namespace, functionID string) string {
	if e, ok := r.Lookup(namespace, functionID); ok {
		return e.WorkerName
	}
	return firstSegment(functionID)
}

type workersListRequest struct {
	Search  string `json:"search,omitempty"`
	Runtime string `json:"runtime,omitempty"`
	Status  string `json:"status,omitempty"`
}

type workersListResponse struct {
	Workers []WorkerSummary `json:"workers"`
}

// workersList leaves out connections that never told a process id: browser tabs, and those that have not announced. One
// that is cut as often as it comes is shown: it may never get as far as its announce.
func (e *endpoints) workersList(_ context.Context, _ *bus.Call, req workersListRequest) (workersListResponse, error) {
	search := strings.ToLower(req.Search)
	res := workersListResponse{Workers: []WorkerSummary{}}
	for _, w := range e.Workers() {
		switch {
		case !w.Builtin && w.PID == nil && e.v.Churn(w.Connection) == 0:
		case req.Runtime != "" && w.Runtime != req.Runtime:
		case req.Status != "" && w.Status != req.Status:
		case !strings.Contains(strings.ToLower(w.Name+"\n"+w.Description+"\n"+w.ID), search):
		default:
			res.Workers = append(res.Workers, e.worker(w))
		}
	}
	return res, nil
}

func (e *endpoints) worker(w Worker) WorkerSummary {
	s := WorkerSummary{
		Name: known(w.Name), Description: known(w.Description), Version: known(w.Version), ID: w.ID, Namespace: w.Namespace,
		Runtime: known(w.Runtime), OS: known(w.OS), Status: w.Status, FunctionCount: e.count(w),
		ConnectedAtMS: clock.Millis(w.ConnectedAt), Isolation: known(w.Isolation), IPAddress: known(w.IP),
	}
	if s.Namespace == "" {
		s.Namespace = bus.DefaultNamespace
	}
	if w.Builtin {
		s.ActiveInvocations = e.v.Active(w.ID)
	} else {
		s.ActiveInvocations, s.Churn = e.v.Active(w.Connection), e.v.Churn(w.Connection)
	}
	return s
}

func known(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// count is how many functions a worker has registered.
func (r *Registry) count(w Worker) int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if !w.Builtin {
		return len(r.byConn[w.Connection])
	}
	n := 0
	for _, s := range r.stacks {
		if s.base != nil && s.base.WorkerID == w.ID {
			n++
		}
	}
	return n
}

type workersInfoRequest struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
}

type workersInfoResponse struct {
	Worker             workerDetail         `json:"worker"`
	Functions          []FunctionSummary    `json:"functions"`
	TriggerTypes       []TriggerTypeSummary `json:"trigger_types"`
	RegisteredTriggers []TriggerSummary     `json:"registered_triggers"`
}

func (e *endpoints) workersInfo(_ context.Context, call *bus.Call, req workersInfoRequest) (workersInfoResponse, error) {
	w, err := e.findWorker(req.Namespace, req.Name)
	if err != nil {
		return workersInfoResponse{}, err
	}
	res := workersInfoResponse{
		Worker:    workerDetail{WorkerSummary: e.worker(w), PID: w.PID, LatestMetrics: e.v.Metrics(w.ID)},
		Functions: []FunctionSummary{}, TriggerTypes: []TriggerTypeSummary{}, RegisteredTriggers: []TriggerSummary{},
	}
	own := map[string]bool{}
	for _, entry := range e.All() {
		if entry.WorkerID == w.ID && e.v.Visible(call, entry.Namespace, entry.FunctionID) {
			res.Functions = append(res.Functions, Summary(entry))
			own[entry.Namespace+"\x00"+entry.FunctionID] = true
		}
	}
	for _, t := range e.v.Triggers.Types() {
		if t.WorkerName == w.Name {
			res.TriggerTypes = append(res.TriggerTypes, t.Summary())
		}
	}
	for _, t := range e.v.Triggers.All() {
		if own[t.Namespace+"\x00"+t.FunctionID] {
			res.RegisteredTriggers = append(res.RegisteredTriggers, e.TriggerSummary(t))
		}
	}
	return res, nil
}

// findWorker is the worker of a name; of several in one namespace the one that connected last.
func (r *Registry) findWorker(namespace, name string) (Worker, error) {
	var found []Worker
	var namespaces []string
	for _, w := range r.Workers() {
		if w.Namespace == "" {
			w.Namespace = bus.DefaultNamespace
		}
		if w.Name != name || name == "" || namespace != "" && w.Namespace != namespace {
			continue
		}
		found = append(found, w)
		if !slices.Contains(namespaces, w.Namespace) {
			namespaces = append(namespaces, w.Namespace)
		}
	}
	if len(found) == 0 {
		return Worker{}, notFound("Worker '" + name + "' is not connected.")
	}
	if namespace == "" {
		var err error
		if namespace, err = pick("Worker '"+name+"' is connected", namespaces); err != nil {
			return Worker{}, err
		}
	}
	for _, w := range slices.Backward(found) {
		if w.Namespace == namespace {
			return w, nil
		}
	}
	return Worker{}, notFound("Worker '" + name + "' is not connected.")
}
